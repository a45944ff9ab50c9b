public import Puredux

// The parameters of stores that follow a log before `FollowingOptions`: for the compiler to say what to write in their
// place. They cannot be called, and do as little as compiles.

extension RootStore {
  @available(
    *, unavailable,
    message:
      "Give log options, fingerprint, summary, onPhase, atStart, emits and history as 'options: FollowingOptions(log: …)', and executor, clock and the like as its 'store: StoreOptions(…)'"
  )
  @_disfavoredOverload public init(
    following log: any OrderedLog, initialState: State, schema: UInt32 = 1, options: LogOptions = LogOptions(),
    fingerprint: (@Sendable (State) -> UInt64)? = nil,
    summary: (@Sendable (State) -> any (Encodable & Sendable))? = nil,
    onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil, atStart: Action? = nil,
    executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) async throws where State: Codable, Action: Codable {
    try await self.init(following: log, initialState: initialState, reducer: reducer)
  }

  @available(
    *, unavailable,
    message:
      "Give log options, fingerprint, summary, onPhase, atStart, emits and history as 'options: FollowingOptions(log: …)', and executor, clock and the like as its 'store: StoreOptions(…)'"
  )
  @_disfavoredOverload public init(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>], schema: UInt32 = 1,
    options: LogOptions = LogOptions(),
    fingerprint: (@Sendable (State) -> UInt64)? = nil,
    summary: (@Sendable (State) -> any (Encodable & Sendable))? = nil,
    onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil, atStart: Action? = nil,
    executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil
  ) async throws where State: Codable, Action: Codable {
    try await self.init(following: log, initialState: initialState, reducers: reducers)
  }

  @available(
    *, unavailable,
    message:
      "Give 'codings: LogCodings(actions: …, states: …)'; log options, fingerprint, summary, onPhase, atStart, emits and history as 'options: FollowingOptions(log: …)'; and executor, clock and the like as its 'store: StoreOptions(…)'"
  )
  @_disfavoredOverload public init(
    following log: any OrderedLog, initialState: State, actions: LogCoding<Action>, states: LogCoding<State>?,
    options: LogOptions = LogOptions(),
    fingerprint: (@Sendable (State) -> UInt64)? = nil,
    summary: (@Sendable (State) -> any (Encodable & Sendable))? = nil,
    onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil, atStart: Action? = nil,
    executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil, reducer: @escaping @Sendable (inout State, Action) -> Void
  ) async throws {
    try await self.init(
      following: log, initialState: initialState, codings: LogCodings(actions: actions, states: states),
      reducer: reducer)
  }

  @available(
    *, unavailable,
    message:
      "Give 'codings: LogCodings(actions: …, states: …)'; log options, fingerprint, summary, onPhase, atStart, emits and history as 'options: FollowingOptions(log: …)'; and executor, clock and the like as its 'store: StoreOptions(…)'"
  )
  @_disfavoredOverload public init(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>], actions: LogCoding<Action>,
    states: LogCoding<State>?, options: LogOptions = LogOptions(),
    fingerprint: (@Sendable (State) -> UInt64)? = nil,
    summary: (@Sendable (State) -> any (Encodable & Sendable))? = nil,
    onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil, atStart: Action? = nil,
    executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: any Clock<Duration> = ContinuousClock(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>...,
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    middleware: [Middleware<State, Action>] = [], emits: Emission<State> = .always,
    history: History<State, Action>? = nil
  ) async throws {
    try await self.init(
      following: log, initialState: initialState, reducers: reducers,
      codings: LogCodings(actions: actions, states: states))
  }

  @available(
    *, unavailable,
    message: "A store that follows no log takes 'StoreOptions'; for one that does, write 'RootStore(following: log, …)'"
  )
  @_disfavoredOverload public init(
    initialState: State, options: FollowingOptions<State, Action>,
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) { self.init(initialState: initialState, reducer: reducer) }
}
