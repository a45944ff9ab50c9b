/// What a root store and a child store have in common: their place in the tree, and their state.
@usableFromInline
struct StoreCore<State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline
  let origin: Origin<Action>
  /// The state at every commit: what child stores compose theirs with.
  @usableFromInline
  let source: Confined<Source<State>>
  /// The states that the store publishes.
  @usableFromInline
  let feed: Feed<State>

  @inlinable
  init(origin: Origin<Action>, source: Confined<Source<State>>, emission: Emission<State>) {
    self.origin = origin
    self.source = source
    if let unchanged = emission.unchanged {
      feed = Feed(source: source.map { .emitting(from: $0, except: unchanged) })
    } else {
      feed = Feed(source: source)
    }
  }

  @inlinable
  init(root initialState: State, tree: Tree<Action>, features: StoreFeatures<State, State, Action>) {
    let source = Confined(StoreSource<State, State, Action>.root(initialState, reducer: features.reducer))
    let node = source.map { StoreNode(root: $0, features: features) }
    self.init(
      origin: Origin(tree: tree, parent: nil, node: node, isAttended: features.isAttended), source: source.map { $0 },
      emission: features.emission)
    keep(features.history)
  }

  @inlinable
  func child<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    features: StoreFeatures<Local, Composed, Action>
  ) -> StoreCore<Composed, Action> {
    let source = source.map {
      StoreSource.child(of: $0, owning: initialState, reducer: features.reducer, stateMapping: stateMapping)
    }
    let depth = Int(origin.depth) + 1
    let node = origin.node.map(with: source) { StoreNode(child: $1, features: features, under: $0, depth: depth) }
    let child = StoreCore<Composed, Action>(
      origin: Origin(tree: origin.tree, parent: origin, node: node, isAttended: features.isAttended),
      source: source.map { $0 }, emission: features.emission)
    child.keep(features.history)
    return child
  }

  /// Ties a history to the life of the store.
  @inlinable
  func keep<Owned>(_ history: History<Owned, Action>?) {
    guard let history else { return }
    history.attach()
    _ = origin.effects.atEnd(of: origin) { history.detach() }
  }

  @inlinable
  var proxy: Store<State, Action> { Store(route: Route(origin), feed: feed) }

  @inline(__always)
  @inlinable
  func send(_ action: Action, isolation: isolated (any Actor)?) async throws(StoreError) {
    try await origin.tree.send(action, from: origin, isolation: isolation)
  }

  @inline(__always)
  @inlinable
  func send<Result: Sendable>(
    _ action: Action, isolation: isolated (any Actor)?, reading: @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    try await origin.tree.visit(isolation: isolation) { [feed, origin] tree throws(StoreError) in
      try tree.accept(action, from: origin)
      return try feed.read(on: tree, reading)
    }
  }

  /// The state, of a store that somebody holds.
  @inline(__always)
  @inlinable
  var state: State {
    get async {
      // A store that is held has a state, also after its shutdown, and `visit` itself does not throw.
      try! await origin.tree.visit { [feed] tree throws(StoreError) in try feed.read(on: tree) { $0 } }
    }
  }

  @inlinable
  func intercept(with interceptor: Interceptor<Action>) {
    let extras = origin.tree.madeExtras
    extras.expectObserver()
    _ = origin.order { tree in
      extras.observer(on: tree).value = { action, origin in
        for effect in interceptor.effects(&action) {
          origin.effects.start({ await effect(Dispatch(origin: origin)) }, of: origin)
        }
      }
    }
  }

  /// The store is gone.
  @inlinable
  func release() {
    origin.tree.release(origin)
  }

  @usableFromInline
  func shutdown(
    _ interceptors: InterceptorShutdown, clock: some Clock<Duration>, isolation: isolated (any Actor)?
  ) async {
    let cancels = interceptors == .cancel
    origin.tree.end(origin, cancelling: cancels)
    // All that was accepted is committed when this returns, and the sequences have ended.
    try? await origin.tree.visit(isolation: isolation) { _ throws(StoreError) in }
    if cancels { origin.endEffects(cancelling: true) }
    guard let effects = origin.tree.existingEffects else { return }
    switch interceptors {
    case .cancel: await effects.untilEnded(below: origin)
    case .finish(let limit): await effects.untilEnded(below: origin, within: limit, by: clock)
    }
  }
}
