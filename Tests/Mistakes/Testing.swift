import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTesting

/// As they were before `TestOptions` and `FollowingOptions`.
func olderTestStores(clock: ManualClock) {
  // error: 'init(…)' is unavailable: Give executor, clock, limit and the like as one value, 'options:
  //   TestOptions(clock: clock)'
  // error: no macro named '_sourceLocation'
  _ = TestStore<Cart, CartAction>(initialState: Cart(), clock: clock) { _, _ in }
  // error: 'init(…)' is unavailable: Give executor, clock, limit and the like as one value, 'options:
  //   TestOptions(clock: clock)'
  // error: no macro named '_sourceLocation'
  _ = TestStore<Cart, CartAction>(initialState: Cart(), reducers: [], executor: .mainActor)
}
func olderReplayedPrograms(options: LogOptions) {
  // error: 'init(initialState:schema:options:fingerprint:middleware:reducer:)' is unavailable: Give options as one
  //   value, 'options: FollowingOptions(log: options, fingerprint: …)'
  _ = ReplayedProgram<Cart, CartAction>(initialState: Cart(), options: options) { _, _ in }
  // error: 'init(initialState:actions:states:options:fingerprint:middleware:reducers:)' is unavailable: Give
  //   'codings: LogCodings(actions: …, states: …)', and options as 'options: FollowingOptions(log: options)'
  _ = ReplayedProgram<Cart, CartAction>(initialState: Cart(), actions: .json(), states: .json(), reducers: [])
}
