import Synchronization

/// A store of the tree as its actions see it: where they are given, and from where they take their path up (G2).
///
/// It outlives its store, so that proxies can hold it and learn that the store is gone.
final class Origin<Action: Sendable>: Sendable {
  let tree: Tree<Action>
  let parent: Origin?
  let node: Confined<any StoreNode<Action>>
  private let closed = Atomic(false)

  init(tree: Tree<Action>, parent: Origin?, node: Confined<any StoreNode<Action>>) {
    self.tree = tree
    self.parent = parent
    self.node = node
  }

  /// Whether this store or one above it takes nothing any more.
  var isClosed: Bool {
    var next: Origin? = self
    while let origin = next {
      if origin.closed.load(ordering: .relaxed) { return true }
      next = origin.parent
    }
    return false
  }

  /// Closes the store; false where it was closed already. Only under the inbox's lock.
  func close() -> Bool {
    closed.exchange(true, ordering: .relaxed) == false
  }

  /// Whether an action given to this store passes through the other.
  func isBelow(_ other: Origin) -> Bool {
    var next: Origin? = self
    while let origin = next {
      if origin === other { return true }
      next = origin.parent
    }
    return false
  }
}
