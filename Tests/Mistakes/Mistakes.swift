import Puredux

func rootMisspelt() {
  let root = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    switch action {
    // error: type 'CartAction' has no member 'ad'
    case .ad(let item): cart.items.append(item)
    case .empty: cart.items = []
    }
  }
  _ = root
}
func rootMisspeltMember() {
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    // error: value of type 'Cart' has no member 'itms'
    cart.itms.append("a")
  }
}
func rootMisspeltLabelled() {
  _ = RootStore<Cart, CartAction>(
    initialState: Cart(),
    reducer: { cart, action in
      // error: type 'CartAction' has no member 'ad'
      if case .ad = action { cart.items = [] }
    })
}
func factoryMisspelt() {
  _ = StoreFactory<Cart, CartAction>(initialState: Cart()) { cart, action in
    switch action {
    // error: type 'CartAction' has no member 'ad'
    case .ad(let item): cart.items.append(item)
    case .empty: cart.items = []
    }
  }
}
func withMisspelt() async {
  await withStore(
    initialState: Cart(),
    reducer: { (cart, action: CartAction) in
      switch action {
      // error: type 'CartAction' has no member 'ad'
      case .ad(let item): cart.items.append(item)
      case .empty: cart.items = []
      }
    }
  ) { store in await store.shutdown() }
}
func childMisspelt(root: RootStore<Cart, CartAction>) {
  _ = root.childStore(initialState: 0) { count, action in
    switch action {
    // error: type 'RootStore<Cart, CartAction>.Action' (aka 'CartAction') has no member 'ad'
    case .ad(let item): count += 1
    case .empty: count = 0
    }
  }
}
func childMappedMisspelt(root: RootStore<Cart, CartAction>) {
  // error: value of type 'RootStore<Cart, CartAction>.State' (aka 'Cart') has no member 'itms'
  _ = root.childStore(initialState: 0, stateMapping: { cart, count in cart.itms.count + count }) { count, action in
    count += 1
  }
}
func interceptorMisspelt() {
  _ = Interceptor<Cart, CartAction> { action, dispatch in
    // error: type 'CartAction' has no member 'ad'
    if case .ad = action { dispatch(.empty) }
  }
}
func interceptorDispatchMisspelt(root: RootStore<Cart, CartAction>) {
  root.interceptActions { action, dispatch in
    // error: type 'CartAction' has no member 'emty'
    dispatch(.emty)
  }
}
func factoryInterceptorMisspelt() {
  _ = StoreFactory<Cart, CartAction>(
    initialState: Cart(),
    // error: type 'CartAction' has no member 'emty'
    interceptor: { action, dispatch in dispatch(.emty) },
    reducer: { cart, action in cart.items = [] })
}
func rootInterceptorMisspelt() {
  _ = RootStore<Cart, CartAction>(
    initialState: Cart(),
    // error: type 'CartAction' has no member 'emty'
    interceptors: Interceptor(where: { _ in true }) { action, dispatch in dispatch(.emty) },
    reducer: { cart, action in cart.items = [] })
}
func namedMisspelt() {
  _ = RootStore<Cart, CartAction>(
    initialState: Cart(),
    reducers: [
      // error: type 'CartAction' has no member 'ad'
      Reducer("a") { cart, action in if case .ad = action { cart.items = [] } },
      Reducer("b") { cart, action in cart.items = [] },
    ])
}
func swapped() {
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { action, cart in
    switch action {
    // error: type 'Cart' has no member 'add'
    case .add(let item): cart.items.append(item)
    case .empty: cart.items = []
    }
  }
}
func notInferable() {
  // error: cannot infer type of closure parameter 'action' without a type annotation
  _ = RootStore(initialState: Cart()) { cart, action in
    cart.items = []
  }
}
func tupleEqual(root: RootStore<Cart, CartAction>) {
  let child = root.childStore(initialState: 0) { count, action in count += 1 }
  // error: 'equal' is unavailable: the state is not Equatable, and a tuple never is: compare a part of it, as in
  //   '.equal { $0.count }', or give the child store a 'stateMapping' to a type that is
  _ = child.states(removeStateDuplicates: .equal) as StateSequence
}
func notEquatable(root: RootStore<Opaque, CartAction>) {
  // error: 'equal' is unavailable: the state is not Equatable, and a tuple never is: compare a part of it, as in
  //   '.equal { $0.count }', or give the child store a 'stateMapping' to a type that is
  _ = root.states(removeStateDuplicates: .equal) as StateSequence
}
func notEquatableLoop(root: RootStore<Opaque, CartAction>) async {
  // error: 'equal' is unavailable: the state is not Equatable, and a tuple never is: compare a part of it, as in
  //   '.equal { $0.count }', or give the child store a 'stateMapping' to a type that is
  for await state in root.states(removeStateDuplicates: .equal) { print(state) }
}
func scopeMisspelt(root: RootStore<Cart, CartAction>) {
  // error: value of type 'Cart' has no member 'itms'
  _ = root.scope(to: \.itms)
}
func scopeStoreMisspelt(factory: StoreFactory<Cart, CartAction>) {
  // error: value of type 'Cart' has no member 'itms'
  _ = factory.scopeStore(to: \.itms)
}
func scopeClosureMisspelt(root: RootStore<Cart, CartAction>) {
  // error: value of type 'Cart' has no member 'itms'
  _ = root.scope { $0.itms }
}
func statesMisspelt(root: RootStore<Cart, CartAction>) async {
  // error: value of type 'Cart' has no member 'itms'
  for await items in root.states(\.itms) { print(items) }
}
func catching(store: Store<Cart, CartAction>) {
  Task {
    do {
      try await store.send(.empty)
      // error: type 'any Error' has no member 'rejected'
    } catch .rejected(let why) {
      print(why as Any)
    } catch {}
  }
}

func selectorMisspelt(root: RootStore<Cart, CartAction>) {
  // error: value of type 'Cart' has no member 'itms'
  let items = StateSelector<Cart, Int>("items") { $0.itms.count }
  // error: generic parameter 'Value' could not be inferred
  _ = root.scope(selecting: items)
}
func interceptorPatternMisspelt() {
  // error: type 'CartAction' has no member 'ad'
  _ = Interceptor<Cart, CartAction>(matching: { if case .ad(let item) = $0 { item } else { nil } }) { item, dispatch in
    dispatch(.empty)
  }
}

func returning() {
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    // error: cannot convert value of type 'Cart' to closure result type 'Void'
    return Cart(items: cart.items, isOpen: false)
  }
}
func asynchronous() {
  // error: cannot pass function of type '@Sendable (inout Cart, CartAction) async -> Void' to parameter expecting
  //   synchronous function type
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    await Task.yield()
    cart.items = []
  }
}
func check(_ cart: Cart) throws {}
func throwing() {
  // error: invalid conversion from throwing function of type '@Sendable (inout Cart, CartAction) throws -> ()' to
  //   non-throwing function type '@Sendable (inout Cart, CartAction) -> Void'
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    try check(cart)
  }
}
func noAwait(store: Store<Cart, CartAction>) async throws {
  // error: expression is 'async' but is not marked with 'await'
  try store.send(.empty)
}
func noTry(store: Store<Cart, CartAction>) async throws {
  // error: call can throw but is not marked with 'try'
  await store.send(.empty)
}
func noAwaitState(root: RootStore<Cart, CartAction>) async throws {
  // error: expression is 'async' but is not marked with 'await'
  print(root.state)
}
func stateNotSendable() {
  // error: type 'Reference' does not conform to the 'Sendable' protocol
  _ = RootStore<Reference, CartAction>(initialState: Reference()) { state, action in state.value += 1 }
}
func actionNotSendable() {
  // error: type 'Reference' does not conform to the 'Sendable' protocol
  _ = RootStore<Int, Reference>(initialState: 0) { state, action in state += 1 }
}
actor Session {
  var count = 0
  func make() {
    _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
      // error: actor-isolated property 'count' can not be mutated from a Sendable closure
      self.count += 1
    }
  }
}
func capturing() {
  var count = 0
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    // error: mutation of captured var 'count' in concurrently-executing code [#SendableClosureCaptures]
    count += 1
  }
}
func arrayOfReducers(reducers: [Reducer<Cart, CartAction>]) {
  // error: cannot convert value of type '[Reducer<Cart, CartAction>]' to expected argument type '@Sendable (inout
  //   Cart, CartAction) -> Void'
  _ = RootStore<Cart, CartAction>(initialState: Cart(), reducer: reducers)
}
func reducerValue(reducer: Reducer<Cart, CartAction>) {
  // error: cannot convert value of type 'Reducer<Cart, CartAction>' to expected argument type '@Sendable (inout Cart,
  //   CartAction) -> Void'
  _ = StoreFactory<Cart, CartAction>(initialState: Cart(), reducer: reducer)
}
func interceptorToFactory(interceptor: Interceptor<Cart, CartAction>) {
  _ = StoreFactory<Cart, CartAction>(
    // error: cannot convert value of type 'Interceptor<Cart, CartAction>' to expected argument type '@Sendable
    //   (CartAction, Dispatch<CartAction>) async -> Void'
    initialState: Cart(), interceptor: interceptor, reducer: { cart, action in cart.items = [] })
}
func closureToRoot() {
  _ = RootStore<Cart, CartAction>(
    // error: closure passed to parameter of type 'Interceptor<Cart, CartAction>' that does not accept a closure
    initialState: Cart(), interceptors: { action, dispatch in dispatch(.empty) },
    reducer: { cart, action in cart.items = [] })
}
func iterating(store: Store<Cart, CartAction>) async {
  // error: for-in loop requires 'Store<Cart, CartAction>' to conform to 'AsyncSequence'
  for await cart in store { print(cart) }
}
func missingCase() {
  _ = RootStore<Cart, CartAction>(initialState: Cart()) { cart, action in
    // error: switch must be exhaustive
    switch action {
    case .add(let item): cart.items.append(item)
    }
  }
}
func dispatchingOnFactory(factory: StoreFactory<Cart, CartAction>) {
  // error: cannot infer contextual base in reference to member 'empty'
  // error: value of type 'StoreFactory<Cart, CartAction>' has no member 'dispatch'
  factory.dispatch(.empty)
}
func observerReturnsNothing(store: Store<Cart, CartAction>) {
  // error: cannot convert value of type '()' to closure result type 'Observer<Cart>.Status'
  _ = store.subscribe(observer: Observer { cart in print(cart) })
}
func forgettingNext() {
  // error: contextual closure type '@Sendable (CartAction, MiddlewareContext<Cart, CartAction>, (CartAction) -> Void)
  //   -> Void' expects 3 arguments, but 2 were used in closure body
  _ = Middleware<Cart, CartAction> { action, context in
    print(action)
  }
}

func tupleWhenDifferent(root: RootStore<Cart, CartAction>) {
  // error: 'whenDifferent' is unavailable: the state is not Equatable, and a tuple never is: compare a part of it, as
  //   in '.whenDifferent { $0.count }', or give the child store a 'stateMapping' to a type that is
  _ = root.childStore(initialState: 0, emits: .whenDifferent) { count, action in count += 1 }
}
func notEquatableWhenDifferent() {
  // error: 'whenDifferent' is unavailable: the state is not Equatable, and a tuple never is: compare a part of it, as
  //   in '.whenDifferent { $0.count }', or give the child store a 'stateMapping' to a type that is
  _ = RootStore<Opaque, CartAction>(initialState: Opaque(), emits: .whenDifferent) { state, action in state.value += 1 }
}
func interceptorArray(interceptors: [Interceptor<Cart, CartAction>]) {
  _ = RootStore<Cart, CartAction>(
    // error: cannot pass array of type '[Interceptor<Cart, CartAction>]' as variadic arguments of type
    //   'Interceptor<Cart, CartAction>'
    initialState: Cart(), interceptors: interceptors,
    reducer: { cart, action in cart.items = [] })
}
func interceptorCondition() {
  // error: cannot infer contextual base in reference to member 'empty'
  // error: contextual closure type '@Sendable (CartAction) -> Bool' expects 1 argument, but 2 were used in closure
  //   body
  // error: contextual closure type '@Sendable (CartAction, Dispatch<CartAction>) async -> Void' expects 2 arguments,
  //   but 1 was used in closure body
  // error: missing argument label 'where:' in call
  _ = Interceptor<Cart, CartAction>({ _ in true }) { action, dispatch in dispatch(.empty) }
}
func childStoreOfAProxy(store: Store<Cart, CartAction>) {
  // error: value of type 'Store<Cart, CartAction>' has no member 'childStore'
  _ = store.childStore(initialState: 0) { count, action in count += 1 }
}

/// Effects of the state.
func stateEffects(_ store: RootStore<Cart, CartAction>, _ opaque: RootStore<Opaque, CartAction>) {
  // error: key path value type '[String]' cannot be converted to contextual type 'Bool'
  store.subscribe(effect: .while(\.items) { .run { _ in } })
  // error: converting non-Sendable function value to '@Sendable (Cart) -> Bool' may introduce data races
  // error: value of type 'Cart' has no member 'isOpne'
  store.subscribe(effect: .while(\.isOpne) { .run { _ in } })
  // error: cannot infer contextual base in reference to member 'empty'
  // error: contextual closure type '@Sendable () -> Effect<CartAction>?' expects 0 arguments, but 1 was used in
  //   closure body
  store.subscribe(effect: .while(\.isOpen) { dispatch in dispatch(.empty) })
  // error: static method 'forEach' requires that 'String' conform to 'Identifiable'
  store.subscribe(effect: .forEach(\.items) { item in .run { _ in } })
  // error: static method 'onChange(of:_:)' requires that 'Opaque' conform to 'Equatable'
  opaque.subscribe(effect: .onChange(of: { $0 }) { _ in .run { _ in } })
  // error: type 'CartAction' has no member 'emtpy'
  store.subscribe(effect: .onChange(of: \.items) { items in .run { dispatch in dispatch(.emtpy) } })
  _ = RootStore<Cart, CartAction>(
    // error: cannot infer contextual base in reference to member 'run'
    // error: cannot infer key path type from context; consider explicitly specifying a root type
    // error: type 'Interceptor<Cart, CartAction>' has no member 'while'
    initialState: Cart(), interceptors: .while(\.isOpen) { .run { _ in } }, reducer: { _, _ in })
}

/// Effects of actions.
func effects() {
  _ = Interceptor<Cart, CartAction>.effects { action, context in
    // error: cannot find 'itme' in scope
    if case .add(let item) = action { .run { dispatch in dispatch(.add(itme)) } } else { nil }
  }
  // error: type 'EffectPolicy' has no member 'latset'
  _ = Interceptor<Cart, CartAction>.effects { action, context in .run { $0(.empty) }.id("a", .latset) }
  // error: contextual closure type '@Sendable (CartAction, EffectContext<Cart, CartAction>) -> Effect<CartAction>?'
  //   expects 2 arguments, but 1 was used in closure body
  _ = Interceptor<Cart, CartAction>.effects { action in nil }
}
