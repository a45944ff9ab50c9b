@usableFromInline protocol AnyStoreNode: CommandQueue {
  var id: StoreID { get }
  var parentNode: (any AnyStoreNode)? { get }
  /// Also true if an ancestor is closed, or only the store's own effects are accepted.
  var isClosed: Bool { get }
  var isTooDeep: Bool { get }
  func makeClosedView() -> any AnyStoreNode
  /// Whether the store refuses even its own effects.
  var hasEnded: Bool { get }
  var carriedContext: CarriedValues.Context? { get }
  /// The external order's reason to refuse every action.
  var refusal: DispatchResult? { get }
  /// The result of a `dispatch` that the external order refuses, also because too many requests wait. Nil if the store
  /// itself refuses the caller.
  func refusal(of effect: RunningEffect?) -> DispatchResult?
  /// Appends a command to the order, even after the store's end.
  func place(_ command: Command)
  /// Like `place`, after the commits of all submitted actions.
  func placeBehindCommits(_ command: Command)
  func enqueue(_ command: Command, by effect: RunningEffect) -> Bool
  func refuses(_ effect: RunningEffect?) -> Bool

  func taskRegistry(orMake make: (TaskPriority?) -> TaskRegistry) -> TaskRegistry
  var existingTaskRegistry: TaskRegistry? { get }

  /// Notes effects that start at the end of the current commit. False if the tree is not at work. On the executor.
  func owesStarts() -> Bool

  /// Whether the action being committed was submitted to an external order. On the executor.
  var commitsSubmitted: Bool { get }

  /// Of nested calls, the outermost decides: its caller gave the store the action.
  func committing<Failure: Error>(
    of awaitedWork: AwaitedWork?, on tree: isolated any TreeIsolation, _ body: () throws(Failure) -> Void
  ) throws(Failure)

  func run<Result: Sendable>(
    isolation: isolated (any Actor)?, by effect: RunningEffect?,
    _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result,
    pending: @Sendable () -> PendingRequest<Result>
  ) async throws(StoreError) -> Result

  var commitCount: Int { get }

  /// Sets the closure that gives the store its last actions when it or an ancestor is closed; nil removes it. Only with
  /// an external order.
  func setFarewell(
    _ farewell: (@Sendable (isolated any TreeIsolation) -> Void)?, of owner: ObjectIdentifier,
    on tree: isolated any TreeIsolation)

  var instrument: TreeInstrument? { get }

  /// Returns when all requests, and those that they made in turn, are done.
  func untilQuiet(isolation: isolated (any Actor)?) async
}

extension AnyStoreNode {
  @usableFromInline var errorWhenClosed: StoreError { isTooDeep ? .tooDeep : .terminated }
  @usableFromInline var resultWhenClosed: DispatchResult { isTooDeep ? .tooDeep : .terminated }

  func isAt(orBelow other: any AnyStoreNode) -> Bool {
    var next: (any AnyStoreNode)? = self
    while let node = next {
      if node === other { return true }
      next = node.parentNode
    }
    return false
  }
}
