/// A light, weak proxy of a root or child store, of a part of its state, or of a part of its actions.
///
/// Once its store is shut down or released, `dispatch` returns `.terminated`, `send` and `state` throw, and `states()`
/// ends. Copies of a scope share one computation per commit.
public struct Store<State: Sendable, Action: Sendable>: StoreType {
  @usableFromInline let route: Route<Action>
  @usableFromInline let source: Confined<Source<State>>

  @inlinable init(route: Route<Action>, source: Confined<Source<State>>) {
    self.route = route
    self.source = source
  }

  public var id: StoreID { route.node.id }

  @inlinable public func store() -> Store<State, Action> { self }

  @discardableResult @inlinable public func dispatch(_ action: Action) -> DispatchResult {
    switch route.target {
    case .direct(let node): node.dispatch(action)
    case .mapped(let actions): actions.dispatchMapped(action)
    }
  }

  /// Like `ActionHandler.send(_:)`, from the caller's actor and back to it.
  @inline(__always) @inlinable
  public func send(_ action: Action, isolation: isolated (any Actor)? = #isolation) async throws(StoreError) {
    switch route.target {
    case .direct(let node): try await node.tree.send(action, from: node, isolation: isolation)
    case .mapped(let actions): try await actions.send(action, isolation)
    }
  }

  /// Like `StoreType.send(_:reading:)`, from the caller's actor and back to it.
  @inline(__always) @inlinable public func send<Result: Sendable>(
    _ action: Action, isolation: isolated (any Actor)? = #isolation,
    reading: @escaping @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    let result: Result?
    switch route.target {
    case .direct(let node):
      result = try await node.tree.run(for: node, isolation: isolation) { [source] tree throws(StoreError) in
        var action = action
        try tree.accept(&action, from: node)
        return source.read(on: tree, reading)
      } pending: {
        pendingRead(reading, after: action, node)
      }
    case .mapped(let actions):
      let commit = try actions.prepare(action)
      result = try await actions.node.run(isolation: isolation, by: actions.effect) {
        [source] tree throws(StoreError) in
        try commit(tree, false)
        return source.read(on: tree, reading)
      } pending: {
        pendingRead(reading, after: commit)
      }
    }
    guard let result else { throw .stateUnavailable }
    return result
  }

  @inlinable public var state: State {
    get async throws(StoreError) {
      let state: State?
      switch route.target {
      case .direct(let node):
        state = try await node.tree.run(for: node) { [source] tree throws(StoreError) in
          guard !node.refuses() else { throw node.errorWhenClosed }
          return source.read(on: tree) { $0 }
        } pending: {
          pendingState()
        }
      case .mapped(let actions):
        state = try await actions.node.run(isolation: nil, by: actions.effect) {
          [source, node = actions.node, effect = actions.effect] tree throws(StoreError) in
          guard !node.refuses(effect) else { throw node.errorWhenClosed }
          return source.read(on: tree) { $0 }
        } pending: {
          pendingState()
        }
      }
      guard let state else { throw .stateUnavailable }
      return state
    }
  }

  @usableFromInline func pendingRead<Result: Sendable>(
    _ reading: @escaping @Sendable (State) -> Result, after commit: @escaping ActionCommit
  ) -> PendingRequest<Result?> {
    PendingRequest(isSend: true) { [source] tree throws(StoreError) in
      try commit(tree, true)
      return source.read(on: tree, reading)
    }
  }

  @usableFromInline func pendingRead<Result: Sendable>(
    _ reading: @escaping @Sendable (State) -> Result, after action: Action, _ node: StoreNode<Action>
  ) -> PendingRequest<Result?> {
    pendingRead(reading, after: node.commit(of: action))
  }

  @usableFromInline func pendingState() -> PendingRequest<State?> {
    PendingRequest { [source] tree throws(StoreError) in source.read(on: tree) { $0 } }
  }

  @inlinable public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> AsyncStream<State> {
    AsyncStream(states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating) as StateSequence)
  }

  /// The sequence behind the other `states()`; it costs less than an `AsyncStream`.
  @_disfavoredOverload @inlinable public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> StateSequence<State> {
    StateSequence(route.subscribe(to: source.removingDuplicates(equating).map { $0 }, Buffering(bufferingPolicy)))
  }

  /// Like `StoreType.scope(to:)`.
  @inlinable
  public func scope<Scoped: Sendable>(to transform: @escaping @Sendable (State) -> Scoped) -> Store<Scoped, Action> {
    view { $0.scope { .some(transform($0)) } }
  }

  /// Like `StoreType.scope(toOptional:)`.
  @_disfavoredOverload @inlinable public func scope<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    view { $0.scope(transform) }
  }

  /// Like `StoreType.scope(selecting:)`.
  @inlinable
  public func scope<Value: Sendable>(selecting selector: StateSelector<State, Value>) -> Store<Value, Action> {
    view { $0.select(selector) }
  }

  /// Like `StoreType.scope(to:at:)`.
  @inlinable public func scope<Key: Hashable & Sendable, Value: Sendable>(
    to keyPath: any KeyPath<State, Keyed<Key, Value>> & Sendable, at key: Key
  ) -> Store<Value?, Action> {
    view { $0.select(StateSelector(keyPath)).value(at: key) }
  }

  /// Like `StoreType.projection(action:state:)`.
  @inlinable public func projection<ViewAction: Sendable, ViewState: Sendable>(
    action toAction: @escaping @Sendable (ViewAction) -> Action?,
    state toState: @escaping @Sendable (State) -> ViewState
  ) -> Store<ViewState, ViewAction> {
    if source.isLowest { return Store<ViewState, ViewAction>(route: route.tooDeep(), source: .absent()) }
    return Store<ViewState, ViewAction>(
      route: Route(route.map(toAction)), source: source.scope { .some(toState($0)) })
  }

  @inlinable func view<Other: Sendable>(
    _ make: (Confined<Source<State>>) -> Confined<Source<Other>>
  ) -> Store<Other, Action> {
    if source.isLowest { return Store<Other, Action>(route: route.tooDeep(), source: .absent()) }
    return Store<Other, Action>(route: route, source: make(source))
  }
}
