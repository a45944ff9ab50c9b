import PureduxTestSupport
import Testing

@testable import Puredux

private struct Tally: Sendable, Equatable, Identifiable {
  var id = 0
  var count = 0
  var trace: [Int] = []
}

private struct App: Sendable, Equatable {
  var first = Tally()
  var second = Tally()
  var guest: Tally?
  var byName: [String: Tally] = [:]
  var list: [Tally] = []
  var computed: Tally {
    get { first }
    set { first = newValue }
  }
  var observed = Tally() { didSet { second.count += 100 } }
}

private enum AppAction: Sendable, Equatable {
  case first(Int), second(Int), guest(Int), named(String, Int), listed(Int, Int), other
}

private let counting = Reducer<Tally, Int> { counter, step in
  counter.count += step
  counter.trace.append(step)
}

/// The address of an array's elements, which changes when they are copied.
private func address(_ array: inout [Int]) -> UInt {
  unsafe array.withUnsafeMutableBufferPointer { UInt(bitPattern: $0.baseAddress) }
}

@Suite(.timeLimit(.minutes(15))) struct LiftingTests {
  @Test func `a part is changed only by its own actions, which change nothing else`() {
    let app = Reducer<App, AppAction>(combining: [
      counting.lifted(to: \App.first) { if case .first(let step) = $0 { step } else { nil } },
      counting.lifted(to: \App.second) { if case .second(let step) = $0 { step } else { nil } },
    ])
    var state = App()
    for action in [AppAction.first(1), .second(2), .other, .first(3)] { app.reduce(&state, action) }
    #expect(state.first.trace == [1, 3])
    #expect(state.second.trace == [2])
    #expect(state.guest == nil)
  }

  @Test func `computed and observed properties are read and written back`() {
    var state = App()
    counting.lifted(to: \App.computed) { (action: AppAction) in action == .other ? 5 : nil }.reduce(&state, .other)
    #expect(state.first.trace == [5])
    counting.lifted(to: \App.observed) { (action: AppAction) in action == .other ? 5 : nil }.reduce(&state, .other)
    #expect(state.observed.trace == [5])
    #expect(state.second.count == 100)
  }

  /// A part that is present only once, like a weakly held one.
  private struct Vanishing: Sendable {
    let looks = Record<Int>()
    private(set) var written: [Tally?] = []
    var part: Tally? {
      get {
        looks.add(1)
        return looks.all.count == 1 ? Tally() : nil
      }
      set { written.append(newValue) }
    }
  }

  @Test func `an optional part is read once`() {
    let absent = Record<Int>()
    let lifted = counting.lifted(
      toOptional: \Vanishing.part, action: { (step: Int) in step }, absent: { absent.add($0) })
    var state = Vanishing()
    lifted.reduce(&state, 5)
    #expect(state.looks.all == [1])
    #expect(state.written.map(\.?.trace) == [[5]])
    #expect(absent.all == [])
    lifted.reduce(&state, 6)
    #expect(state.looks.all == [1, 1])
    #expect(state.written.count == 2 && state.written[1] == nil)
    #expect(absent.all == [6])
  }

  @Test func `an optional part is changed if it is present, and its absence is reported`() {
    let absent = Record<Int>()
    let guest = counting.lifted(
      toOptional: \App.guest,
      action: { (action: AppAction) in if case .guest(let step) = action { step } else { nil } },
      absent: { absent.add($0) })
    var state = App()
    guest.reduce(&state, .guest(1))
    guest.reduce(&state, .first(1))
    #expect(state == App())
    #expect(absent.all == [1])
    state.guest = Tally()
    guest.reduce(&state, .guest(2))
    #expect(state.guest?.trace == [2])
    #expect(absent.all == [1])
  }

  @Test func `an element is changed by its id, and its absence is reported`() {
    let absent = Record<String>()
    let elements = Reducer<App, AppAction>(combining: [
      counting.lifted(
        toElements: \App.byName,
        action: { (action: AppAction) in if case .named(let name, let step) = action { (name, step) } else { nil } },
        absent: { absent.add("\($0) \($1)") }),
      counting.lifted(
        toElements: \App.list,
        action: { (action: AppAction) in if case .listed(let id, let step) = action { (id, step) } else { nil } },
        absent: { absent.add("\($0) \($1)") }),
    ])
    var state = App()
    state.byName["a"] = Tally()
    state.list = [Tally(id: 7), Tally(id: 8), Tally(id: 7)]
    for action in [AppAction.named("a", 1), .named("b", 2), .listed(7, 3), .listed(9, 4), .other] {
      elements.reduce(&state, action)
    }
    #expect(state.byName.mapValues(\.trace) == ["a": [1]])
    #expect(state.list.map(\.trace) == [[3], [], []])
    #expect(absent.all == ["b 2", "9 4"])
  }

  /// A copy of the array, or of the value that contains it, would move it.
  @Test func `parts, optional parts and elements are changed in place`() {
    let all = Reducer<App, AppAction>(combining: [
      counting.lifted(to: \App.first) { if case .first(let step) = $0 { step } else { nil } },
      counting.lifted(toOptional: \App.guest, action: { if case .guest(let step) = $0 { step } else { nil } }),
      counting.lifted(
        toElements: \App.byName, action: { if case .named(let name, let step) = $0 { (name, step) } else { nil } }),
      counting.lifted(
        toElements: \App.list, action: { if case .listed(let id, let step) = $0 { (id, step) } else { nil } }),
    ])
    func fresh(_ id: Int) -> Tally {
      var counter = Tally(id: id)
      counter.trace.reserveCapacity(100)
      return counter
    }
    var state = App()
    state.first = fresh(0)
    state.guest = fresh(0)
    state.byName["a"] = fresh(0)
    state.list = [fresh(1), fresh(2)]
    func places() -> [UInt] {
      [
        address(&state.first.trace), address(&state.guest!.trace), address(&state.byName["a"]!.trace),
        address(&state.list[1].trace),
      ]
    }
    let before = places()
    for step in 1...50 {
      for action in [AppAction.first(step), .guest(step), .named("a", step), .listed(2, step)] {
        all.reduce(&state, action)
      }
    }
    #expect(places() == before)
    #expect(state.list[1].trace.count == 50)
  }

  @Test func `a feature's interceptor sees its part, and its actions are mapped to the whole's`() async throws {
    let feature = Interceptor<Tally, Int>.effects(before: \.count) { step, before, context in
      #expect(context.state.count == before + step)
      return step < 3 ? .run { dispatch in dispatch(step + 1) }.id("next") : nil
    }
    let absent = Record<Int>()
    let root = RootStore<App, AppAction>(
      initialState: App(),
      reducers: [
        counting.lifted(to: \App.second) { if case .second(let step) = $0 { step } else { nil } },
        counting.lifted(
          toOptional: \App.guest, action: { if case .guest(let step) = $0 { step } else { nil } },
          absent: { absent.add($0) }),
      ],
      interceptors:
        feature.lifted(state: { $0.second }, action: { if case .second(let step) = $0 { step } else { nil } }) {
          .second($0)
        },
      feature.lifted(state: { $0.guest }, action: { if case .guest(let step) = $0 { step } else { nil } }) {
        .guest($0)
      })
    let states = root.states()
    root.dispatch(.guest(1))
    root.dispatch(.second(1))
    let last = await states.collect(until: { $0.second.count == 6 }).last
    #expect(last?.second.trace == [1, 2, 3])
    #expect(last?.guest == nil)
    #expect(absent.all == [1])
    await root.shutdown()
  }

  /// The part appears and disappears; the value before one of these commits is not the value before the other.
  @Test func `a value from before a commit is forgotten if the part's interceptor is not called`() async throws {
    let seen = Record<[Int]>()
    let feature = Interceptor<Tally, Int>.effects(before: \.count) { step, before, context in
      seen.add([step, before, context.state.count])
      return nil
    }
    let root = RootStore<App, AppAction>(
      initialState: App(guest: Tally(count: 5)),
      interceptors: feature.lifted(
        state: { $0.guest }, action: { if case .guest(let step) = $0 { step } else { nil } }
      ) { .guest($0) }
    ) { app, action in
      switch action {
      case .first: app.guest = nil
      case .guest(let step): app.guest = Tally(count: (app.guest?.count ?? 0) + step)
      default: break
      }
    }
    for action in [AppAction.other, .first(0), .guest(1), .guest(2)] { try await root.send(action) }
    #expect(seen.all == [[2, 1, 3]])
  }

  /// Each element has effects of its own: by id, and of its state.
  @Test(arguments: [false, true])
  func `an element's interceptor sees its element, and its effects' ids are its own`(isArray: Bool) async throws {
    let clock = ManualClock()
    let seen = Record<String>()
    let feature = Interceptor<Tally, Int>(combining: [
      .effects(before: \.count) { step, before, context in
        seen.add("\(before) + \(step) = \(context.state.count)")
        return step == 0 ? .cancel("later") : .run { $0(step * 10) }.after(.seconds(step)).id("later")
      },
      .effects(
        ofState: .while({ $0.count > 50 }) {
          .run { dispatch in
            seen.add("full")
            try? await dispatch.sleep(for: .seconds(1000))
            seen.add("not full")
          }.id("full")
        }),
    ])
    let lifted =
      if isArray {
        feature.lifted(elements: { (app: App) in app.list }) { (action: AppAction) in
          if case .listed(let id, let step) = action { (id, step) } else { nil }
        } into: {
          .listed($0, $1)
        }
      } else {
        feature.lifted(elements: { (app: App) in app.byName }) { (action: AppAction) in
          if case .named(let name, let step) = action { (name, step) } else { nil }
        } into: {
          .named($0, $1)
        }
      }
    let root = RootStore<App, AppAction>(
      initialState: App(byName: ["1": Tally(), "2": Tally()], list: [Tally(id: 1), Tally(id: 2)]),
      options: StoreOptions(clock: clock),
      interceptors: lifted
    ) { app, action in
      switch action {
      case .named(let name, let step): app.byName[name]?.count += step
      case .listed(let id, let step):
        if let index = app.list.firstIndex(where: { $0.id == id }) { app.list[index].count += step }
      case .other: (app.byName, app.list) = ([:], [])
      default: break
      }
    }
    func send(_ id: Int, _ step: Int) async throws {
      try await root.send(isArray ? .listed(id, step) : .named("\(id)", step))
      await root.settled()
    }
    try await send(1, 3)
    try await send(2, 6)
    try await send(3, 1)
    #expect(await root.statistics.effects == ["later[1]": 1, "later[2]": 1])
    try await send(1, 0)
    #expect(await root.statistics.effects == ["later[2]": 1])
    #expect(seen.all == ["0 + 3 = 3", "0 + 6 = 6", "3 + 0 = 3"])
    clock.advance(by: .seconds(6))
    await root.settled()
    #expect(seen.all.suffix(2).sorted() == ["6 + 60 = 66", "full"])
    #expect(await root.statistics.effects == ["later[2]": 1, "full[2]": 1])
    // The element is removed, and its running effects are cancelled.
    try await root.send(.other)
    await root.settled()
    #expect(seen.all.last == "not full")
    #expect(await root.statistics.effects.isEmpty)
    #expect(await root.statistics.runningTasks == 0)
    await root.shutdown()
  }

  /// Holds also if another element has taken the id before the effects would have ended, and for every policy.
  @Test(arguments: ["none", "latest", "inTurn", "debounced"])
  func `the effects of a removed element or part do not affect its successor`(policy: String)
    async throws
  {
    let clock = ManualClock()
    let feature = Interceptor<Tally, Int>.effects { step, _ in
      guard step == 1 else { return nil }
      let effect = Effect<Int>.run { dispatch in
        try await dispatch.sleep(for: .seconds(1))
        dispatch(10)
      }
      return switch policy {
      case "latest": effect.id("a")
      case "inTurn": effect.id("a", .inTurn())
      case "debounced": effect.id("a", .debounced(for: .seconds(1)))
      default: effect
      }
    }
    let root = RootStore<App, AppAction>(
      initialState: App(guest: Tally(), byName: ["1": Tally(), "2": Tally()]), options: StoreOptions(clock: clock),
      interceptors: feature.lifted(elements: { (app: App) in app.byName }) { (action: AppAction) in
        if case .named(let name, let step) = action { (name, step) } else { nil }
      } into: {
        .named($0, $1)
      },
      feature.lifted(state: { $0.guest }, action: { if case .guest(let step) = $0 { step } else { nil } }) {
        .guest($0)
      }
    ) { app, action in
      switch action {
      case .named(let name, let step): app.byName[name]?.count += step
      case .guest(let step): app.guest?.count += step
      case .first(let step):
        (app.guest, app.byName["1"]) = step == 0 ? (nil, nil) : (Tally(), Tally())
      default: break
      }
    }
    for action in [AppAction.named("1", 1), .named("1", 1), .named("2", 1), .guest(1), .first(0), .first(1)] {
      try await root.send(action)
    }
    for _ in 1...4 {
      await root.settled()
      clock.advance(by: .seconds(1))
    }
    await root.settled()
    let state = await root.state
    #expect(state.guest?.count == 0)
    #expect(state.byName.mapValues(\.count) == ["1": 0, "2": 11])
    #expect(await root.statistics.runningTasks == 0)
    await root.shutdown()
  }
}
