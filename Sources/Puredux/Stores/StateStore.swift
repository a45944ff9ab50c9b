/// A child store: an actor on the tree's executor that owns a local state and composes it with its parent's.
///
/// An action given to it is reduced by it and by each store above it, never by a sibling or a store below (G2). Its state changes with
/// every commit of the tree that its parent's does, and both halves of it always come from the same commit (G3).
///
/// It lives as long as somebody holds it, or a child of its own, and keeps its parents alive, up to the root; nothing in the tree
/// keeps it alive. When it is released, what it accepted is still committed, its sequences end and its interceptor's tasks are
/// cancelled.
public final actor StateStore<State: Sendable, Action: Sendable>: StoreType, StoreParent {
  @usableFromInline
  nonisolated let core: StoreCore<State, Action>
  // SAFETY: changed by the deinitializer alone, when nobody else can look.
  @usableFromInline
  nonisolated(unsafe) var parent: (any Actor)?

  @inlinable
  init(core: StoreCore<State, Action>, parent: any Actor) {
    self.core = core
    unsafe self.parent = parent
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

  /// The state after everything that was asked of the tree before. After a shutdown its own part is the last there was; the parent's goes on.
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
    return StateStore<Composed, Action>(
      core: core.child(initialState: initialState, stateMapping: stateMapping, features: features), parent: self)
  }

  /// As the root store's, for this store and all below it: the rest of the tree goes on.
  @inlinable
  public func shutdown(
    interceptors: InterceptorShutdown = .cancel, clock: some Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation
  ) async {
    await core.shutdown(interceptors, clock: clock, isolation: isolation)
  }

  @inlinable
  deinit {
    core.release()
    if Depth.isBreak(Int(core.origin.depth)) { ReleaseQueue.deep.release { unsafe parent.take() } }
  }
}
