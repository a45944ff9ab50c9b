/// A store's node in its tree, whatever the type of the actions: all that it can be asked except to take an action.
@usableFromInline protocol AnyStoreNode: CommandQueue {
  var id: StoreID { get }
  var parentNode: (any AnyStoreNode)? { get }
  /// Whether this store or one above it is closed, at least to all but its own effects.
  var isClosed: Bool { get }
  /// Whether it, or what it is a view of, is below `AnySource.greatestLevel`, and so closed from the start.
  var isTooDeep: Bool { get }
  /// A view of this store that is too deep.
  func makeTooDeepView() -> any AnyStoreNode
  /// Whether nothing gets into it any more, not even from its own effects.
  var hasEnded: Bool { get }
  /// The task-local values that are set now, if the tree carries any.
  var carriedContext: CarriedValues.Context? { get }
  /// What `dispatch` answers while the tree takes nothing.
  var refusal: DispatchResult? { get }
  /// Gives a command its place in the order, whatever has ended.
  func place(_ command: Command)
  /// Like `enqueue`, for an effect, which may be let in when others are not.
  func enqueue(_ command: Command, by effect: RunningEffect) -> Bool
  /// Whether it refuses a caller: an effect that it waits for is not refused.
  func refuses(_ effect: RunningEffect?) -> Bool

  /// The task registry of the tree's stores; made when it is first needed.
  func taskRegistry(orMake make: (TaskPriority?) -> TaskRegistry) -> TaskRegistry
  var existingTaskRegistry: TaskRegistry? { get }

  /// Whether what is being committed has been submitted before, as the order comes from elsewhere. On the executor.
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

  /// Returns when nothing waits in the tree: what was requested before is done, and what that has requested in turn.
  func untilQuiet(isolation: isolated (any Actor)?) async
}

extension AnyStoreNode {
  /// What a caller is told whom the store refuses.
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
