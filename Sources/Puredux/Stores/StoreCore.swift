@usableFromInline package struct StoreCore<State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline let node: StoreNode<Action>
  /// The state at every commit, with which child stores compose theirs.
  @usableFromInline let source: Confined<Source<State>>
  @usableFromInline let published: Confined<Source<State>>

  @inlinable init(node: StoreNode<Action>, part: Confined<Source<State>>) {
    self.node = node
    source = part
    published = part
  }

  @usableFromInline init<Owned>(
    node: StoreNode<Action>, source: Confined<Source<State>>, published: Confined<Source<State>>,
    history: History<Owned, Action>?
  ) {
    self.node = node
    self.source = source
    self.published = published
    guard let history else { return }
    history.attach(node)
    _ = node.effects.atEnd(of: node) { history.detach(node) }
  }

  @usableFromInline init(
    root step: consuming CommitStep<Action>, shownBy source: Source<State>, tree: Tree<Action>,
    emitting: (@Sendable (Source<State>) -> Source<State>)?, history: History<State, Action>?
  ) {
    let source = Confined(storing: source)
    self.init(
      node: StoreNode(tree: tree, parent: nil, step: Confined(storing: step)), source: source,
      published: Self.published(source, emitting), history: history)
  }

  @usableFromInline static func published(
    _ source: Confined<Source<State>>, _ emitting: (@Sendable (Source<State>) -> Source<State>)?
  ) -> Confined<Source<State>> {
    if let emitting { source.map(emitting) } else { source }
  }

  @inlinable init(root features: StoreFeatures<State, State, Action>, tree: Tree<Action>) {
    let own = StateStorage(features.initialState)
    let source = Source.root(own)
    self.init(
      root: features.step(own, shownBy: source), shownBy: source, tree: tree, emitting: features.emitting,
      history: features.history)
  }

  @inlinable package init(
    initialState: State, reducers: [Reducer<State, Action>], options: StoreOptions,
    middleware: [Middleware<State, Action>], emits: Emission<State>, history: History<State, Action>?,
    order: any Order<Action>
  ) {
    let instrument = options.treeInstrument(of: State.self)
    let tree = Tree<Action>(
      executor: options.executor, priority: options.priority, taskRegistry: options.taskRegistry(),
      carrying: options.carrying, order: order, instrument: instrument)
    let features = StoreFeatures(
      root: initialState, reducers: reducers, middleware: Middleware.all(of: middleware, areAdmission: false),
      emission: emits, history: history
    ).instrumented(by: instrument)
    let own = StateStorage(features.initialState)
    let source = Source.root(own)
    let committing = CommitHandler<Action>(
      { _, action, node, stages in stages.commitQuietly(&action, from: node) }, showing: source, before: nil)
    self.init(
      root: CommitStep(
        features.step(own, shownBy: source), in: order,
        admission: Middleware.all(of: middleware, areAdmission: true), showing: source,
        quiet: Middleware.handlers(features.middleware, showing: source, before: committing) ?? committing),
      shownBy: source, tree: tree, emitting: features.emitting, history: features.history)
    if instrument != nil { beginInstrument() }
  }

  @usableFromInline func beginInstrument() {
    guard let instrument = node.instrument else { return }
    instrument.begin { [weak node, source] in
      guard let node else { return nil }
      return await node.tree.statistics(of: source.map { $0 }, unlessEnded: node)
    }
    _ = node.effects.atEnd(of: node) { instrument.end() }
  }

  package var instrument: TreeInstrument? { node.instrument }

  /// - Parameter isOfPart: Whether the state depends only on a part of this one.
  @inlinable func child<Local: Sendable, Composed: Sendable>(
    isOfPart: Bool, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    interceptor: Interceptor<Composed, Action>?, features: StoreFeatures<Local, Composed, Action>
  ) -> StoreCore<Composed, Action> {
    let own = StateStorage(features.initialState)
    let turn = isOfPart ? node.makeTurn() : nil
    let source = source.map { Source.child(of: $0, owning: own, turn: turn, stateMapping: stateMapping) }
    let published = StoreCore<Composed, Action>.published(source, features.emitting)
    let step = node.step.map(with: source) { step, source in
      turn?.source = source
      return features.step(own, shownBy: source, turn: turn, under: node, above: step.stages)
    }
    let hook = interceptor.map { interceptor in source.map { interceptor.hook(showing: $0, published) } }
    let child = StoreCore<Composed, Action>(
      node: StoreNode(tree: node.tree, parent: node, isGivenLast: features.last != nil, step: step, hook: hook),
      source: source, published: published, history: features.history)
    if let effects = interceptor?.stateEffects, !effects.isEmpty { child.follow(effects) }
    return child
  }

  @inlinable package var proxy: Store<State, Action> { Store(route: Route(node), source: published) }

  @inlinable @inline(__always) var state: State {
    get async {
      // A held store has a state, even after its shutdown, and `run` itself does not throw.
      try! await node.tree.run(for: nil) { [published] tree throws(StoreError) in
        published.read(on: tree) { $0 }
      } pending: {
        proxy.pendingState()
      }!
    }
  }

  @inlinable func intercept(with interceptor: Interceptor<State, Action>) {
    let hook = source.map { interceptor.hook(showing: $0, published) }
    node.tree.set(hook, inOrderOf: node, with: followings(interceptor.stateEffects))
  }

  @usableFromInline func follow(_ effects: [StateEffect<State, Action>]) {
    guard let followings = followings(effects) else { return }
    _ = node.enqueue { [node] tree in
      node.tree.madeExtras.onExecutor(on: tree).exchangeWork(of: node, with: followings)?.end(tree)
      followings.begin(tree)
    }
  }

  @usableFromInline func followings(_ effects: [StateEffect<State, Action>]) -> TreeWork? {
    if effects.isEmpty { return nil }
    let followings = effects.map {
      $0.following(published, of: node) { [node] in
        node.commit(of: $0)
      } dispatch: { [node] in
        Dispatch(.effect(node, $0, $1))
      }
    }
    return TreeWork { tree in
      for following in followings { following.begin(tree) }
    } end: { tree in
      for following in followings { following.end(tree) }
    }
  }

  @inlinable package func release() {
    node.tree.release(node)
  }

  @usableFromInline func shutdown(
    _ interceptors: InterceptorShutdown, clock: some Clock<Duration>, isolation: isolated (any Actor)?
  ) async {
    await end(interceptors, clock: clock, isolation: isolation)
    if node.depth == 0 { await node.tree.untilIdle(isolation: isolation) }
  }

  private func end(
    _ interceptors: InterceptorShutdown, clock: some Clock<Duration>, isolation: isolated (any Actor)?
  ) async {
    if case .finish(let limit) = interceptors, limit > .zero {
      node.tree.closeToOthers(node)
      guard node.existingEffects?.isCalledFromWithin == true else {
        return await finish(within: limit, by: clock)
      }
      // The calling effect must end before the store can.
      Task.detached { [self] in await finish(within: limit, by: clock) }
      return await untilCommitted(isolation: isolation)
    }
    await close(cancelling: true, isolation: isolation)
    await node.existingEffects?.untilEnded(below: node)
  }

  private func close(cancelling: Bool, isolation: isolated (any Actor)?) async {
    node.tree.close(node, cancelling: cancelling)
    await untilCommitted(isolation: isolation)
    // An earlier call may still await these tasks.
    if cancelling { node.tree.existingTaskRegistry?.end(below: node, cancelling: true) }
  }

  @usableFromInline func settled(isolation: isolated (any Actor)?) async {
    await node.settled(isolation: isolation)
  }

  private func untilCommitted(isolation: isolated (any Actor)?) async {
    try? await node.tree.run(isolation: isolation) { _ throws(StoreError) in }
  }

  /// Accepts only the store's own effects' actions until the last of them has ended, the time is over, or the caller is
  /// cancelled.
  private func finish(within limit: Duration, by clock: some Clock<Duration>) async {
    await withTaskGroup { tasks in
      tasks.addTask {
        await clock.wait(limit)
        return false
      }
      tasks.addTask {
        // The last action's effects count. If the log is away, that action may wait for long.
        await untilCommitted(isolation: nil)
        await finishEffects()
        return true
      }
      let haveEnded = await tasks.next() == true
      if !haveEnded { await close(cancelling: true, isolation: nil) }
      // When the time is over, only the end of the cancelled effects is awaited.
      tasks.cancelAll()
    }
  }

  private func finishEffects() async {
    guard let effects = node.existingEffects else { return await close(cancelling: false, isolation: nil) }
    await effects.untilIdle(.nothingWorks, below: node) { await untilCommitted(isolation: nil) }
    await close(cancelling: false, isolation: nil)
    await effects.cancelFollowers(below: node)
    await effects.untilEnded(below: node)
  }
}

extension StoreCore {
  package var order: (any Order<Action>)? { node.tree.order }

  package func perform(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) {
    node.tree.place(.closure(body))
  }

  package func turn(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) async {
    await node.tree.performInOrder(.closure { [node] tree in node.effects.startingLater { body(tree) } })
  }

  /// For an order that has stopped: ends the effects with last actions.
  package func endAtStop(on tree: isolated any TreeIsolation) { node.bidFarewell(on: tree) }

  /// For an action given to no store of this tree.
  package func commitQuietly(_ action: Action, on tree: isolated any TreeIsolation) {
    // SAFETY: on the tree's executor.
    unsafe node.withStages { stages in
      var action = action
      stages.begin()
      stages.quiet?.perform(&action, node, stages)
      _ = stages.end()
    }
  }

  package func withState<Result>(on tree: isolated any TreeIsolation, _ body: (State) -> Result) -> Result? {
    source.withValue(on: tree) { source in
      var result: Result?
      source.withState { result = body($0) }
      return result
    }
  }
}
