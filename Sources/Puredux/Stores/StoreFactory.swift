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
public struct StoreFactory<State: Sendable, Action: Sendable>: StoreParent {
  /// The root store itself, for `shutdown()` and `interceptActions(with:)`.
  public let root: RootStore<State, Action>

  /// For a root store that was made otherwise: with `RootStore.init`, which takes an `Interceptor` and several reducers, or by
  /// `withStore`.
  @inlinable
  public init(root: RootStore<State, Action>) {
    self.root = root
  }

  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      root: RootStore(
        initialState: initialState, executor: executor, priority: priority, middleware: middleware, emits: emits,
        history: history, reducer: reducer))
  }

  /// With an interceptor for every action.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      root: RootStore(
        initialState: initialState, executor: executor, priority: priority, interceptor: Interceptor(interceptor),
        middleware: middleware, emits: emits, history: history, reducer: reducer))
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

  /// A weak proxy of what a selector makes of the root store's state.
  @inlinable
  public func scopeStore<Value: Sendable>(to selector: StateSelector<State, Value>) -> Store<Value, Action> {
    root.scope(to: selector)
  }

  @inlinable
  public func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    middleware: [Middleware<Composed, Action>], emits: Emission<Composed>, history: History<Local, Action>?,
    reducer: Reducer<Local, Action>
  ) -> StateStore<Composed, Action> {
    root.childStore(
      initialState: initialState, stateMapping: stateMapping, middleware: middleware, emits: emits, history: history,
      reducer: reducer)
  }
}
