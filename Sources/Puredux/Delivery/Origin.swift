import Synchronization

/// A store of the tree as its actions see it: where they are given, and from where they take their path up (G2).
///
/// It outlives its store, so that proxies can hold it and learn that the store is gone.
@usableFromInline
final class Origin<Action: Sendable>: StorePlace {
  @usableFromInline
  let tree: Tree<Action>
  @usableFromInline
  let parent: Origin?
  @usableFromInline
  let id: StoreID
  @usableFromInline
  let node: Confined<StoreNode<Action>>
  @usableFromInline
  let closed = Atomic(false)
  /// Whether there is more on its path than reducers.
  @usableFromInline
  let isAttended: Bool

  @inlinable
  init(tree: Tree<Action>, parent: Origin?, node: consuming Confined<StoreNode<Action>>, isAttended: Bool) {
    self.isAttended = isAttended || parent?.isAttended == true
    self.tree = tree
    self.parent = parent
    self.node = node
    id = tree.nextStoreID()
  }

  @inlinable
  func dispatch(_ action: Action) -> DispatchResult {
    tree.order(action, from: self) ? .enqueued : .terminated
  }

  @inlinable
  var isClosed: Bool {
    if closed.load(ordering: .relaxed) { return true }
    return parent != nil && isClosedAbove
  }

  /// Without counting references on the way up, which would cost more than the reducers on it.
  @inlinable
  var isClosedAbove: Bool {
    var next = parent.map(Borrowed.init)
    while let place = next {
      if place.withObject({ $0.closed.load(ordering: .relaxed) }) { return true }
      next = place.withObject { $0.parent.map(Borrowed.init) }
    }
    return false
  }

  /// Closes the store. Only under the inbox's lock.
  @inlinable
  func close() {
    closed.store(true, ordering: .relaxed)
  }

  // MARK: Its place

  @usableFromInline
  var parentPlace: (any StorePlace)? { parent }

  @inlinable
  func order(_ command: Command) -> Bool { tree.order(command, for: self) }

  @inlinable
  nonisolated(nonsending) func visit<Result: Sendable>(
    _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await tree.visit { tree throws(StoreError) in try body(tree) }
  }
}
