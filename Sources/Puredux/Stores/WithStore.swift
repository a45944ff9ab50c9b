/// Runs a body with a root store that is shut down when the body ends.
///
///     try await withStore(initialState: 0, reducer: { $0 += $1 }) { store in
///       try await store.send(1)
///     }
///
/// When this returns, even by a throw or a cancellation, the tree is shut down and none of its tasks is left. The
/// interceptor's tasks are child tasks of the caller's: they are cancelled with it, and share its task-local values.
///
/// Tasks that still run when the body ends are cancelled. To let them finish, end the body with
/// `await store.shutdown(interceptors: .finish(within: …))`.
@inlinable public func withStore<State: Sendable, Action: Sendable, Result, Failure: Error>(
  initialState: State, options: StoreOptions = .none,
  interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil, interceptors: Interceptor<State, Action>...,
  middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
  history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void,
  isolation: isolated (any Actor)? = #isolation,
  _ body: nonisolated(nonsending) (RootStore<State, Action>) async throws(Failure) -> Result
) async throws(Failure) -> Result {
  let trunk = EffectRunner()
  let store = RootStore(
    options, trunk: trunk, interceptor: .all(interceptor, interceptors),
    features: StoreFeatures(
      root: initialState, middleware: middleware, emission: emits, history: history, reducer: reducer))
  return try await with(store, trunk, isolation: isolation, body)
}

/// With several reducers, which run in order.
@inlinable public func withStore<State: Sendable, Action: Sendable, Result, Failure: Error>(
  initialState: State, reducers: [Reducer<State, Action>], options: StoreOptions = .none,
  interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil, interceptors: Interceptor<State, Action>...,
  middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
  history: History<State, Action>? = nil, isolation: isolated (any Actor)? = #isolation,
  _ body: nonisolated(nonsending) (RootStore<State, Action>) async throws(Failure) -> Result
) async throws(Failure) -> Result {
  let trunk = EffectRunner()
  let store = RootStore(
    options, trunk: trunk, interceptor: .all(interceptor, interceptors),
    features: StoreFeatures(
      root: initialState, reducers: reducers, middleware: middleware, emission: emits, history: history))
  return try await with(store, trunk, isolation: isolation, body)
}

@inlinable func with<State: Sendable, Action: Sendable, Result, Failure: Error>(
  _ store: RootStore<State, Action>, _ trunk: EffectRunner, isolation: isolated (any Actor)?,
  _ body: nonisolated(nonsending) (RootStore<State, Action>) async throws(Failure) -> Result
) async throws(Failure) -> Result {
  let outcome = await withTaskGroup { tasks in
    tasks.addTask { await trunk.run() }
    let outcome: Swift.Result<Result, Failure>
    do throws(Failure) {
      outcome = .success(try await body(store))
    } catch {
      outcome = .failure(error)
    }
    await store.shutdown(isolation: isolation)
    trunk.end(cancelling: false)
    return outcome
  }
  return try outcome.get()
}
