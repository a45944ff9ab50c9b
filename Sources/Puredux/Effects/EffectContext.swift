import Synchronization

/// What an interceptor sees of the commit that it is asked about. Valid during that call.
public struct EffectContext<State: Sendable, Action: Sendable> {
  @usableFromInline let source: Source<State>
  /// The store that the action was given to: the interceptor's own, or one below it.
  public let store: StoreID
  /// The place of the commit in the tree's order, counted from one.
  public let position: Int
  /// Dispatches to the store that the action was given to, at once: the action comes later in the order.
  public let dispatch: Dispatch<Action>

  @inlinable init(source: Source<State>, node: StoreNode<Action>) {
    self.init(
      source: source, store: node.id, position: node.tree.commitCount.load(ordering: .relaxed),
      dispatch: Dispatch(node: node))
  }

  @inlinable init(source: Source<State>, store: StoreID, position: Int, dispatch: Dispatch<Action>) {
    self.source = source
    self.store = store
    self.position = position
    self.dispatch = dispatch
  }

  /// The state of the interceptor's store right after the commit. In a child store it is composed at each call.
  @inlinable public var state: State {
    // Actions come from stores that were held when the actions were accepted: the stores on their path have a state
    // until the actions are committed.
    current!
  }

  @inlinable var current: State? {
    var state: State?
    source.withState { state = $0 }
    return state
  }
}
