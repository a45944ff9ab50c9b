/// A type that child stores can be attached to: a root store, a child store, a factory, or your own type that owns one.
///
///     struct Lobby: StoreParent {
///       let root: RootStore<Room, RoomAction>
///       var anchor: StoreAnchor<Room, RoomAction> { root.anchor }
///     }
public protocol StoreParent<State, Action>: Sendable {
  /// The state with which child stores compose theirs.
  associatedtype State: Sendable
  /// The actions that child stores take, and pass on to this store.
  associatedtype Action: Sendable

  /// The store that child stores are attached to. In an actor, declare it `nonisolated`.
  var anchor: StoreAnchor<State, Action> { get }
}

/// A store, or a part of its state, that child stores can be attached to; keeps the store alive.
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

  /// - Parameter value: Computes the part, once, if it is too deep to follow the state.
  @inlinable func part<Part: Sendable>(
    _ make: (Confined<Source<State>>) -> Confined<Source<Part>>, _ value: @escaping @Sendable (State) -> Part
  ) -> StoreAnchor<Part, Action> {
    let part = core.source.isLowest ? core.node.constant(of: core.source, value) : make(core.source)
    return StoreAnchor<Part, Action>(part, of: core.node, store)
  }
}

extension StoreParent {
  /// A part of this store's state, for child stores that depend only on this part.
  ///
  ///     // Its state is `(Cart, Draft)`.
  ///     let cart = shop.part(\.cart).childStore(initialState: Draft()) { draft, action in … }
  ///
  /// Such a child gets a new state with each commit that changes the part, and with each action given to it or below it
  /// (G4). A part changes if it differs, by `==`, from its value after the previous commit. This store reduces the
  /// child's actions, too (G2).
  ///
  /// Cost: any other commit compares the part once, however many children it has, and not at all without followers. The
  /// part is retained, so a reducer copies a collection that it changes in it: use the collection's count or a version
  /// instead.
  @inlinable public func part<Part: Equatable & Sendable>(
    _ keyPath: any KeyPath<State, Part> & Sendable
  ) -> StoreAnchor<Part, Action> {
    anchor.part {
      $0.part(at: keyPath)
    } _: {
      $0[keyPath: keyPath]
    }
  }

  /// A value computed from this store's state, for child stores that depend only on this value.
  ///
  ///     let shelf = shop.part { $0.shelves[number] }
  ///
  /// Like a part at a key path, but cheaper if the key path would have an index or a computed property. Only children
  /// of one returned anchor share the comparison.
  @inlinable public func part<Part: Equatable & Sendable>(
    _ value: @escaping @Sendable (State) -> Part
  ) -> StoreAnchor<Part, Action> {
    anchor.part({ $0.map { .part(of: $0, value) } }, value)
  }

  /// A key's value in a collection, for child stores that depend only on this value; nil while the key is absent.
  ///
  ///     let visit = hotel.part(\.rooms, at: 12).childStore(initialState: Visit()) { visit, action in … }
  ///
  /// Such a child gets a new state with each commit that writes the key, as for `scope(to:at:)`, and with each action
  /// given to it or below it (G4). Other commits cost it nothing.
  @inlinable public func part<Key: Hashable & Sendable, Value: Sendable>(
    _ keyPath: any KeyPath<State, Keyed<Key, Value>> & Sendable, at key: Key
  ) -> StoreAnchor<Value?, Action> {
    anchor.part {
      $0.select(StateSelector(keyPath)).value(at: key)
    } _: {
      $0[keyPath: keyPath][key]
    }
  }

  /// A child store with its own local state, composed with this store's state by a mapping. It keeps this store alive.
  /// Making it takes a few allocations, and a request of the tree only if it has effects of the state.
  ///
  /// Call this on a concrete type or on `some StoreParent`: through `any StoreParent`, the child's commits are not
  /// specialized, and cost three times as much.
  ///
  /// - Parameters:
  ///   - initialState: The child's own state before the first action.
  ///   - stateMapping: Composes the child's state, at every commit that is followed, and at each read.
  ///   - interceptor: The side effects of actions given to the child or below it, before those of the stores above.
  ///   - interceptors: Like those of a root store, with the composed state.
  ///   - middleware: Wraps actions given to the child or below it, before this store's middleware.
  ///   - emits: Which commits the child publishes, by the composed state.
  ///   - history: Records the changes of the child's own reducer.
  ///   - atEnd: An action given to the child once, when it is shut down or released, unless a store above it ended
  ///     before: for presence. Its effects are cancelled with the child. If the child finishes
  ///     (`InterceptorShutdown.finish`), the action comes first, and its effects are awaited.
  ///   - reducer: Changes the local state, before this store's reducer.
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

  /// A child store whose state is the tuple of this store's state and its own.
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
