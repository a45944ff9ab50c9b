/// Owns a root store and makes the stores of its tree.
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
/// The root store lives as long as it, a copy of its factory, or one of its child stores is held.
public struct StoreFactory<State: Sendable, Action: Sendable>: StoreParent {
  /// The root store, for `shutdown()`, `interceptActions(with:)` and `statistics`.
  public let root: RootStore<State, Action>

  /// Takes a root store made in another way, for instance by `withStore`.
  @inlinable public init(root: RootStore<State, Action>) {
    self.root = root
  }

  /// Takes the same arguments as `RootStore`.
  @inlinable public init(
    initialState: State, options: StoreOptions = .none,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      root: RootStore(
        options, interceptor: .all(interceptor, interceptors),
        features: StoreFeatures(
          root: initialState, middleware: middleware, emission: emits, history: history, reducer: reducer)))
  }

  /// With several reducers, which run in order.
  @inlinable public init(
    initialState: State, reducers: [Reducer<State, Action>], options: StoreOptions = .none,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil
  ) {
    self.init(
      root: RootStore(
        options, interceptor: .all(interceptor, interceptors),
        features: StoreFeatures(
          root: initialState, reducers: reducers, middleware: middleware, emission: emits, history: history)))
  }

  @inlinable public var anchor: StoreAnchor<State, Action> { root.anchor }

  /// A weak proxy of the root store.
  @inlinable public func rootStore() -> Store<State, Action> { root.store() }

  /// A weak proxy of a part of the root store's state.
  @inlinable public func scopeStore<Scoped: Sendable>(
    to transform: @escaping @Sendable (State) -> Scoped
  ) -> Store<Scoped, Action> {
    root.scope(to: transform)
  }

  /// Like `StoreType.scope(toOptional:)`, of the root store.
  @_disfavoredOverload @inlinable public func scopeStore<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    root.scope(toOptional: transform)
  }

  /// Like `StoreType.scope(selecting:)`, of the root store.
  @inlinable public func scopeStore<Value: Sendable>(selecting selector: StateSelector<State, Value>)
    -> Store<Value, Action>
  {
    root.scope(selecting: selector)
  }

  /// Like `StoreType.scope(to:)` with a key path, of the root store.
  @inlinable
  public func scopeStore<Value: Sendable>(to keyPath: any KeyPath<State, Value> & Sendable) -> Store<Value, Action> {
    root.scope(to: keyPath)
  }

  /// Like `StoreType.scope(to:at:)`, of the root store.
  @inlinable public func scopeStore<Key: Hashable & Sendable, Value: Sendable>(
    to keyPath: any KeyPath<State, Keyed<Key, Value>> & Sendable, at key: Key
  ) -> Store<Value?, Action> {
    root.scope(to: keyPath, at: key)
  }
}
