import Synchronization

/// A store of the tree as its actions see it: where they are given, and from where they take their path up (G2).
///
/// It outlives its store, so that proxies can hold it and learn that the store is gone.
final class Origin<Action: Sendable>: Sendable {
  let tree: Tree<Action>
  let parent: Origin?
  let node: Confined<StoreNode<Action>>
  let closed = Atomic(false)

  init(tree: Tree<Action>, parent: Origin?, node: Confined<StoreNode<Action>>) {
    self.tree = tree
    self.parent = parent
    self.node = node
  }

  /// Whether this store or one above it takes nothing any more.
  var isClosed: Bool {
    if closed.load(ordering: .relaxed) { return true }
    var next = parent
    while let origin = next {
      if origin.closed.load(ordering: .relaxed) { return true }
      next = origin.parent
    }
    return false
  }

  /// Closes the store. Only under the inbox's lock.
  func close() {
    closed.store(true, ordering: .relaxed)
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

/// What a tree does with one of its stores. Lives on the tree's executor.
struct StoreNode<Action> {
  let reduce: (Action) -> Void
  /// Hands the store's state to everybody who watches, here and below.
  let publish: () -> Void
  /// Ends the sequences of the store and of everything below it.
  let end: () -> Void
  /// Drops the state of a store that is gone.
  let release: () -> Void

  init<State: Sendable, Local: Sendable>(cell: StateCell<Local, Action>, source: Source<State>)
  where Action: Sendable {
    reduce = { cell.reduce($0) }
    publish = {
      guard source.channel != nil || !source.downstreams.isEmpty else { return }
      source.withState { source.publish($0) }
    }
    end = { source.end() }
    release = { cell.state = nil }
  }
}
