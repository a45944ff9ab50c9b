@usableFromInline protocol AnyStoreNode: CommandQueue {
  var id: StoreID { get }
  var parentNode: (any AnyStoreNode)? { get }
  /// Whether this store or one above it is closed, at least to all but its own effects.
  var isClosed: Bool { get }
  var isTooDeep: Bool { get }
  /// A view of this store that is too deep, without a report.
  func makeClosedView() -> any AnyStoreNode
  /// Whether the store accepts nothing any more, not even from its own effects.
  var hasEnded: Bool { get }
  var carriedContext: CarriedValues.Context? { get }
  var refusal: DispatchResult? { get }
  /// Gives a command its place in the order, even if the store has ended.
  func place(_ command: Command)
  /// Like `place`, after the commits of the actions that have been submitted by then.
  func placeBehindCommits(_ command: Command)
  /// Like `enqueue`, for an effect, which a finishing store may still accept.
  func enqueue(_ command: Command, by effect: RunningEffect) -> Bool
  /// Whether the store refuses a caller. It accepts an effect that it waits for.
  func refuses(_ effect: RunningEffect?) -> Bool

  func taskRegistry(orMake make: (TaskPriority?) -> TaskRegistry) -> TaskRegistry
  var existingTaskRegistry: TaskRegistry? { get }

  /// Notes that the commit in progress begins effects, which start at its end. False if no work of the tree is in
  /// progress. On the executor.
  func owesStarts() -> Bool

  /// Whether the action being committed was submitted before, to an external order. On the executor.
  var commitsSubmitted: Bool { get }

  /// Calls a closure that makes a commit, as part of awaited work if there is any. Of nested calls, the outermost
  /// decides: it is made for the caller that gave the store the action.
  func committing<Failure: Error>(
    of awaitedWork: AwaitedWork?, on tree: isolated any TreeIsolation, _ body: () throws(Failure) -> Void
  ) throws(Failure)

  func run<Result: Sendable>(
    isolation: isolated (any Actor)?, by effect: RunningEffect?,
    _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result,
    pending: @Sendable () -> PendingRequest<Result>
  ) async throws(StoreError) -> Result

  var commitCount: Int { get }

  /// Sets a closure that gives the store its last actions when it, or a store above it, is closed; nil removes it. Only
  /// with an external order. On the executor.
  func setFarewell(
    _ farewell: (@Sendable (isolated any TreeIsolation) -> Void)?, of owner: ObjectIdentifier,
    on tree: isolated any TreeIsolation)

  var instrument: TreeInstrument? { get }

  /// Returns when all earlier requests are done, and all requests that these have made in turn.
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
