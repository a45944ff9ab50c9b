/// A child store: an actor on the tree's executor that owns a local state and composes it with its parent's.
///
/// It and each store above it reduce its actions; siblings and stores below it do not (G2). It gets a new state with
/// each commit of its parent; both halves come from the same commit (G3). It lives as long as it or a child of its own
/// is held, ends like a `RootStore`, and keeps its parents alive.
///
/// A child store below the 100th level is closed from the start (`StoreError.tooDeep`). None of its closures is called,
/// except its mapping and the closures of the parts above it, each once. Its `state` does not throw: it is the mapping
/// of its parent's state at the child's place in the order. It keeps alive the last store above it that is not too
/// deep.
public final actor StateStore<State: Sendable, Action: Sendable>: OwningStore {
  @usableFromInline nonisolated let core: StoreCore<State, Action>
  /// Of a store that is too deep, the last store above that is not.
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

  /// Replaces the store's interceptor, like `RootStore.interceptActions(with:)`. It gets the actions of this store and
  /// those below it, before the interceptors of the stores above (G8).
  @inlinable public nonisolated func interceptActions(with interceptor: Interceptor<State, Action>) {
    core.intercept(with: interceptor)
  }

  /// Replaces the interceptor by a closure that runs for every action.
  @inlinable public nonisolated func interceptActions(
    with interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    core.intercept(with: Interceptor(interceptor))
  }

  @inlinable deinit { core.release() }
}
