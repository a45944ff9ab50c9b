/// The isolation of some tree: proof, for the compiler, that code runs on its executor.
@usableFromInline
protocol TreeIsolation: Actor {
  /// The turn of a visitor who came from within has come.
  func giveTurn(to visitor: Waiter<Void>)
}

/// A store's place in its tree, whatever the tree's actions are: all that can be asked of it but to take an action.
@usableFromInline
protocol StorePlace: AnyObject, Sendable {
  var id: StoreID { get }
  var parentPlace: (any StorePlace)? { get }
  /// The tasks of the tree's stores.
  var effects: TreeEffects { get }
  /// Whether this store or one above it takes nothing any more.
  var isClosed: Bool { get }

  /// Gives a command its place in the order; false where the store is closed.
  func order(_ command: Command) -> Bool

  /// Runs a closure on the executor after everything that was asked before.
  func visit<Result: Sendable>(
    isolation: isolated (any Actor)?, _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result
}

extension StorePlace {
  @inlinable
  func order(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> Bool { order(Call(body)) }
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
