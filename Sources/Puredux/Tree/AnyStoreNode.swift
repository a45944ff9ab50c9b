/// A store's node in its tree, whatever the tree's actions are: all that can be asked of it but to take an action.
@usableFromInline protocol AnyStoreNode: CommandQueue {
  var id: StoreID { get }
  var parentNode: (any AnyStoreNode)? { get }
  /// Whether this store or one above it takes nothing any more.
  var isClosed: Bool { get }
  /// Whether nobody gets anything into it any more, not even its own effects.
  var hasEnded: Bool { get }
  /// The task-local values that there are now, where the tree carries any.
  var carriedContext: CarriedContext? { get }
  /// What `dispatch` answers while the tree takes nothing.
  var refusal: DispatchResult? { get }
  /// As `enqueue`, by an effect that may be let in where others are not.
  func enqueue(_ command: Command, by effect: RunningEffect) -> Bool
  /// Whether it refuses who asks: an effect that it waits for is not refused.
  func refuses(_ effect: RunningEffect?) -> Bool

  /// What belongs to the stores of the tree and ends with them; made when it is first needed.
  func companion(orMake make: (TaskPriority?) -> StoreCompanion) -> StoreCompanion

  /// As the tree's, for this store.
  func run<Result: Sendable>(
    isolation: isolated (any Actor)?, _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result,
    late: @Sendable () -> LateVisit<Result>
  ) async throws(StoreError) -> Result
}

extension AnyStoreNode {
  func isAt(orBelow other: any AnyStoreNode) -> Bool {
    var next: (any AnyStoreNode)? = self
    while let node = next {
      if node === other { return true }
      next = node.parentNode
    }
    return false
  }
}

/// What belongs to the stores of a tree and is told of their end.
///
/// SAFETY: has no variables; what inherits from it answers for its own. The compiler does not check a class that can be
/// inherited from.
@usableFromInline class StoreCompanion: @unchecked Sendable {
  init() {}

  /// A store has ended, and with it all below it.
  @usableFromInline func end(below node: any AnyStoreNode, cancelling: Bool) {}

  /// How many tasks run.
  var runningCount: Int { 0 }

  /// How many effects run or wait under each id. Only on the tree's executor.
  var namedCounts: [String: Int] { [:] }
}
