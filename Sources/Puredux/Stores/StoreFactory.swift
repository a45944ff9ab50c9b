/// Owns a root store and makes the stores of its tree. The place to start, and where Puredux's users find what they know.
///
///     let factory = StoreFactory<AppState, any AppAction>(
///       initialState: AppState(),
///       interceptor: { action, dispatch in
///         guard let action = action as? any AppEffect else { return }
///         dispatch(await action.run())
///       },
///       reducer: { state, action in state.reduce(action) }
///     )
///     let root = factory.rootStore()
///     let cart = factory.scopeStore { $0.cart }
///     let child = factory.childStore(initialState: Draft()) { draft, action in draft.reduce(action) }
///
/// The root store lives as long as its factory, or a child store of it.
public struct StoreFactory<State: Sendable, Action: Sendable>: Sendable {
  /// The root store itself, for `shutdown()` and `interceptActions(with:)`.
  public let root: RootStore<State, Action>

  /// As `RootStore.init`, with an interceptor that may leave actions out.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: Interceptor<Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    root = RootStore(
      initialState: initialState, executor: executor, priority: priority, interceptor: interceptor, reducer: reducer)
  }

  /// As `RootStore.init`, with an interceptor for every action, given as a closure.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      initialState: initialState, executor: executor, priority: priority, interceptor: Interceptor(interceptor),
      reducer: reducer)
  }

  /// A weak proxy of the root store.
  @inlinable
  public func rootStore() -> Store<State, Action> { root.store() }

  /// A weak proxy of a part of the root store's state.
  @inlinable
  public func scopeStore<Scoped: Sendable>(
    to transform: @escaping @Sendable (State) -> Scoped
  ) -> Store<Scoped, Action> {
    root.scope(to: transform)
  }

  /// A weak proxy of a part of the root store's state that is not always there.
  @inlinable
  public func scopeStore<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    root.scope(toOptional: transform)
  }

  /// A child store of the root store; its state is the tuple of the root store's and its own.
  @inlinable
  public func childStore<Local: Sendable>(
    initialState: Local, reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<(State, Local), Action> {
    root.childStore(initialState: initialState, reducer: reducer)
  }

  /// A child store of the root store, composed with the root store's state by a mapping.
  @inlinable
  public func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<Composed, Action> {
    root.childStore(initialState: initialState, stateMapping: stateMapping, reducer: reducer)
  }
}
