/// The store at the root of a tree: an actor that owns the state with which child stores compose theirs.
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
/// It lives as long as it or one of its child stores is held; proxies do not hold it. When it is released, accepted
/// actions are still committed, its sequences end after their last state, and its interceptor's tasks are cancelled.
/// `shutdown` ends it at once and waits, and can let the tasks finish first. `withStore` ties its life to a scope.
public final actor RootStore<State: Sendable, Action: Sendable>: OwningStore {
  @usableFromInline package nonisolated let core: StoreCore<State, Action>

  /// - Parameters:
  ///   - initialState: The state before the first action.
  ///   - options: Executor, priority, clock, reports and instrument of the tree.
  ///   - interceptor: The side effects of every action of the tree: one task for each action.
  ///   - interceptors: Called after `interceptor`, in order, each for the actions that it selects. For an array, use
  ///     `Interceptor(combining:)`.
  ///   - middleware: Wraps every action of the tree, after the middleware of child stores.
  ///   - emits: Which commits the store publishes.
  ///   - history: Records the changes of each reducer.
  ///   - reducer: Changes the state, on the tree's executor; may dispatch.
  @inlinable public init(
    initialState: State, options: StoreOptions = .none,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      options, interceptor: .all(interceptor, interceptors),
      features: StoreFeatures(
        root: initialState, middleware: middleware, emission: emits, history: history, reducer: reducer))
  }

  /// With several reducers, which run in order.
  @inlinable public init(
    initialState: State, reducers: [Reducer<State, Action>], options: StoreOptions = .none,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil
  ) {
    self.init(
      options, interceptor: .all(interceptor, interceptors),
      features: StoreFeatures(
        root: initialState, reducers: reducers, middleware: middleware, emission: emits, history: history))
  }

  @inlinable init(
    _ options: StoreOptions, trunk: EffectRunner? = nil, interceptor: Interceptor<State, Action>?,
    features: StoreFeatures<State, State, Action>
  ) {
    let instrument = options.treeInstrument(of: State.self)
    let tree = Tree<Action>(
      executor: options.executor, priority: options.priority, taskRegistry: options.taskRegistry(trunk: trunk),
      carrying: options.carrying, instrument: instrument)
    core = StoreCore(root: features.instrumented(by: instrument), tree: tree)
    if instrument != nil { core.beginInstrument() }
    if let interceptor { core.intercept(with: interceptor) }
  }

  @inlinable package init(core: StoreCore<State, Action>) { self.core = core }

  // SAFETY: the executor lives as long as this actor, which holds the tree that holds it.
  @inlinable public nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe core.node.tree.unownedExecutor }

  @inlinable public nonisolated var anchor: StoreAnchor<State, Action> { StoreAnchor(core, of: self) }

  @inlinable @discardableResult
  public nonisolated func dispatch(_ action: Action) -> DispatchResult { core.node.dispatch(action) }

  /// Replaces the tree's interceptor for actions that come later in the order (G1). Effects of the state end with the
  /// replaced interceptor; other effects end by themselves, by their ids, or with their store.
  @inlinable public nonisolated func interceptActions(with interceptor: Interceptor<State, Action>) {
    core.intercept(with: interceptor)
  }

  /// Replaces the tree's interceptor by a closure that runs for every action.
  @inlinable public nonisolated func interceptActions(
    with interceptor: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    core.intercept(with: Interceptor(interceptor))
  }

  // Not inlined: clients would otherwise have a copy at each release.
  @inline(never) deinit { core.release() }
}

extension RootStore {
  package nonisolated var takesActions: Bool { !core.node.isClosed && core.node.refusal != .stopped }
}

extension RootStore {
  /// Figures of the tree, between two commits or at the end. Does not perform pending requests first.
  ///
  /// Cost: only the read, which visits each followed source and each subscription once.
  @inlinable public nonisolated var statistics: StoreStatistics {
    get async { await core.node.tree.statistics(of: core.source.map { $0 }) }
  }
}
