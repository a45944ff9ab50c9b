/// A child store: an actor on the tree's executor that owns a local state and composes it with its parent's.
///
/// An action given to it is reduced by it and by each store above it, never by a sibling or a store below (G2). It gets
/// a new state whenever its parent does, and both halves of that always come from the same commit (G3).
///
/// It lives for as long as it or a child of its own is held, and keeps its parents alive, up to the root; nothing in
/// the tree keeps it alive. When it is released, what it accepted is still committed, its sequences end and its
/// interceptor's tasks are cancelled.
public final actor StateStore<State: Sendable, Action: Sendable>: OwningStore {
  @usableFromInline nonisolated let core: StoreCore<State, Action>
  /// The store that it keeps alive: its parent, or if it lies too deep, the last store above that does not.
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

  /// Sets the store's interceptor, replacing the one that it was made with or was set before. It is given the actions
  /// of this store and those below it that come later in the order (G1), before the interceptors of the stores above
  /// (G8).
  ///
  /// From then on, and until the store ends, each commit of the tree looks for interceptors on its path in a table.
  @inlinable public nonisolated func interceptActions(with interceptor: Interceptor<State, Action>) {
    core.intercept(with: interceptor)
  }

  /// Sets the store's interceptor to a closure that runs for every action.
  @inlinable public nonisolated func interceptActions(
    with interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    core.intercept(with: Interceptor(interceptor))
  }

  @inlinable deinit { core.release() }
}
