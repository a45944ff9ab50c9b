import Puredux
import PureduxTestSupport
import Testing

/// The worked examples of the homegrown Redux, in this library's terms.
@Suite(.timeLimit(.minutes(15))) struct HomegrownReduxTests {
  // MARK: Simple integer store with two different actions

  protocol ReduxAction: Sendable {}
  struct Increment: ReduxAction {}
  struct Decrement: ReduxAction {}

  @Sendable static func counterReducer(_ state: inout Int, _ action: any ReduxAction) {
    switch action {
    case is Increment: state += 1
    case is Decrement: state -= 1
    default: break
    }
  }

  @Test func `the counter`() async throws {
    let printed = Record<String>()
    // create a store of an Int
    let intStore = RootStore<Int, any ReduxAction>(initialState: 2, reducer: Self.counterReducer)
    // create subscriptions
    let subscriber = intStore.subscribe(
      observer: Observer { (state: Int) in
        printed.add("\(state)")
        return .active
      })
    let subscriber2 = Task { [states = intStore.states()] in
      for await newState in states { printed.add("new state: \(newState)") }
    }
    // dispatch some actions
    intStore.dispatch(Increment())
    intStore.dispatch(Increment())
    intStore.dispatch(Decrement())
    intStore.dispatch(Increment())
    try await intStore.send(Increment())
    #expect(await intStore.state == 5)
    // the end delivers every published state, for the comparison below
    await intStore.shutdown()
    await subscriber2.value
    subscriber.cancel()
    subscriber2.cancel()
    #expect(printed.all.filter { !$0.hasPrefix("new") } == ["2", "3", "4", "3", "4", "5"])
    #expect(printed.all.filter { $0.hasPrefix("new") } == [2, 3, 4, 3, 4, 5].map { "new state: \($0)" })
  }

  @Test func `cancelled subscribers get nothing more`() async throws {
    let intStore = RootStore<Int, any ReduxAction>(initialState: 2, reducer: Self.counterReducer)
    let seen = Record<Int>()
    let reached = Gate()
    let subscriber = intStore.subscribe(
      observer: Observer { state in
        seen.add(state)
        if state == 3 { reached.open() }
        return .active
      })
    intStore.dispatch(Increment())
    await reached.wait()
    subscriber.cancel()
    intStore.dispatch(Increment())
    await intStore.shutdown()
    #expect(seen.all == [2, 3])
  }

  // MARK: Selectors

  struct Numbers: Sendable {
    var numberState = 1
  }

  @Test func `a selector over a subtree`() async throws {
    // declare a selector
    let toString = StateSelector<Int, String>("to string", of: \.self) { $0.description }
    #expect(toString.select(42) == "42")
    // use the selector
    let store = RootStore<Numbers, any ReduxAction>(initialState: Numbers()) { state, action in
      Self.counterReducer(&state.numberState, action)
    }
    let newStates = store.scope(to: \.numberState).states(toString)
    store.dispatch(Increment())
    await store.shutdown()
    #expect(await newStates.collect() == ["1", "2"])
  }

  // MARK: Middleware

  @Test func `a logging middleware`() async throws {
    let printed = Record<String>()
    let logging = Middleware<Int, any ReduxAction> { action, context, next in
      printed.add("before state change \(context.state)")
      next(action)
      printed.add("after state change \(context.state)")
    }
    let intStore = RootStore(initialState: 2, middleware: [logging], reducer: Self.counterReducer)
    try await intStore.send(Increment())
    #expect(printed.all == ["before state change 2", "after state change 3"])
  }

  // MARK: Combining reducers

  struct TodayIsBirthday: ReduxAction {}
  struct EatGrapes: ReduxAction {}
  struct PurchaseBear: ReduxAction {}
  struct PurchaseGoldfish: ReduxAction {}

  struct Pet: Equatable, Sendable {
    let name: String
    let numberOfLegs: Int
  }

  struct Human: Equatable, Sendable, CustomDebugStringConvertible {
    var age: Int
    var hunger: String
    var pets: [Pet] = []

    var debugDescription: String { "<Human age=\(age), hunger=\(hunger), pets=\(pets.map(\.name)) />" }
  }

  static func humanReducers(_ printed: Record<String>) -> [Reducer<Human, any ReduxAction>] {
    [
      Reducer("human logger") { state, _ in printed.add("🤖 logging human <\(state)>") },
      Reducer("birthday") { state, action in
        if action is TodayIsBirthday { state.age += 1 }
      },
      Reducer("have snack") { state, action in
        if action is EatGrapes { state.hunger = "satisfied" }
      },
      Reducer("pet store") { state, action in
        switch action {
        case is PurchaseBear: state.pets.append(Pet(name: "🐻 Bear", numberOfLegs: 4))
        case is TodayIsBirthday: state.pets.append(Pet(name: "🎂 Goldfish", numberOfLegs: 0))
        case is PurchaseGoldfish: state.pets.append(Pet(name: "🐠 Goldfish", numberOfLegs: 0))
        default: break
        }
      },
    ]
  }

  @Test func `the human with pets, and the micro-history`() async throws {
    let printed = Record<String>()
    let history = History<Human, any ReduxAction>(limit: 100)
    // create store
    let humanStore = RootStore(
      initialState: Human(age: 0, hunger: "very"), reducers: Self.humanReducers(printed), emits: .whenDifferent,
      history: history)
    // subscribe to changes
    let ages = humanStore.states(\.age)
    let states = humanStore.states()
    // dispatch actions
    humanStore.dispatch(TodayIsBirthday())
    humanStore.dispatch(PurchaseBear())
    humanStore.dispatch(PurchaseGoldfish())
    humanStore.dispatch(TodayIsBirthday())
    humanStore.dispatch(EatGrapes())
    // the second action changes nothing, so no subscriber is notified
    humanStore.dispatch(EatGrapes())
    await humanStore.shutdown()
    #expect(await ages.collect() == [0, 1, 1, 1, 2, 2])
    let last = try #require(await states.collect().last)
    #expect(last.age == 2 && last.hunger == "satisfied")
    #expect(last.pets.map(\.name) == ["🎂 Goldfish", "🐻 Bear", "🐠 Goldfish", "🎂 Goldfish"])
    #expect(printed.all.count == 6)
    #expect(printed.all.first == "🤖 logging human <<Human age=0, hunger=very, pets=[] />>")
    // one record per reducer, and one entry when all have finished
    let birthday = history.entries[0]
    #expect(birthday.steps.map(\.reducer) == ["human logger", "birthday", "have snack", "pet store"])
    #expect(birthday.steps.map(\.state.age) == [0, 1, 1, 1])
    #expect(birthday.steps.map(\.state.pets.count) == [0, 0, 0, 1])
    #expect(birthday.stateBefore == Human(age: 0, hunger: "very"))
    #expect(history.entries.count == 6)
    #expect(history.entries.last?.state == last)
  }

  // MARK: The order of events

  @Test func `middleware before, reducers, publication, middleware after in reverse`() async throws {
    let order = Record<String>()
    func middleware(_ name: String) -> Middleware<Int, any ReduxAction> {
      Middleware { action, _, next in
        order.add("pre \(name)")
        next(action)
        order.add("post \(name)")
      }
    }
    let store = RootStore<Int, any ReduxAction>(
      initialState: 0, reducers: [Reducer { _, _ in order.add("reduce") }],
      middleware: [middleware("1"), middleware("2")])
    let states = store.scope { _ in order.add("publish") }.states()
    try await store.send(Increment())
    #expect(order.all == ["publish", "pre 1", "pre 2", "reduce", "publish", "post 2", "post 1"])
    withExtendedLifetime(states) {}
  }
}
