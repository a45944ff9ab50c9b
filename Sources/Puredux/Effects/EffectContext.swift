import Synchronization

/// What an interceptor sees of the commit that it is asked about. Valid while it is asked.
public struct EffectContext<State: Sendable, Action: Sendable> {
  @usableFromInline let source: Source<State>
  @usableFromInline let node: StoreNode<Action>

  @inlinable init(source: Source<State>, node: StoreNode<Action>) {
    self.source = source
    self.node = node
  }

  /// The state of the interceptor's store right after the commit. In a child store it is composed at each call.
  @inlinable public var state: State {
    var state: State?
    source.withState { state = $0 }
    // Actions come from stores that somebody held when they were accepted: those on their path have a state until they
    // are committed.
    return state!
  }

  /// The store that the action was given to: the interceptor's own, or one below it.
  @inlinable public var store: StoreID { node.id }

  /// The place of the commit in the tree's order, counted from one.
  @inlinable public var position: Int { node.tree.commitCount.load(ordering: .relaxed) }

  /// Dispatches to the store that the action was given to, at once: the action comes later in the order.
  @inlinable public var dispatch: Dispatch<Action> { Dispatch(node: node) }
}
