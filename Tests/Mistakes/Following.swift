import Puredux
import PureduxLog

func followingOptionsOfAStoreThatFollowsNothing(options: LogOptions) {
  // error: missing argument for parameter 'following' in call
  _ = RootStore<Cart, CartAction>(initialState: Cart(), schema: 2) { _, _ in }
  // error: no exact matches in call to initializer
  _ = RootStore<Cart, CartAction>(initialState: Cart(), fingerprint: { _ in 0 }) { _, _ in }
  // error: cannot convert value of type 'FollowingOptions<State, Action>' to expected argument type 'StoreOptions'
  // error: generic parameter 'Action' could not be inferred
  // error: generic parameter 'State' could not be inferred
  _ = RootStore<Cart, CartAction>(initialState: Cart(), options: FollowingOptions(fingerprint: .unchecked)) { _, _ in }
  // error: cannot convert value of type 'LogOptions' to expected argument type 'StoreOptions'
  _ = RootStore<Cart, CartAction>(initialState: Cart(), options: options) { _, _ in }
}
func otherOptions(log: any OrderedLog, options: LogOptions, clock: any Clock<Duration>) async throws {
  // error: cannot convert value of type 'LogOptions' to expected argument type 'FollowingOptions<Cart, CartAction>'
  _ = try await RootStore<Cart, CartAction>(following: log, initialState: Cart(), options: options) { _, _ in }
  _ = try await RootStore<Cart, CartAction>(
    // error: cannot convert value of type 'StoreOptions' to expected argument type 'FollowingOptions<Cart,
    //   CartAction>'
    following: log, initialState: Cart(), options: StoreOptions(clock: clock)
  ) { _, _ in }
  _ = try await RootStore<Cart, CartAction>(
    // error: extra argument 'clock' in call
    following: log, initialState: Cart(), options: FollowingOptions(clock: clock)
  ) { _, _ in }
}
func fingerprintsOfOtherTypes(log: any OrderedLog) async throws {
  _ = try await RootStore<Cart, CartAction>(
    // error: closure passed to parameter of type 'StateFingerprint<Cart>' that does not accept a closure
    following: log, initialState: Cart(), options: FollowingOptions(fingerprint: { _ in 0 })
  ) { _, _ in }
  _ = try await RootStore<Cart, CartAction>(
    // error: cannot convert value of type 'String' to closure result type 'UInt64'
    following: log, initialState: Cart(), options: FollowingOptions(fingerprint: .hashed { "\($0)" })
  ) { _, _ in }
  struct Plain: Sendable {}
  let codings = LogCodings<Plain, CartAction>(actions: .json(), states: nil)
  _ = try await RootStore<Plain, CartAction>(
    // error: contextual member reference to static property 'encoded' requires 'Self' constraint in the protocol
    //   extension
    following: log, initialState: Plain(), codings: codings, options: FollowingOptions(fingerprint: .encoded)
  ) { _, _ in }
}
func followingMisspelt(log: any OrderedLog) async throws {
  _ = try await RootStore<Cart, CartAction>(
    // error: incorrect argument label in call (have 'fingerprnt:', expected 'fingerprint:')
    following: log, initialState: Cart(), options: FollowingOptions(fingerprnt: .unchecked)
  ) { _, _ in }
  _ = try await RootStore<Cart, CartAction>(
    // error: incorrect argument label in call (have 'atstart:', expected 'atStart:')
    following: log, initialState: Cart(), options: .init(atstart: .empty)
  ) { _, _ in }
  // error: incorrect argument label in call (have 'folowing:initialState:_:', expected 'following:initialState:_:')
  _ = try await RootStore<Cart, CartAction>(folowing: log, initialState: Cart()) { _, _ in }
  var options = LogOptions()
  // error: value of type 'LogOptions' has no member 'snapshotByte'
  options.snapshotByte = nil
  // error: value of type 'Cart' has no member 'itms'
  _ = try await RootStore<Cart, CartAction>(following: log, initialState: Cart()) { cart, action in cart.itms = [] }
}
func followingOutOfOrder(log: any OrderedLog, options: LogOptions) async throws {
  _ = try await RootStore<Cart, CartAction>(
    // error: argument 'log' must precede argument 'fingerprint'
    following: log, initialState: Cart(), options: FollowingOptions(fingerprint: .unchecked, log: options)
  ) { _, _ in }
  _ = try await RootStore<Cart, CartAction>(
    // error: argument 'schema' must precede argument 'options'
    following: log, initialState: Cart(), options: FollowingOptions(), schema: 2
  ) { _, _ in }
  // error: argument 'following' must precede argument 'initialState'
  _ = try await RootStore<Cart, CartAction>(initialState: Cart(), following: log) { _, _ in }
}
