import Synchronization

/// A store of the tree as its actions see it: where they are given, and from where they take their path up (G2).
///
/// It outlives its store, so that proxies can hold it and learn that the store is gone.
@usableFromInline
final class Origin<Action: Sendable>: Sendable {
  @usableFromInline
  let tree: Tree<Action>
  @usableFromInline
  let parent: Origin?
  @usableFromInline
  let node: Confined<StoreNode<Action>>
  @usableFromInline
  let closed = Atomic(false)

  @inlinable
  init(tree: Tree<Action>, parent: Origin?, node: Confined<StoreNode<Action>>) {
    self.tree = tree
    self.parent = parent
    self.node = node
  }

  @inlinable
  func dispatch(_ action: Action) -> DispatchResult {
    tree.order(action, from: self) ? .enqueued : .terminated
  }

  /// Whether this store or one above it takes nothing any more.
  @inlinable
  var isClosed: Bool {
    if closed.load(ordering: .relaxed) { return true }
    guard let parent else { return false }
    return parent.isClosed
  }

  /// Closes the store. Only under the inbox's lock.
  @inlinable
  func close() {
    closed.store(true, ordering: .relaxed)
  }

  /// Whether an action given to this store passes through the other.
  @usableFromInline
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
///
/// Closures that are made where the user's types are known, one within the other along the path: calling one costs no more
/// than the reducers in it.
@usableFromInline
final class StoreNode<Action: Sendable> {
  /// Takes an action through every reducer on its path, from this store up to the root, and publishes what came of it.
  @usableFromInline
  let commit: (Action) -> Void
  /// Ends the sequences of the store and of everything below it.
  @usableFromInline
  let end: () -> Void
  /// Drops the state of a store that is gone.
  @usableFromInline
  let release: () -> Void

  @inlinable
  init<State: Sendable>(root cell: StateCell<State, Action>, source: Source<State>) {
    commit = { action in
      cell.reduce(action)
      if source.mayBeWatched, let state = cell.state { source.publish(state) }
    }
    end = { source.end() }
    release = { cell.release() }
  }

  @inlinable
  init<Local: Sendable, State: Sendable>(
    child cell: StateCell<Local, Action>, source: Source<State>, under parent: StoreNode
  ) {
    commit = { [commitAbove = parent.commit] action in
      cell.reduce(action)
      commitAbove(action)
    }
    end = { source.end() }
    release = { cell.release() }
  }
}
