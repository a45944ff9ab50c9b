/// A serial executor, looked up once and kept alive.
///
/// SAFETY: the reference that is not counted lies beside the object that keeps its executor alive. The main actor's
/// lives for ever.
@usableFromInline @safe struct ExecutorReference: Sendable {
  @usableFromInline let unowned: UnownedSerialExecutor
  @usableFromInline let owner: (any AnyObject & Sendable)?

  @usableFromInline init(_ executor: StoreExecutor) {
    switch executor.kind {
    case .own:
      let own = OwnExecutor()
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
}

private actor OwnExecutor {}
