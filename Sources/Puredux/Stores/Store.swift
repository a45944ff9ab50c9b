/// A light proxy of a root or child store, of a part of its state, or of a part of its actions: pass it wherever it is needed.
///
/// It never keeps its store alive. Once the store is shut down or released, `dispatch` answers `.terminated`, `send` and `state`
/// throw, and `states()` ends. Copies share what they have in common: a scope is worked out once a commit for all of them.
public struct Store<State: Sendable, Action: Sendable>: StoreType {
  @usableFromInline
  let route: Route<Action>
  @usableFromInline
  let feed: Feed<State>

  @inlinable
  init(route: Route<Action>, feed: Feed<State>) {
    self.route = route
    self.feed = feed
  }

  public var id: StoreID { route.place.id }

  @inlinable
  public func store() -> Store<State, Action> { self }

  @discardableResult
  @inlinable
  public func dispatch(_ action: Action) -> DispatchResult {
    switch route.target {
    case .direct(let origin): origin.dispatch(action)
    case .mapped(let actions): actions.dispatch(action)
    }
  }

  @inline(__always)
  @inlinable
  public func send(_ action: Action, isolation: isolated (any Actor)? = #isolation) async throws(StoreError) {
    switch route.target {
    case .direct(let origin): try await origin.tree.send(action, from: origin, isolation: isolation)
    case .mapped(let actions): try await actions.send(action, isolation)
    }
  }

  @inline(__always)
  @inlinable
  public func send<Result: Sendable>(
    _ action: Action, isolation: isolated (any Actor)? = #isolation, reading: @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    switch route.target {
    case .direct(let origin):
      return try await origin.tree.visit(isolation: isolation) { [feed] tree throws(StoreError) in
        try tree.accept(action, from: origin)
        return try feed.read(on: tree, reading)
      }
    case .mapped(let actions):
      let commit = try actions.prepare(action)
      return try await actions.place.visit(isolation: isolation) { [feed] tree throws(StoreError) in
        try commit(tree)
        return try feed.read(on: tree, reading)
      }
    }
  }

  @inlinable
  public var state: State {
    get async throws(StoreError) {
      switch route.target {
      case .direct(let origin):
        return try await origin.tree.visit { [feed] tree throws(StoreError) in
          guard !origin.isClosed else { throw .terminated }
          return try feed.read(on: tree) { $0 }
        }
      case .mapped(let actions):
        return try await actions.place.visit(isolation: nil) { [feed, place = actions.place] tree throws(StoreError) in
          guard !place.isClosed else { throw .terminated }
          return try feed.read(on: tree) { $0 }
        }
      }
    }
  }

  @inlinable
  public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> AsyncStream<State> {
    AsyncStream(states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating) as StateSequence)
  }

  @_disfavoredOverload
  @inlinable
  public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> StateSequence<State> {
    let feed = feed.removingDuplicates(equating)
    switch route.target {
    case .direct(let origin): return feed.subscribe(bufferingPolicy, through: origin)
    case .mapped(let actions): return feed.subscribe(bufferingPolicy, through: actions.place)
    }
  }

  @inlinable
  public func scope<Scoped: Sendable>(to transform: @escaping @Sendable (State) -> Scoped) -> Store<Scoped, Action> {
    Store<Scoped, Action>(route: route, feed: feed.scope { .some(transform($0)) })
  }

  @inlinable
  public func scope<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    Store<Scoped, Action>(route: route, feed: feed.scope(transform))
  }

  @inlinable
  public func scope<Value: Sendable>(to selector: StateSelector<State, Value>) -> Store<Value, Action> {
    Store<Value, Action>(route: route, feed: feed.select(selector))
  }

  @inlinable
  public func projection<ViewAction: Sendable, ViewState: Sendable>(
    action toAction: @escaping @Sendable (ViewAction) -> Action?,
    state toState: @escaping @Sendable (State) -> ViewState
  ) -> Store<ViewState, ViewAction> {
    Store<ViewState, ViewAction>(route: Route(route.map(toAction)), feed: feed.scope { .some(toState($0)) })
  }
}
