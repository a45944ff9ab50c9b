/// A child store: an actor on the tree's executor that owns a local state and composes it with its parent's.
///
/// An action given to it is reduced by it and by each store above it, never by a sibling or a store below (G2). It gets
/// a new state with each commit of its parent; both halves always come from the same commit (G3).
///
/// It lives as long as it or a child of its own is held, and keeps its parents alive; nothing in the tree keeps it
/// alive. When it is released, accepted actions are still committed, its sequences end, and its interceptor's tasks are
/// cancelled.
///
/// A child store below the 100th level is closed from the start (`StoreError.tooDeep`). None of its closures is called,
/// except its mapping and the closures of the parts above it, each once. Its `state`, which does not throw, is the
/// mapping of its parent's state at the child's place in the order.
/// It keeps alive the last store above it that is not too deep.
public final actor StateStore<State: Sendable, Action: Sendable>: OwningStore {
  @usableFromInline nonisolated let core: StoreCore<State, Action>
  /// The store that this one keeps alive: its parent. If this store is too deep, it is the last store above that is
  /// not.
  @usableFromInline nonisolated let parent: any Actor

  @inlinable init(core: StoreCore<State, Action>, parent: any Actor) {
    self.core = core
    self.parent = parent
  }

  // SAFETY: the executor lives as long as this actor, which holds the tree that holds it.
  @inlinable public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe core.node.tree.unownedExecutor }

  @inlinable public nonisolated var anchor: StoreAnchor<State, Action> {
    StoreAnchor(core, of: core.node.isTooDeep ? parent : self)
  }

  @inlinable @discardableResult
  public nonisolated func dispatch(_ action: Action) -> DispatchResult { core.node.dispatch(action) }

  /// Replaces the store's interceptor. The new one gets the actions of this store and those below it that come later in
  /// the order (G1), before the interceptors of the stores above (G8). Effects of the state end with the replaced
  /// interceptor. Its other effects end by themselves, by their ids, or with their store.
  @inlinable public nonisolated func interceptActions(with interceptor: Interceptor<State, Action>) {
    core.intercept(with: interceptor)
  }

  /// Replaces the store's interceptor by a closure that runs for every action.
  @inlinable public nonisolated func interceptActions(
    with interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    core.intercept(with: Interceptor(interceptor))
  }

  @inlinable deinit { core.release() }
}
