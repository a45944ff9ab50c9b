/// A serial executor, looked up once and kept alive.
///
/// SAFETY: the unowned reference is stored next to the object that keeps its executor alive. The main actor's executor
/// lives forever.
@usableFromInline @safe struct ExecutorReference: Sendable {
  @usableFromInline let unowned: UnownedSerialExecutor
  @usableFromInline let owner: (any AnyObject & Sendable)?

  @usableFromInline init(_ executor: StoreExecutor) {
    switch executor.kind {
    case .own:
      let own = Own()
      owner = own
      unsafe unowned = own.unownedExecutor
    case .mainActor:
      owner = nil
      unsafe unowned = MainActor.sharedUnownedExecutor
    case .brought(let executor):
      owner = executor
      unsafe unowned = executor.asUnownedSerialExecutor()
    }
  }

  private actor Own {}
}
