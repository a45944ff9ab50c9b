// The parameters of root stores before `StoreOptions`: for the compiler to say what to write in their place.
// They cannot be called, and do as little as compiles.

extension RootStore {
  @available(
    *, unavailable,
    message:
      "Give executor, priority, clock, reporting and carrying as one value, 'options: StoreOptions(clock: clock)'"
  )
  @_disfavoredOverload public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) { self.init(initialState: initialState, reducer: reducer) }

  @available(
    *, unavailable,
    message:
      "Give executor, priority, clock, reporting and carrying as one value, 'options: StoreOptions(clock: clock)'"
  )
  @_disfavoredOverload public init(
    initialState: State, reducers: [Reducer<State, Action>], executor: StoreExecutor = .own,
    priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil
  ) { self.init(initialState: initialState, reducers: reducers) }
}

extension StoreFactory {
  @available(
    *, unavailable,
    message:
      "Give executor, priority, clock, reporting and carrying as one value, 'options: StoreOptions(clock: clock)'"
  )
  @_disfavoredOverload public init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) { self.init(initialState: initialState, reducer: reducer) }

  @available(
    *, unavailable,
    message:
      "Give executor, priority, clock, reporting and carrying as one value, 'options: StoreOptions(clock: clock)'"
  )
  @_disfavoredOverload public init(
    initialState: State, reducers: [Reducer<State, Action>], executor: StoreExecutor = .own,
    priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil
  ) { self.init(initialState: initialState, reducers: reducers) }
}

@available(
  *, unavailable,
  message: "Give executor, priority, clock, reporting and carrying as one value, 'options: StoreOptions(clock: clock)'"
)
@_disfavoredOverload
public func withStore<State: Sendable, Action: Sendable, Result, Failure: Error>(
  initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
  clock: any Clock<Duration> = ContinuousClock(),
  interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil, interceptors: Interceptor<State, Action>...,
  reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
  middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
  history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void,
  isolation: isolated (any Actor)? = #isolation,
  _ body: nonisolated(nonsending) (RootStore<State, Action>) async throws(Failure) -> Result
) async throws(Failure) -> Result {
  try await withStore(initialState: initialState, reducer: reducer, isolation: isolation, body)
}

@available(
  *, unavailable,
  message: "Give executor, priority, clock, reporting and carrying as one value, 'options: StoreOptions(clock: clock)'"
)
@_disfavoredOverload
public func withStore<State: Sendable, Action: Sendable, Result, Failure: Error>(
  initialState: State, reducers: [Reducer<State, Action>], executor: StoreExecutor = .own,
  priority: TaskPriority? = nil,
  clock: any Clock<Duration> = ContinuousClock(),
  interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil, interceptors: Interceptor<State, Action>...,
  reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
  middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
  history: History<State, Action>? = nil, isolation: isolated (any Actor)? = #isolation,
  _ body: nonisolated(nonsending) (RootStore<State, Action>) async throws(Failure) -> Result
) async throws(Failure) -> Result {
  try await withStore(initialState: initialState, reducers: reducers, isolation: isolation, body)
}

extension LogStatistics {
  @available(*, unavailable, message: "Make it with the first eight, and assign 'failedSnapshots' and 'epoch'")
  @_disfavoredOverload public init(
    phase: Phase, position: UInt64 = 0, waiting: Duration? = nil, behind: UInt64 = 0, pendingActions: Int = 0,
    pendingBytes: Int = 0, skipped: UInt64 = 0, rejected: UInt64 = 0, failedSnapshots: UInt64 = 0, epoch: UInt64 = 0
  ) { self.init(phase: phase) }
}
