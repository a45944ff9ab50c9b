/// The isolation of some tree: proof, for the compiler, that code runs on its executor.
@usableFromInline
protocol TreeIsolation: Actor {}

/// A store's place in its tree, whatever the tree's actions are: all that can be asked of it but to take an action.
@usableFromInline
protocol StorePlace: AnyObject, Sendable {
  var id: StoreID { get }
  var parentPlace: (any StorePlace)? { get }
  var hasStoresBelow: Bool { get }
  var treeID: ObjectIdentifier { get }
  var tasks: any StoreTasks { get }
  /// Whether this store or one above it takes nothing any more.
  var isClosed: Bool { get }

  /// Gives a command its place in the order; false where the store is closed.
  func order(_ command: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> Bool

  /// Runs a closure on the executor after everything that was asked before.
  nonisolated(nonsending) func visit<Result: Sendable>(
    _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result
}

extension StorePlace {
  /// Whether an action given to this store passes through the other.
  @usableFromInline
  func isBelow(_ other: any StorePlace) -> Bool {
    var next: (any StorePlace)? = self
    while let place = next {
      if place === other { return true }
      next = place.parentPlace
    }
    return false
  }
}

/// The tasks that belong to the stores of a tree, and what is to be done when a store ends.
@usableFromInline
protocol StoreTasks: Sendable {
  /// Starts a task that belongs to a store. Only on the tree's executor, and while the store has not ended.
  func start(_ work: @escaping @Sendable () async -> Void, of place: any StorePlace)
  /// Has something done when a store ends, after its last commit; at once where it has ended.
  func atEnd(of place: any StorePlace, _ action: @escaping @Sendable () -> Void) -> StoreEnding
  /// It does not need to be done any more.
  func forget(_ ending: StoreEnding)
  /// How many tasks run.
  var runningCount: Int { get }
  /// Ends the tasks of a store and of all below it, and does what is to be done at their end.
  func end(below place: any StorePlace, cancelling: Bool)
  /// Returns when all tasks of a store and of all below it have ended.
  func untilEnded(below place: any StorePlace) async
}

/// What is to be done at the end of a store, to be able to take it back.
@usableFromInline
struct StoreEnding: Sendable {
  @usableFromInline
  let place: ObjectIdentifier
  @usableFromInline
  let number: Int

  @inlinable
  init(place: ObjectIdentifier, number: Int) {
    self.place = place
    self.number = number
  }
}
