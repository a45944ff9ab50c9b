/// The serial executor of a tree, shared by its stores and all work on their states: an action passes through a path of
/// stores without a hop.
public struct StoreExecutor: Sendable {
  enum Kind {
    case own
    case mainActor
    case brought(any SerialExecutor)
  }

  let kind: Kind

  /// Whether each step of the tree is a job of its own.
  @usableFromInline var goesStepByStep: Bool {
    guard case .brought(let executor) = kind else { return false }
    return (executor as? any StepByStep)?.isStepByStep == true
  }

  /// An executor of the tree's own, on the global thread pool. The fastest to reach.
  ///
  /// Swift runs its jobs on the calling task's preferred task executor, if any: if that pauses during a `send`, it
  /// blocks the tree for everyone. If callers may prefer such executors, use `.serial`.
  public static var own: StoreExecutor { StoreExecutor(kind: .own) }

  /// The main actor's executor.
  public static var mainActor: StoreExecutor { StoreExecutor(kind: .mainActor) }

  /// An executor of the caller's, kept alive by the tree, which depends on no other, not even on the thread pool.
  /// Requests are enqueued there at once, as on the main actor.
  public static func serial(_ executor: any SerialExecutor) -> StoreExecutor {
    StoreExecutor(kind: .brought(executor))
  }
}

extension StoreExecutor {
  /// Runs one call at a time on this executor.
  package func running<Input: Sendable, Output: Sendable>(
    _ body: @escaping @Sendable (Input) -> Output
  ) -> @Sendable (Input) async -> Output {
    let runner = Runner(self)
    return { input in await runner.run { body(input) } }
  }

  private actor Runner {
    private nonisolated let executor: ExecutorReference
    // SAFETY: the executor lives as long as this actor, which holds it.
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.unowned }

    init(_ executor: StoreExecutor) {
      self.executor = ExecutorReference(executor)
    }

    func run<Result: Sendable>(_ body: @Sendable () -> Result) -> Result { body() }
  }
}

extension StoreExecutor {
  /// An executor for tests, on which a tree does one thing in each job.
  package protocol StepByStep: SerialExecutor {
    var isStepByStep: Bool { get }
  }
}

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
