/// What child stores can be attached to: a root store, a child store, or a factory for its root store.
public protocol StoreParent<State, Action>: Sendable {
  associatedtype State: Sendable
  associatedtype Action: Sendable

  /// A child store with local state of its own, composed with this store's state by a mapping.
  ///
  /// The child keeps this store alive. Making it asks nothing of the tree; it costs a few allocations. Call it on a concrete type or on
  /// `some StoreParent`: through `any StoreParent` the commits of the child are not specialized for your types, and cost three times as much.
  ///
  /// - Parameters:
  ///   - stateMapping: Composes the child's state, at every commit that is followed, and when the state is read.
  ///   - middleware: Stands around the actions that are given to the child and to what is below it, before the middleware of this store.
  ///   - emits: Which commits the child publishes. Asked with the composed state.
  ///   - history: Where the child keeps what its own reducer did.
  ///   - reducer: Changes the local state, before this store's reducer changes its own.
  func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    middleware: [Middleware<Composed, Action>], emits: Emission<Composed>, history: History<Local, Action>?,
    reducer: Reducer<Local, Action>
  ) -> StateStore<Composed, Action>
}

extension StoreParent {
  /// A child store with local state of its own, composed with this store's state by a mapping.
  @inlinable
  public func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    middleware: [Middleware<Composed, Action>] = [], emits: Emission<Composed> = .always,
    history: History<Local, Action>? = nil, reducer: Reducer<Local, Action>
  ) -> StateStore<Composed, Action> {
    childStore(
      initialState: initialState, stateMapping: stateMapping, middleware: middleware, emits: emits, history: history,
      reducer: reducer)
  }

  @inlinable
  public func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    middleware: [Middleware<Composed, Action>] = [], emits: Emission<Composed> = .always,
    history: History<Local, Action>? = nil, reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<Composed, Action> {
    childStore(
      initialState: initialState, stateMapping: stateMapping, middleware: middleware, emits: emits, history: history,
      reducer: Reducer(reducer))
  }

  /// A child store with local state of its own, whose state is the tuple of this store's state and its own.
  @inlinable
  public func childStore<Local: Sendable>(
    initialState: Local, middleware: [Middleware<(State, Local), Action>] = [],
    emits: Emission<(State, Local)> = .always, history: History<Local, Action>? = nil, reducer: Reducer<Local, Action>
  ) -> StateStore<(State, Local), Action> {
    childStore(
      initialState: initialState, stateMapping: { ($0, $1) }, middleware: middleware, emits: emits, history: history,
      reducer: reducer)
  }

  @inlinable
  public func childStore<Local: Sendable>(
    initialState: Local, middleware: [Middleware<(State, Local), Action>] = [],
    emits: Emission<(State, Local)> = .always, history: History<Local, Action>? = nil,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<(State, Local), Action> {
    childStore(
      initialState: initialState, stateMapping: { ($0, $1) }, middleware: middleware, emits: emits, history: history,
      reducer: Reducer(reducer))
  }
}
