/// A type that child stores can be attached to: a root store, a child store, a factory for its root store, or a type of
/// yours that owns one of them.
///
///     struct Lobby: StoreParent {
///       let root: RootStore<Room, RoomAction>
///       var anchor: StoreAnchor<Room, RoomAction> { root.anchor }
///     }
public protocol StoreParent<State, Action>: Sendable {
  /// The state that child stores' states are composed with.
  associatedtype State: Sendable
  /// The actions that child stores take, and hand on to it.
  associatedtype Action: Sendable

  /// The store that child stores are attached to. In an actor, declare it `nonisolated`.
  var anchor: StoreAnchor<State, Action> { get }
}

/// A store that child stores can be attached to, or a part of its state; the anchor keeps the store alive.
public struct StoreAnchor<State: Sendable, Action: Sendable>: StoreParent {
  @usableFromInline let core: StoreCore<State, Action>
  @usableFromInline let store: any Actor
  @usableFromInline let isPart: Bool

  @inlinable init(_ core: StoreCore<State, Action>, of store: any Actor) {
    self.core = core
    self.store = store
    isPart = false
  }

  @inlinable init(_ part: Confined<Source<State>>, of node: StoreNode<Action>, _ store: any Actor) {
    core = StoreCore(node: node, part: part)
    self.store = store
    isPart = true
  }

  public var anchor: StoreAnchor<State, Action> { self }

  @inlinable func child<Local: Sendable, Composed: Sendable>(
    stateMapping: @escaping @Sendable (State, Local) -> Composed,
    interceptor: Interceptor<Composed, Action>?, features: StoreFeatures<Local, Composed, Action>
  ) -> StateStore<Composed, Action> {
    if isPart ? core.source.isTooDeep : core.source.isLowest {
      return StateStore(
        core: core.tooDeepChild(
          initialState: features.initialState, stateMapping: stateMapping, history: features.history), parent: store)
    }
    return StateStore(
      core: core.child(
        isOfPart: isPart, stateMapping: stateMapping, interceptor: interceptor,
        features: features),
      parent: store)
  }

  /// A part of the state.
  ///
  /// - Parameter value: Computes the part where it is too deep to follow the state.
  @inlinable func part<Part: Sendable>(
    _ make: (Confined<Source<State>>) -> Confined<Source<Part>>, _ value: @escaping @Sendable (State) -> Part
  ) -> StoreAnchor<Part, Action> {
    let part = core.source.isLowest ? core.node.constant(of: core.source, value) : make(core.source)
    return StoreAnchor<Part, Action>(part, of: core.node, store)
  }
}

extension StoreParent {
  /// A part of this store's state, for child stores that depend on nothing else of it.
  ///
  ///     // Its state is `(Cart, Draft)`.
  ///     let cart = shop.part(\.cart).childStore(initialState: Draft()) { draft, action in … }
  ///
  /// Such a child gets a new state with each commit that changes the part, and with each action that is given to it or
  /// to a store below it (G4). Any other commit costs one comparison of the part, however many children it has, and
  /// nothing while nobody follows them. The part is kept from one commit to the next, so that a reducer that changes a
  /// collection in it copies that: let the part be its count or a version. What the child is given is reduced by this
  /// store, too, as always (G2).
  @inlinable public func part<Part: Equatable & Sendable>(
    _ keyPath: any KeyPath<State, Part> & Sendable
  ) -> StoreAnchor<Part, Action> {
    anchor.part {
      $0.part(at: keyPath)
    } _: {
      $0[keyPath: keyPath]
    }
  }

  /// A value computed from this store's state, for child stores that depend on nothing else of it.
  ///
  ///     let shelf = shop.part { $0.shelves[number] }
  ///
  /// Like a part at a key path, and cheaper than a key path with an index or a computed property in it. Only the
  /// children of the anchor that one call returns share the comparison.
  @inlinable public func part<Part: Equatable & Sendable>(
    _ value: @escaping @Sendable (State) -> Part
  ) -> StoreAnchor<Part, Action> {
    anchor.part({ $0.map { .part(of: $0, value) } }, value)
  }

  /// The value of a key, for child stores that depend on nothing else of this store's state; nil while there is none.
  ///
  ///     let visit = hotel.part(\.rooms, at: 12).childStore(initialState: Visit()) { visit, action in … }
  ///
  /// Such a child gets a new state with each commit that writes the key (as `scope(to:at:)`, G4), and with each action
  /// that is given to it or to a store below it. Any other commit costs it nothing.
  @inlinable public func part<Key: Hashable & Sendable, Value: Sendable>(
    _ keyPath: any KeyPath<State, Keyed<Key, Value>> & Sendable, at key: Key
  ) -> StoreAnchor<Value?, Action> {
    anchor.part {
      $0.select(StateSelector(keyPath)).value(at: key)
    } _: {
      $0[keyPath: keyPath][key]
    }
  }

  /// A child store with local state of its own, composed with this store's state by a mapping.
  ///
  /// The child keeps this store alive. Making it requests nothing of the tree, unless it has effects of the state; it
  /// costs a few allocations. Call this on a concrete type or on `some StoreParent`: through `any StoreParent` the
  /// commits of the child are not specialized for your types, and cost three times as much.
  ///
  /// - Parameters:
  ///   - initialState: The child's own state before the first action.
  ///   - stateMapping: Composes the child's state, at every commit that is followed, and when the state is read.
  ///   - interceptor: The side effects of the actions that are given to the child or to a store below it, asked before
  ///     those of the stores above.
  ///   - interceptors: As for a root store, with the composed state.
  ///   - middleware: Wraps the actions that are given to the child or to a store below it, before the middleware of
  ///     this store.
  ///   - emits: Which commits the child publishes. Evaluated with the composed state.
  ///   - history: Where the child keeps what its own reducer did.
  ///   - atEnd: An action that is given to the child when it is shut down or released, as its last: for presence. Not
  ///     given if a store above it was ended before. Its effects are cancelled with the child, unless that finishes.
  ///   - reducer: Changes the local state, before this store's reducer changes its own.
  @inlinable public func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<Composed, Action>...,
    middleware: [Middleware<Composed, Action>] = [], emits: Emission<Composed> = .always,
    history: History<Local, Action>? = nil, atEnd: Action? = nil,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<Composed, Action> {
    anchor.child(
      stateMapping: stateMapping,
      interceptor: .all(interceptor, interceptors),
      features: StoreFeatures(
        child: initialState, middleware: middleware, emission: emits, history: history, last: atEnd, reducer: reducer))
  }

  /// With several reducers, which run in order.
  @inlinable public func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, reducers: [Reducer<Local, Action>],
    stateMapping: @escaping @Sendable (State, Local) -> Composed,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<Composed, Action>...,
    middleware: [Middleware<Composed, Action>] = [], emits: Emission<Composed> = .always,
    history: History<Local, Action>? = nil, atEnd: Action? = nil
  ) -> StateStore<Composed, Action> {
    anchor.child(
      stateMapping: stateMapping,
      interceptor: .all(interceptor, interceptors),
      features: StoreFeatures(
        child: initialState, reducers: reducers, middleware: middleware, emission: emits, history: history, last: atEnd)
    )
  }

  /// A child store with local state of its own, whose state is the tuple of this store's state and its own.
  @inlinable public func childStore<Local: Sendable>(
    initialState: Local, interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<(State, Local), Action>...,
    middleware: [Middleware<(State, Local), Action>] = [],
    emits: Emission<(State, Local)> = .always, history: History<Local, Action>? = nil, atEnd: Action? = nil,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<(State, Local), Action> {
    anchor.child(
      stateMapping: { ($0, $1) },
      interceptor: .all(interceptor, interceptors),
      features: StoreFeatures(
        child: initialState, middleware: middleware, emission: emits, history: history, last: atEnd, reducer: reducer))
  }
}
