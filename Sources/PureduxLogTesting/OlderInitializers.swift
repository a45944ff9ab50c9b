public import Puredux
public import PureduxLog

// The parameters of replayed programs before `FollowingOptions`: for the compiler to say what to write in their place.
// They cannot be called, and do as little as compiles.

extension ReplayedProgram {
  @available(
    *, unavailable,
    message:
      "Give 'codings: LogCodings(actions: …, states: …)', and options as 'options: FollowingOptions(log: options)'"
  )
  @_disfavoredOverload public init(
    initialState: State, actions: LogCoding<Action>, states: LogCoding<State>?, options: LogOptions = LogOptions(),
    fingerprint: (@Sendable (State) -> UInt64)? = nil, middleware: [Middleware<State, Action>] = [],
    reducers: [Reducer<State, Action>]
  ) {
    self.init(
      initialState: initialState, reducers: reducers, codings: LogCodings(actions: actions, states: states))
  }

  @available(
    *, unavailable, message: "Give options as one value, 'options: FollowingOptions(log: options, fingerprint: …)'"
  )
  @_disfavoredOverload public init(
    initialState: State, schema: UInt32 = 1, options: LogOptions = LogOptions(),
    fingerprint: (@Sendable (State) -> UInt64)? = nil, middleware: [Middleware<State, Action>] = [],
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) where State: Codable, Action: Codable { self.init(initialState: initialState, reducer: reducer) }
}
