/// The store at the root of a tree: an actor that owns the state everything below it is composed with.
///
///     let root = RootStore<Int, CounterAction>(initialState: 0) { count, action in
///       switch action {
///       case .increment: count += 1
///       case .decrement: count -= 1
///       }
///     }
///     root.dispatch(.increment)
///     for await count in root.states() { print(count) }
///
/// It runs as long as somebody holds it or one of its child stores; proxies do not count. When it is released, what was accepted
/// is still committed, its sequences end after their last state, and its interceptor's tasks are cancelled. `shutdown` does
/// the same and waits for it; `withStore` ties all of it to a scope.
public final actor RootStore<State: Sendable, Action: Sendable>: StoreType {
  @usableFromInline
  nonisolated let core: StoreCore<State, Action>

  /// - Parameters:
  ///   - executor: Where the tree runs; by default on an executor of its own.
  ///   - priority: The priority of the tree's work.
  ///   - interceptor: The side effects of every action of the tree.
  ///   - reducer: Changes the state by an action. It runs on the tree's executor; it may dispatch.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: Interceptor<Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      initialState: initialState, executor: executor, priority: priority, interceptor: interceptor,
      spawn: { run in Task.detached(priority: priority, operation: run) }, reducer: reducer)
  }

  /// With an interceptor for every action, given as a closure.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      initialState: initialState, executor: executor, priority: priority, interceptor: Interceptor(interceptor),
      reducer: reducer)
  }

  @inlinable
  init(
    initialState: State, executor: StoreExecutor, priority: TaskPriority?, interceptor: Interceptor<Action>?,
    spawn: @escaping TreeEffects<Action>.Spawn, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    let tree = Tree<Action>(executor: executor, priority: priority)
    let cell = Confined(StateCell(state: initialState, reducer: reducer))
    let source = cell.map { Source.root(of: $0) }
    core = StoreCore(
      origin: Origin(tree: tree, parent: nil, node: cell.map(with: source) { StoreNode(root: $0, source: $1) }),
      feed: Feed(source: source), effects: TreeEffects(spawn: spawn))
    if let interceptor { core.intercept(with: interceptor) }
  }

  @inlinable
  public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe core.origin.tree.unownedExecutor }

  @inlinable
  public nonisolated func store() -> Store<State, Action> { core.proxy }

  @inlinable
  @discardableResult
  public nonisolated func dispatch(_ action: Action) -> DispatchResult { core.origin.dispatch(action) }

  /// The state after everything that was asked of the tree before; after a shutdown, the last state.
  @inlinable
  public nonisolated(nonsending) var state: State {
    get async { await core.state }
  }

  /// A child store with local state of its own, whose state is the tuple of this store's state and its own.
  @inlinable
  public nonisolated func childStore<Local: Sendable>(
    initialState: Local, reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<(State, Local), Action> {
    childStore(initialState: initialState, stateMapping: { ($0, $1) }, reducer: reducer)
  }

  /// A child store with local state of its own, composed with this store's state by a mapping.
  @inlinable
  public nonisolated func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) -> StateStore<Composed, Action> {
    StateStore(
      core: core.child(initialState: initialState, stateMapping: stateMapping, reducer: reducer), parent: self)
  }

  /// Sets the tree's interceptor, in place of the one before. It is given the actions that come later in the order (G1).
  @inlinable
  public nonisolated func interceptActions(with interceptor: Interceptor<Action>) {
    core.intercept(with: interceptor)
  }

  /// Sets the tree's interceptor to a closure that is run for every action.
  @inlinable
  public nonisolated func interceptActions(
    with interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    core.intercept(with: Interceptor(interceptor))
  }

  /// Takes no more actions, commits what was accepted, ends every sequence of the tree after its last state, cancels the
  /// interceptor's tasks or awaits them, and returns when no task of the tree is left.
  ///
  /// Call it from a service's graceful shutdown. Calling it again waits for the same end, and can cancel what an earlier call
  /// still awaits. If the calling task is cancelled, the interceptor's tasks are. Called by an interceptor of the tree, it does not
  /// wait for the interceptor's tasks, of which the caller is one.
  @inlinable
  public nonisolated(nonsending) func shutdown(
    interceptors: InterceptorShutdown = .cancel, clock: some Clock<Duration> = ContinuousClock()
  ) async {
    await core.shutdown(interceptors, clock: clock)
    await core.origin.tree.untilIdle()
  }

  @inlinable
  deinit { core.release() }
}

/// What becomes of the interceptor's tasks that still run when a store is shut down.
public enum InterceptorShutdown: Sendable, Equatable {
  /// They are cancelled, and awaited.
  case cancel
  /// They are awaited, and cancelled if they take longer. What they dispatch is not taken any more.
  case finish(within: Duration)
}
