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
public final actor RootStore<State: Sendable, Action: Sendable>: StoreType, StoreParent {
  @usableFromInline
  nonisolated let core: StoreCore<State, Action>

  /// - Parameters:
  ///   - executor: Where the tree runs; by default on an executor of its own.
  ///   - priority: The priority of the tree's work.
  ///   - interceptor: The side effects of every action of the tree.
  ///   - middleware: Stands around every action of the tree, behind the middleware of child stores.
  ///   - emits: Which commits the store publishes.
  ///   - history: Where the store keeps what its reducer did.
  ///   - reducer: Changes the state by an action: one, or several in order. It runs on the tree's executor; it may dispatch.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: Interceptor<Action>? = nil, middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil, reducer: Reducer<State, Action>
  ) {
    self.init(
      initialState: initialState, tree: Tree(executor: executor, priority: priority), interceptor: interceptor,
      features: StoreFeatures(reducer: reducer, middleware: middleware, emission: emits, history: history))
  }

  /// With the reducer given as a closure.
  @inlinable
  public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    interceptor: Interceptor<Action>? = nil, middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      initialState: initialState, executor: executor, priority: priority, interceptor: interceptor,
      middleware: middleware, emits: emits, history: history, reducer: Reducer(reducer))
  }

  @inlinable
  init(
    initialState: State, tree: Tree<Action>, interceptor: Interceptor<Action>?,
    features: StoreFeatures<State, State, Action>
  ) {
    core = StoreCore(root: initialState, tree: tree, features: features)
    if let interceptor { core.intercept(with: interceptor) }
  }

  @inlinable
  public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe core.origin.tree.unownedExecutor }

  @inlinable
  public nonisolated func store() -> Store<State, Action> { core.proxy }

  @inlinable
  @discardableResult
  public nonisolated func dispatch(_ action: Action) -> DispatchResult { core.origin.dispatch(action) }

  @_disfavoredOverload
  @inlinable
  public nonisolated func send(_ action: Action) async throws(StoreError) {
    try await core.send(action, isolation: nil)
  }

  @inline(__always)
  @inlinable
  public func send(_ action: Action, isolation: isolated (any Actor)? = #isolation) async throws(StoreError) {
    try await core.send(action, isolation: isolation)
  }

  @_disfavoredOverload
  @inlinable
  public nonisolated func send<Result: Sendable>(
    _ action: Action, reading: @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    try await core.send(action, isolation: nil, reading: reading)
  }

  @inline(__always)
  @inlinable
  public func send<Result: Sendable>(
    _ action: Action, isolation: isolated (any Actor)? = #isolation, reading: @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    try await core.send(action, isolation: isolation, reading: reading)
  }

  /// The state after everything that was asked of the tree before; after a shutdown, the last state.
  @inlinable
  public nonisolated var state: State {
    get async { await core.state }
  }

  @inlinable
  public nonisolated func childStore<Local: Sendable, Composed: Sendable>(
    initialState: Local, stateMapping: @escaping @Sendable (State, Local) -> Composed,
    middleware: [Middleware<Composed, Action>], emits: Emission<Composed>, history: History<Local, Action>?,
    reducer: Reducer<Local, Action>
  ) -> StateStore<Composed, Action> {
    let features = StoreFeatures(reducer: reducer, middleware: middleware, emission: emits, history: history)
    return StateStore(
      core: core.child(initialState: initialState, stateMapping: stateMapping, features: features), parent: self)
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
  /// still awaits. If the calling task is cancelled, the interceptor's tasks are.
  ///
  /// Called by an interceptor or an observer of the tree, in its own task, in child tasks of that or in a `Task` made in it, it waits for all of the
  /// tree's tasks but that one. Of several of them that would wait for each other, be it in several trees, the one that comes last does not wait. Do
  /// not let an interceptor await a *detached* task that shuts its own store down: that drops what tells whose it is, so that the two wait for each
  /// other for ever. Call `shutdown` in the interceptor itself or in a `Task`, or do not await the detached one.
  ///
  /// - Parameter clock: Measures the time of `.finish(within:)`. Where it cannot sleep and throws, a `ContinuousClock` does.
  @inlinable
  public func shutdown(
    interceptors: InterceptorShutdown = .cancel, clock: some Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation
  ) async {
    await core.shutdown(interceptors, clock: clock, isolation: isolation)
    await core.origin.tree.untilIdle(isolation: isolation)
  }

  @inlinable
  deinit { core.release() }
}

/// What becomes of the tasks of interceptors and observers that still run when a store is shut down.
public enum InterceptorShutdown: Sendable, Equatable {
  /// They are cancelled, and awaited.
  case cancel
  /// They are awaited, and cancelled if they take longer. What they dispatch is not taken any more. A time of zero or less cancels them at once; one
  /// of more than a hundred years counts as that.
  case finish(within: Duration)
}
