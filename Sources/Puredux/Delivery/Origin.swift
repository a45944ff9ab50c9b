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

  /// Whether this store or one above it takes nothing any more.
  @inlinable
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
  @inlinable
  func close() {
    closed.store(true, ordering: .relaxed)
  }

  /// Whether an action given to this store passes through the other.
  @inlinable
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
@usableFromInline
struct StoreNode<Action> {
  @usableFromInline
  let reduce: (Action) -> Void
  /// Hands the store's state to everybody who watches, here and below.
  @usableFromInline
  let publish: () -> Void
  /// Ends the sequences of the store and of everything below it.
  @usableFromInline
  let end: () -> Void
  /// Drops the state of a store that is gone.
  @usableFromInline
  let release: () -> Void

  @inlinable
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
