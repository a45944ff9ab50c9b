/// A store's node in its tree, whatever the type of the actions: all that it can be asked except to take an action.
@usableFromInline protocol AnyStoreNode: CommandQueue {
  var id: StoreID { get }
  var parentNode: (any AnyStoreNode)? { get }
  /// Whether this store or one above it is closed, at least to all but its own effects.
  var isClosed: Bool { get }
  /// Whether the store or view lies below `AnySource.greatestLevel`, and so is closed from the start.
  var isTooDeep: Bool { get }
  /// A view of this store that is too deep, without a report.
  func makeClosedView() -> any AnyStoreNode
  /// Whether the store accepts nothing any more, not even from its own effects.
  var hasEnded: Bool { get }
  /// The task-local values that are set now, if the tree carries any.
  var carriedContext: CarriedValues.Context? { get }
  /// The answer of `dispatch` while the tree takes no actions.
  var refusal: DispatchResult? { get }
  /// Gives a command its place in the order, even if the store has ended.
  func place(_ command: Command)
  /// Like `place`, behind the commits of the actions that have been submitted by then.
  func placeBehindCommits(_ command: Command)
  /// Like `enqueue`, for an effect, which may be let in when others are not.
  func enqueue(_ command: Command, by effect: RunningEffect) -> Bool
  /// Whether the store refuses a caller. It does not refuse an effect that it waits for.
  func refuses(_ effect: RunningEffect?) -> Bool

  /// The task registry of the tree's stores; made when it is first needed.
  func taskRegistry(orMake make: (TaskPriority?) -> TaskRegistry) -> TaskRegistry
  var existingTaskRegistry: TaskRegistry? { get }

  /// Notes that the commit in progress begins effects, which the task registry starts at the commit's end. False if
  /// the tree is not at work. On the executor.
  func owesStarts() -> Bool

  /// Whether the action being committed was submitted before, as the order comes from elsewhere. On the executor.
  var commitsSubmitted: Bool { get }

  /// Calls a closure that makes a commit, as part of awaited work if there is any. Of nested calls the outermost
  /// decides, made for the caller that gave the store the action.
  func committing<Failure: Error>(
    of awaitedWork: AwaitedWork?, on tree: isolated any TreeIsolation, _ body: () throws(Failure) -> Void
  ) throws(Failure)

  /// Like the tree's `run`, for this store.
  ///
  /// - Parameter effect: The caller, if it is known otherwise than by the current task.
  func run<Result: Sendable>(
    isolation: isolated (any Actor)?, by effect: RunningEffect?,
    _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result,
    pending: @Sendable () -> PendingRequest<Result>
  ) async throws(StoreError) -> Result

  /// How many actions the tree has committed.
  var commitCount: Int { get }

  /// Sets a closure that gives the store its last actions when the store, or one above it, is closed, behind everything
  /// that it has accepted; nil removes it. Only if the order comes from elsewhere. On the executor.
  func setFarewell(
    _ farewell: (@Sendable (isolated any TreeIsolation) -> Void)?, of owner: ObjectIdentifier,
    on tree: isolated any TreeIsolation)

  /// The instrument of the tree.
  var instrument: TreeInstrument? { get }

  /// Returns when nothing waits in the tree: all earlier requests are done, and the requests that they have made in
  /// turn.
  func untilQuiet(isolation: isolated (any Actor)?) async
}

extension AnyStoreNode {
  /// The error for a caller that the store refuses.
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
