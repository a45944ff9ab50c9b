import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// A test must account for every commit; a missing one is reported.
@Suite(.timeLimit(.minutes(15))) struct TestStoreTests {
  struct Search: Sendable, Equatable {
    var query = ""
    var results: [String] = []
    var isLoading = false

    static func reduce(_ search: inout Search, _ action: Action) {
      switch action {
      case .typed(let query): search.query = query
      case .began: search.isLoading = true
      case .found(let results):
        search.results = results
        search.isLoading = false
      case .tick, .failed, .nothing: break
      }
    }
  }

  enum Action: Sendable, Equatable { case typed(String), began, found([String]), tick, failed, nothing }

  struct Mishap: Error {}

  /// A store that searches for the text after a pause in typing.
  private func store(
    strictness: Strictness = .strict, limit: Duration = defaultWaitingLimit,
    search: @escaping @Sendable (String) async throws -> [String] = { ["\($0)!"] },
    sourceLocation: SourceLocation = #_sourceLocation
  ) -> TestStore<Search, Action> {
    TestStore(
      initialState: Search(), options: TestOptions(limit: limit),
      interceptors: .effects { action, _ in
        switch action {
        case .typed(let query):
          .run { dispatch in
            dispatch(.began)
            dispatch(.found(try await search(query)))
          }.id("search", .debounced(for: .milliseconds(300)))
        case .tick: .run { $0(.tick) }.after(.seconds(1)).id("poll")
        default: nil
        }
      }, strictness: strictness, sourceLocation: sourceLocation, reducer: Search.reduce)
  }

  @Test(arguments: [Strictness.strict, .relaxed]) func `actions are sent and received`(strictness: Strictness) async {
    let store = store(strictness: strictness)
    await store.send(.typed("a")) { $0.query = "a" }
    await store.advance(by: .milliseconds(200))
    await store.send(.typed("ab")) { $0.query = "ab" }
    await store.advance(by: .milliseconds(300))
    await store.receive(.began) { $0.isLoading = true }
    await store.receive(.found(["ab!"])) {
      $0.results = ["ab!"]
      $0.isLoading = false
    }
    await store.send(.nothing)
    #expect(await store.state == Search(query: "ab", results: ["ab!"]))
    await store.finish()
    await store.finish()
  }

  @Test func `an unexpected state is reported at its line`() async {
    let store = store()
    let line = Int(#line) + 2
    await expectFailure {
      await store.send(.typed("a")) { $0.query = "b" }
    } matching: {
      $0.says("The state after .typed(\"a\") is not as expected.\n  query: expected \"b\", is \"a\"")
        && $0.sourceLocation.line == line
    }
    await expectFailure {
      await store.send(.typed("ab"))
    } matching: {
      $0.says("The state after .typed(\"ab\") is not as expected.\n  query: expected \"a\", is \"ab\"")
    }
    await store.advance(by: .seconds(1))
    await store.receive(.began) { $0.isLoading = true }
    let issues = Record<String>()
    await expectFailure {
      await store.receive(.found([])) { $0.isLoading = false }
    } matching: {
      issues.add($0.text)
      return true
    }
    // The failure says nothing about the state, which was to be the one after another action.
    #expect(issues.all == ["Received .found([\"ab!\"]), expected .found([]).\n  .found[0]: unexpected \"ab!\""])
    await store.finish()
  }

  @Test func `a missing action is reported with the waiting effects`() async {
    let store = store()
    await store.send(.tick)
    await expectFailure {
      await store.receive(.tick)
    } matching: {
      $0.says("Expected .tick, and nothing comes: the store has settled.\n  effects that wait: \"poll\"")
    }
    await store.advance(by: .seconds(1))
    await store.receive(.tick)
    await expectFailure {
      await store.finish()
    } matching: {
      $0.says("Not everything was accounted for.\n  effects that have not ended: \"poll\"")
    }
  }

  @Test func `actions that were not received are reported at the next send or at the end`() async {
    let store = store()
    await store.send(.typed("a")) { $0.query = "a" }
    await store.advance(by: .seconds(1))
    await expectFailure {
      await store.send(.nothing)
    } matching: {
      $0.says("Actions were not received before .nothing was sent.\n  .began\n  .found([\"a!\"])")
    }
    // The actions can still be received, and are reported once.
    await store.receive(.began) { $0.isLoading = true }
    await store.send(.typed("b")) { $0.query = "b" }
    await store.advance(by: .seconds(1))
    await expectFailure {
      await store.finish()
    } matching: {
      $0.says(
        "Not everything was accounted for.\n  not received: .began\n  not received: .found([\"b!\"])")
    }
  }

  @Test func `skipping, and a relaxed store`() async {
    let strict = store()
    await strict.send(.typed("a")) { $0.query = "a" }
    await strict.advance(by: .seconds(1))
    #expect(await strict.skipReceived() == [.began, .found(["a!"])])
    await strict.finish()

    let relaxed = store(strictness: .relaxed)
    await relaxed.send(.typed("a"))
    await relaxed.send(.tick)
    await relaxed.advance(by: .seconds(1))
    await relaxed.receive(.found(["a!"])) { $0.results = ["a!"] }
    await expectFailure {
      await relaxed.receive(.failed)
    } matching: {
      $0.says(
        "Expected .failed, and nothing comes: the store has settled.\n  received: .tick\n  effects that wait: \"poll\"")
    }
    await expectFailure {
      await relaxed.send(.nothing) { $0.query = "b" }
    } matching: {
      $0.says("The state after .nothing is not as expected.\n  query: expected \"b\", is \"a\"")
    }
    await relaxed.finish()
  }

  @Test func `a test store that is never finished is an issue`() async {
    await expectFailure {
      let store = store()
      await store.send(.typed("a")) { $0.query = "a" }
      await store.advance(by: .seconds(1))
      await store.receive(.began) { $0.isLoading = true }
    } matching: {
      $0.says("The test store was not finished: `await store.finish()` is missing.\n  not received: .found([\"a!\"])")
    }
    await expectFailure {
      let store = TestStore<Opaque, Int>(initialState: Opaque()) { $0.count += $1 }
      await store.send(1)
    } matching: {
      $0.says(
        "The test store was not finished: `await store.finish()` is missing.\n  state not looked at, after: 1")
    }
    let relaxed = store(strictness: .relaxed)
    await relaxed.send(.tick)
  }

  @Test func `an effect that fails is an issue`() async {
    let failing = store { _ in throw Mishap() }
    await failing.send(.typed("a")) { $0.query = "a" }
    await expectFailure {
      await failing.advance(by: .seconds(1))
    } matching: {
      $0.says("Puredux: effect \"search\" of store root failed: Mishap()")
    }
    await failing.receive(.began) { $0.isLoading = true }
    await failing.finish()
  }

  @Test(arguments: [Strictness.strict, .relaxed])
  func `an effect that fails after the last call is an issue`(strictness: Strictness) async {
    let issues = Record<String>()
    let line = Int(#line) + 2
    await expectFailure {
      let failing = store(strictness: strictness) { _ in throw Mishap() }
      await failing.send(.typed("a")) { $0.query = "a" }
      await failing.clock.advance(by: .seconds(1), settling: failing.root)
      withExtendedLifetime(failing) {}
    } matching: {
      issues.add($0.text)
      return $0.sourceLocation.line == line
    }
    #expect(issues.all.first == "Puredux: effect \"search\" of store root failed: Mishap()")
    #expect(issues.all.count == (strictness == .strict ? 2 : 1))
  }

  @Test func `an effect that does not come to rest is an issue when the limit is over`() async {
    let (limits, begun) = (ManualClock(), Gate())
    let store = store(limit: .seconds(3)) { _ in
      begun.open()
      await untilCancelled()
      return []
    }
    let issues = Record<String>()
    let late = "After 3.0 seconds the store has not settled.\n  effects that have not ended: \"search\""
    await WaitingClock.$current.withValue(limits) {
      await store.send(.typed("a")) { $0.query = "a" }
      await expectFailure {
        async let advance: Void = store.advance(by: .seconds(12))
        await begun.wait()
        await limits.passes(.seconds(3))
        await advance
      } matching: {
        issues.add($0.text)
        return true
      }
      // From then on, time stands still.
      #expect(store.clock.now.time == .milliseconds(300))
      // Earlier commits can be received.
      await store.receive(.began) { $0.isLoading = true }
      await expectFailure {
        async let receive: Void = store.receive(.failed)
        await limits.passes(.seconds(3))
        await receive
        async let finish: Void = store.finish()
        await limits.passes(.seconds(3))
        await finish
      } matching: {
        issues.add($0.text)
        return true
      }
      #expect(issues.all == [late, late, late])
    }
  }

  @Test func `an action on its way precedes a sent one`() async {
    for _ in 1...20 {
      let gate = Gate()
      let store = TestStore<Int, Int>(
        initialState: 0,
        interceptors: .effects { action, _ in
          guard action == 1 else { return nil }
          return .run { dispatch in
            await gate.wait()
            dispatch(10)
          }
        }
      ) { $0 += $1 }
      await store.send(1) { $0 = 1 }
      gate.open()
      await expectFailure {
        await store.send(2) { $0 = 13 }
      } matching: {
        $0.says("Actions were not received before 2 was sent.\n  10")
      }
      await store.receive(10) { $0 = 11 }
      await store.finish()
    }
  }

  @Test func `a store that does not end is an issue`() async {
    let (limits, cancelled, gate) = (ManualClock(), Gate(), Gate())
    let store = store(limit: .seconds(3)) { _ in
      await withTaskCancellationHandler {
        await gate.wait()
      } onCancel: {
        cancelled.open()
      }
      return []
    }
    let issues = Record<String>()
    await WaitingClock.$current.withValue(limits) {
      await store.send(.typed("a")) { $0.query = "a" }
      await store.advance(by: .seconds(1))
      await store.receive(.began) { $0.isLoading = true }
      await expectFailure {
        async let finish: Void = store.finish()
        await cancelled.wait()
        await limits.passes(.seconds(3))
        await finish
      } matching: {
        issues.add($0.text)
        return true
      }
    }
    #expect(
      issues.all == [
        "Not everything was accounted for.\n  effects that have not ended: \"search\"",
        "After 3.0 seconds the store has not ended.\n  effects that have not ended: 1 without an id, or cancelled",
      ])
    gate.open()
    await store.root.shutdown()
  }

  @Test func `a strict test that is cancelled reports nothing`() async {
    let store = store()
    await store.send(.tick)
    let test = Task {
      await untilCancelled()
      await store.receive(.failed)
      await store.advance(by: .seconds(3))
      await store.finish()
    }
    test.cancel()
    await test.value
    #expect(store.clock.now.time == .zero)
  }

  @Test func `commits that a history has dropped are an issue`() async {
    let history = History<Int, Int>(limit: 2)
    let root = RootStore<Int, Int>(initialState: 0, history: history) { $0 += $1 }
    let store = await TestStore(root, history: history)
    for action in 1...5 { root.dispatch(action) }
    await expectFailure {
      await store.settle()
    } matching: {
      $0.says("The history has dropped 3 commits that nobody has looked at: make it with a higher limit.")
    }
    await store.receive(4) { $0 = 10 }
    await store.receive(5) { $0 = 15 }
    await store.finish()
    await root.shutdown()
  }

  @Test func `middleware that makes two commits of an action`() async {
    let store = TestStore<Int, Int>(
      initialState: 0,
      middleware: [
        Middleware { action, _, next in
          next(action)
          if action > 0 { next(action * 10) }
        }
      ]
    ) { $0 += $1 }
    await store.send(1) { $0 = 11 }
    store.root.dispatch(2)
    await store.receive(2) { $0 = 13 }
    await store.receive(20) { $0 = 33 }
    await store.finish()
  }

  @Test func `an interceptor that is replaced takes no commits away`() async {
    let store = TestStore<Int, Int>(initialState: 0) { $0 += $1 }
    store.root.interceptActions(with: .effects { action, _ in action == 1 ? .run { $0(2) } : nil })
    await store.send(1) { $0 = 1 }
    await store.receive(2) { $0 = 3 }
    await store.finish()
  }

  @Test func `actions committed before the end can be received after it`() async {
    let store = store()
    await store.send(.typed("a")) { $0.query = "a" }
    await store.advance(by: .seconds(1))
    await store.root.shutdown()
    await store.receive(.began) { $0.isLoading = true }
    #expect(await store.skipReceived() == [.found(["a!"])])
    await store.finish()
  }

  @Test func `an observer need not end, and an effect that waits for its turn is counted once`() async {
    let gate = Gate()
    let store = TestStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, _ in
        action == 0 ? .run { _ in await gate.wait() } : .run { _ in await gate.wait() }.id("turn", .inTurn(limit: 9))
      }
    ) { $0 += $1 }
    store.root.subscribe(observer: Observer { _ in .active })
    for action in [0, 1, 1] { await store.send(action) { $0 += action } }
    await expectFailure {
      await store.receive(5)
    } matching: {
      $0.says(
        "Expected 5, and nothing comes: the store has settled.\n  effects that wait: \"turn\" (2), 1 without an id, or cancelled"
      )
    }
    gate.open()
    await store.finish()
  }

  @Test func `a throttled effect`() async {
    let store = TestStore<[Int], Int>(
      initialState: [],
      interceptors: .effects { action, _ in
        action > 0 ? .run { $0(-action) }.id("throttled", .throttled(for: .seconds(1))) : nil
      }
    ) { $0.append($1) }
    await store.send(1) { $0 += [1] }
    await store.receive(-1) { $0 += [-1] }
    for action in [2, 3] { await store.send(action) { $0 += [action] } }
    await store.advance(by: .milliseconds(999))
    await store.advance(by: .milliseconds(1))
    await store.receive(-3) { $0 += [-3] }
    await store.finish()
  }

  @Test func `an effect that waits at a gate does not block the test, which opens the gate`() async {
    let gate = Gate()
    let store = store { query in
      await gate.wait()
      return [query]
    }
    await store.send(.typed("a")) { $0.query = "a" }
    await store.advance(by: .milliseconds(300))
    await store.receive(.began) { $0.isLoading = true }
    await store.send(.nothing)
    gate.open()
    await store.receive(.found(["a"])) { $0 = Search(query: "a", results: ["a"]) }
    await store.finish()
  }

  @Test func `actions that middleware refuses, and stores that have ended`() async {
    let store = TestStore<Int, Int>(
      initialState: 0,
      middleware: [
        .guarding { action, _ in action < 0 ? "No less than nothing." : nil },
        Middleware { action, context, next in
          if action == 99 { context.dispatch(9) } else { next(action) }
        },
      ]
    ) { $0 += $1 }
    await store.expectRefusal(of: -1, with: .rejected(reason: "No less than nothing."))
    await expectFailure {
      await store.expectRefusal(of: 0, with: .rejected(reason: nil))
    } matching: {
      $0.says("0 was committed: expected rejected(reason: nil)")
    }
    _ = await store.skipReceived()
    await expectFailure {
      await store.expectRefusal(of: 99, with: .rejected(reason: nil))
    } matching: {
      $0.says("99 was refused, and others were committed.\n  9")
    }
    await store.receive(9) { $0 += 9 }
    await expectFailure {
      await store.send(-1)
    } matching: {
      $0.says("-1 was not committed: rejected(reason: Optional(No less than nothing.))")
    }
    await store.finish()
    await expectFailure {
      await store.send(1)
    } matching: {
      $0.says("1 was not committed: terminated")
    }
  }

  @Test func `around a store that exists`() async throws {
    let clock = ManualClock()
    let history = History<Search, Action>(limit: 100)
    let root = RootStore<Search, Action>(
      initialState: Search(), options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in
        if case .typed(let query) = action { .run { $0(.found([query])) }.after(.seconds(1)) } else { nil }
      }, history: history, reducer: Search.reduce)
    try await root.send(.began)
    let store = await TestStore(root, history: history, clock: clock)
    await store.send(.typed("a")) { $0.query = "a" }
    await store.advance(by: .seconds(1))
    await store.receive(.found(["a"])) {
      $0.results = ["a"]
      $0.isLoading = false
    }
    root.store().dispatch(.nothing)
    await store.receive(.nothing)
    await store.finish()
    try await root.send(.nothing)
    await root.shutdown()
  }

  private struct Opaque: Sendable {
    var count = 0
  }

  private enum OpaqueAction: Sendable { case add(Int), added }

  @Test func `states and actions that are not equatable`() async {
    func make() -> TestStore<Opaque, OpaqueAction> {
      TestStore(
        initialState: Opaque(),
        interceptors: .effects { action, _ in if case .add = action { .run { $0(.added) } } else { nil } }
      ) { state, action in
        if case .add(let count) = action { state.count += count }
      }
    }
    let store = make()
    await store.send(.add(1)) { $0.count == 1 }
    await store.receive {
      if case .added = $0 { true } else { false }
    } satisfying: {
      $0.count == 1
    }
    await expectFailure {
      await store.send(.add(1)) { $0.count == 1 }
    } matching: {
      $0.says("The state after .add(1) does not satisfy the condition.\n  Opaque(count: 2)")
    }
    await expectFailure {
      await store.receive {
        if case .add = $0 { true } else { false }
      } satisfying: { _ in
        true
      }
    } matching: {
      $0.says("Received .added, which does not match.")
    }
    await store.finish()

    let other = make()
    await other.send(.add(1))
    _ = await other.skipReceived()
    await expectFailure {
      await other.finish()
    } matching: {
      $0.says("Not everything was accounted for.\n  state not looked at, after: .add(1)")
    }
  }

  @Test func `from several tasks at once`() async {
    let store = TestStore<Int, Int>(
      initialState: 0, interceptors: .effects { action, _ in action > 0 ? .run { $0(-action) } : nil },
      strictness: .relaxed
    ) { $0 += $1 }
    await withDiscardingTaskGroup { tasks in
      for number in 1...50 { tasks.addTask { await store.send(number) } }
    }
    #expect(Set(await store.skipReceived()) == Set((1...50).map { -$0 }))
    #expect(await store.state == 0)
    await store.finish()
  }

  @Test func `a main actor's test`() async {
    await onMain()
  }

  @MainActor private func onMain() async {
    let store = store()
    var seen = 0
    await store.send(.typed("a")) {
      $0.query = "a"
      seen += 1
    }
    await store.run()
    await store.receive(where: { $0 == .began }) {
      $0.isLoading = true
      seen += 1
    }
    await store.skipReceived()
    await store.finish()
    #expect(seen == 2)
  }

  @Test func `a poller is woken at each of its intervals`() async {
    let store = store()
    await store.send(.tick)
    await store.advance(by: .seconds(3))
    for _ in 1...3 { await store.receive(.tick) }
    #expect(await store.advanceToNextSleeper() == .seconds(1))
    await store.receive(.tick)
    await expectFailure {
      await store.run(limit: 10)
    } matching: {
      $0.says("Something still sleeps after 10 deadlines: the next is 1.0 seconds away.")
    }
    _ = await store.skipReceived()
    await expectFailure { await store.finish() }
  }

  @Test func `from within an effect`() async {
    let stores = Record<TestStore<Int, Int>>()
    let store = TestStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        return .run { dispatch in
          await stores.all[0].send(10) { $0 += 10 }
          dispatch(100)
        }
      }
    ) { $0 += $1 }
    stores.add(store)
    await store.send(1) { $0 = 1 }
    await store.receive(100) { $0 = 111 }
    await store.finish()
  }

  @Test func `a reducer that does nothing, and child stores`() async throws {
    let store = TestStore<Int, Int>(initialState: 0) { _, _ in }
    await store.send(1)
    await expectFailure {
      await store.send(1) { $0 = 1 }
    } matching: {
      $0.says("The state after 1 is not as expected.\n  expected 1, is 0")
    }
    let child = store.root.childStore(initialState: 0) { $0 += $1 }
    try await child.send(3)
    await store.receive(3)
    await store.finish()
    #expect(child.dispatch(1) == .terminated)
  }

  @Test func `a store that is shut down in the middle`() async {
    let store = store()
    await store.send(.typed("a")) { $0.query = "a" }
    await store.root.shutdown()
    await store.advance(by: .seconds(1))
    await expectFailure {
      await store.receive(.began)
    } matching: {
      $0.says("Expected .began, and nothing comes: the store has settled.")
    }
    await store.finish()
  }

  @Test func `a cancelled test does not hang`() async {
    let store = store(strictness: .relaxed) { _ in
      await Gate(isWork: true).wait()
      return []
    }
    let test = Task {
      await store.send(.typed("a"))
      await store.run()
    }
    test.cancel()
    await test.value
  }

  @Test func `a long chain of commits`() async {
    let store = TestStore<Int, Int>(
      initialState: 0, options: TestOptions(limit: .seconds(280)),
      interceptors: .effects { action, _ in action < 500 ? .run { $0(action + 1) } : nil }
    ) { $0 = $1 }
    await store.send(1) { $0 = 1 }
    for action in 2...100 { await store.receive(action) { $0 = action } }
    #expect(await store.skipReceived().count == 400)
    await store.finish()
  }
}
