extension SequencedTree {
  /// The tree of a root store whose order comes from elsewhere, and which is to be made (`RootStore.init(_:)`) or
  /// released.
  @inlinable package init(
    initialState: State, reducers: [Reducer<State, Action>], executor: StoreExecutor, priority: TaskPriority?,
    clock: any Clock<Duration>, reporting: (@Sendable (EffectReport) -> Void)?, carrying: CarriedValues?,
    middleware: [Middleware<State, Action>], emits: Emission<State>, history: History<State, Action>?,
    sequencer: Sequencer<Action>
  ) {
    let effects = TreeEffects.custom(priority: priority, clock: clock, reporting: reporting, trunk: nil)
    let tree = Tree<Action>(
      executor: executor, priority: priority, companion: effects, carrying: carrying, sequencer: sequencer)
    self.init(
      core: StoreCore(
        root: StoreFeatures(
          root: initialState, reducers: reducers, middleware: Middleware.all(of: middleware, areAdmission: false),
          emission: emits, history: history),
        tree: tree, sequencer: sequencer, admission: Middleware.all(of: middleware, areAdmission: true)),
      sequencer: sequencer)
  }

  /// For a tree that no root store was made of.
  @usableFromInline package func release() { core.release() }
}

extension RootStore {
  /// A root store whose order comes from elsewhere. Its interceptor is to be set when it is up to date.
  @inlinable package init(_ sequenced: SequencedTree<State, Action>) { self.init(core: sequenced.core) }

  /// Its tree, for who commits what comes. Keeps the tree's objects, but not the store alive.
  @usableFromInline package nonisolated var sequenced: SequencedTree<State, Action>? {
    guard let sequencer = core.node.tree.sequencer as? Sequencer<Action> else { return nil }
    return SequencedTree(core: core, sequencer: sequencer)
  }
}

extension SequencedTree {
  /// Gives the store an action, and returns when it is committed. If it is not, the tree is released.
  @usableFromInline package func start(with action: Action, within limit: Duration) async throws(StoreError) {
    do throws(StoreError) {
      try await core.proxy.send(action, within: limit)
    } catch {
      release()
      throw error
    }
  }

  package var phases: AsyncStream<LogStatistics.Phase> { sequencer.log.phases() }
  package func saveSnapshot() async throws -> UInt64 { try await sequencer.log.saveSnapshot() }
  package func truncate() async throws -> UInt64 { try await sequencer.log.truncate() }
  package func erase() async throws -> UInt64 { try await sequencer.log.erase() }
  package func seal(for rules: UInt32, _ reason: String) async throws -> UInt64 {
    try await sequencer.log.seal(rules, reason)
  }
}

/// The tree of a root store whose order comes from elsewhere.
@usableFromInline package struct SequencedTree<State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline let core: StoreCore<State, Action>
  @usableFromInline let sequencer: Sequencer<Action>

  @usableFromInline init(core: StoreCore<State, Action>, sequencer: Sequencer<Action>) {
    self.core = core
    self.sequencer = sequencer
  }

  /// Does something on the tree's executor, after everything that was asked before.
  package func perform(_ body: @escaping @Sendable (Sequencer<Action>.Turn) -> Void) {
    core.node.tree.place(
      .closure { [sequencer, node = core.node] tree in body(Sequencer<Action>.Turn(sequencer, at: node, on: tree)) })
  }

  /// Does something on the tree's executor, after everything that was asked before, and returns when it is done. The
  /// effects that it begins, and does not cancel again, are started at its end.
  package func turn(_ body: @escaping @Sendable (Sequencer<Action>.Turn) -> Void) async {
    let command = Command.closure { [sequencer, node = core.node] tree in
      node.effects.startingLater { body(Sequencer<Action>.Turn(sequencer, at: node, on: tree)) }
    }
    await core.node.tree.performInOrder(command)
  }

  /// The root store's state, in a turn; none after its release.
  package func withState<Result: Sendable>(in turn: Sequencer<Action>.Turn, _ body: @Sendable (State) -> Result)
    -> Result?
  {
    withStateOnExecutor(body)
  }

  /// The same for who is on the tree's executor otherwise, which is checked.
  package func withStateOnExecutor<Result: Sendable>(_ body: @Sendable (State) -> Result) -> Result? {
    core.node.tree.assumeIsolated { tree in
      core.source.withValue(on: tree) { source in
        var result: Result?
        source.withState { result = body($0) }
        return result
      }
    }
  }
}
