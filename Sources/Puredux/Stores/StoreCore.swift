/// What a root store and a child store have in common: their place in the tree, where their sequences are made, and the tree's
/// effects.
@usableFromInline
struct StoreCore<State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline
  let origin: Origin<Action>
  @usableFromInline
  let feed: Feed<State>
  @usableFromInline
  let effects: TreeEffects<Action>

  @inlinable
  init(origin: Origin<Action>, feed: Feed<State>, effects: TreeEffects<Action>) {
    self.origin = origin
    self.feed = feed
    self.effects = effects
  }

  @inlinable
  var proxy: Store<State, Action> { Store(origin: origin, feed: feed) }

  /// The state, of a store that somebody holds.
  @inlinable
  nonisolated(nonsending) var state: State {
    get async {
      // A store that is held has a state, also after its shutdown, and `visit` itself does not throw.
      try! await origin.tree.visit { [feed] tree throws(StoreError) in try feed.read(on: tree) { $0 } }
    }
  }

  @inlinable
  func child<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StoreCore<Composed, Action> {
    let cell = Confined(StateCell(state: initialState, reducer: reducer))
    let source = feed.source.map(with: cell) { Source.child(of: $1, under: $0, stateMapping: stateMapping) }
    let node = origin.node.map(with: cell.map(with: source) { ($0, $1) }) {
      StoreNode(child: $1.0, source: $1.1, under: $0)
    }
    return StoreCore<Composed, Action>(
      origin: Origin(tree: origin.tree, parent: origin, node: node),
      feed: Feed(source: source), effects: effects)
  }

  @inlinable
  func intercept(with interceptor: Interceptor<Action>) {
    let interception = Interception(interceptor: interceptor, effects: effects)
    _ = origin.tree.order(for: origin) { $0.observe(with: interception) }
  }

  /// The store is gone.
  @inlinable
  func release() {
    origin.tree.release(origin) { [origin, effects] in effects.end(below: origin, cancelling: true) }
  }

  @usableFromInline
  nonisolated(nonsending) func shutdown(_ interceptors: InterceptorShutdown, clock: some Clock<Duration>) async {
    let cancels = interceptors == .cancel
    origin.tree.end(origin) { [origin, effects] in effects.end(below: origin, cancelling: cancels) }
    // All that was accepted is committed when this returns, and the sequences have ended.
    try? await origin.tree.visit { _ throws(StoreError) in }
    if cancels { effects.end(below: origin, cancelling: true) }
    guard !EffectContext.trees.contains(ObjectIdentifier(origin.tree)) else { return }
    switch interceptors {
    case .cancel: await effects.untilEnded(below: origin)
    case .finish(let limit):
      await withTaskGroup { [origin, effects] tasks in
        tasks.addTask {
          try? await clock.sleep(for: limit)
          effects.end(below: origin, cancelling: true)
        }
        await effects.untilEnded(below: origin)
        tasks.cancelAll()
      }
    }
  }
}
