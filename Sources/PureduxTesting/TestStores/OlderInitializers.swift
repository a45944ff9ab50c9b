public import Puredux
public import Testing

// The parameters of test stores before `TestOptions`: for the compiler to say what to write in their place.
// They cannot be called, and do as little as compiles.

extension TestStore {
  @available(
    *, unavailable,
    message: "Give executor, clock, limit and the like as one value, 'options: TestOptions(clock: clock)'"
  )
  @_disfavoredOverload public convenience init(
    initialState: State, executor: StoreExecutor = .own, priority: TaskPriority? = nil,
    clock: ManualClock = ManualClock(), interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., reporting: (@Sendable (EffectReport) -> Void)? = nil,
    carrying: CarriedValues? = nil, middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil, strictness: Strictness = .strict,
    limit: Duration = defaultWaitingLimit, sourceLocation: SourceLocation = #_sourceLocation,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) { self.init(initialState: initialState, reducer: reducer) }

  @available(
    *, unavailable,
    message: "Give executor, clock, limit and the like as one value, 'options: TestOptions(clock: clock)'"
  )
  @_disfavoredOverload public convenience init(
    initialState: State, reducers: [Reducer<State, Action>], executor: StoreExecutor = .own,
    priority: TaskPriority? = nil,
    clock: ManualClock = ManualClock(), interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., reporting: (@Sendable (EffectReport) -> Void)? = nil,
    carrying: CarriedValues? = nil, middleware: [Middleware<State, Action>] = [],
    emits: Emission<State> = .always, history: History<State, Action>? = nil, strictness: Strictness = .strict,
    limit: Duration = defaultWaitingLimit, sourceLocation: SourceLocation = #_sourceLocation
  ) { self.init(initialState: initialState, reducers: reducers) }
}
