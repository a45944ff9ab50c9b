import Puredux

func optionsBehindOthers(clock: any Clock<Duration>) {
  // error: incorrect argument labels in call (have 'initialState:emits:options:_:', expected
  //   'initialState:options:interceptor:interceptors:middleware:emits:history:reducer:')
  _ = RootStore<Cart, CartAction>(initialState: Cart(), emits: .always, options: StoreOptions(clock: clock)) { _, _ in }
  // error: argument 'reducers' must precede argument 'options'
  _ = RootStore<Cart, CartAction>(initialState: Cart(), options: StoreOptions(clock: clock), reducers: [])
  // error: argument 'initialState' must precede argument 'options'
  _ = RootStore<Cart, CartAction>(options: StoreOptions(clock: clock), initialState: Cart()) { _, _ in }
  _ = RootStore<Cart, CartAction>(
    // error: argument 'executor' must precede argument 'clock'
    initialState: Cart(), options: StoreOptions(clock: clock, executor: .mainActor)
  ) { _, _ in }
}
func optionsMisspelt(clock: any Clock<Duration>) {
  // error: incorrect argument label in call (have 'excutor:', expected 'executor:')
  _ = RootStore<Cart, CartAction>(initialState: Cart(), options: StoreOptions(excutor: .mainActor)) { _, _ in }
  // error: incorrect argument label in call (have 'clok:', expected 'clock:')
  _ = RootStore<Cart, CartAction>(initialState: Cart(), options: .init(clok: clock)) { _, _ in }
  // error: incorrect argument label in call (have 'clok:', expected 'clock:')
  _ = StoreFactory<Cart, CartAction>(initialState: Cart(), options: .init(clok: clock)) { _, _ in }
  // error: incorrect argument labels in call (have 'initialState:option:_:', expected
  //   'initialState:reducers:options:interceptor:interceptors:middleware:emits:history:')
  // error: trailing closure passed to parameter of type '[Reducer<Cart, CartAction>]' that does not accept a closure
  _ = RootStore<Cart, CartAction>(initialState: Cart(), option: StoreOptions(clock: clock)) { _, _ in }
  var options = StoreOptions()
  // error: value of type 'StoreOptions' has no member 'clok'
  options.clok = clock
}
func optionOfAFollowingStore() {
  // error: extra argument 'fingerprint' in call
  _ = RootStore<Cart, CartAction>(initialState: Cart(), options: StoreOptions(fingerprint: { _ in 0 })) { _, _ in }
}
