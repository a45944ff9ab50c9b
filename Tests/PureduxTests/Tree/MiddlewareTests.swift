import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct MiddlewareTests {
  /// Records when it runs, and with which state.
  static func noting(
    _ name: String, _ steps: Record<String>, passing change: @escaping @Sendable (Int) -> Int = { $0 }
  ) -> Middleware<Int, Int> {
    Middleware { action, context, next in
      steps.add("\(name) before \(action): \(context.state)")
      next(change(action))
      steps.add("\(name) after \(action): \(context.state)")
    }
  }

  @Test func `a released store releases everything that its middleware holds`() async throws {
    var token: Token? = Token()
    let gone = try #require(token).gone
    var root: RootStore<Int, Int>? = RootStore(
      initialState: 0,
      middleware: [Middleware { [token] action, _, next in withExtendedLifetime(token) { next(action) } }]
    ) { $0 += $1 }
    token = nil
    let proxy = try #require(root?.store())
    try await proxy.send(1)
    root = nil
    await #expect(throws: StoreError.terminated) { try await proxy.send(2) }
    withExtendedLifetime(proxy) {}
    _ = consume proxy
    await gone.wait()
  }

  @Test func `it runs before in order, then the reducer, then the states are published, and after in reverse`()
    async throws
  {
    let steps = Record<String>()
    let store = RootStore<Int, Int>(
      initialState: 0, interceptors: Interceptor(where: { steps.add("interceptor \($0)") == () && false }) { _, _ in },
      middleware: [Self.noting("first", steps), Self.noting("second", steps) { $0 * 10 }]
    ) { state, action in
      steps.add("reducer \(action)")
      state += action
    }
    let watched = store.scope { state in
      steps.add("published \(state)")
      return state
    }
    let states = watched.states()
    try await store.send(1)
    #expect(
      steps.all == [
        "published 0", "first before 1: 0", "second before 1: 0", "reducer 10", "published 10", "interceptor 10",
        "second after 1: 10", "first after 1: 10",
      ])
    withExtendedLifetime(states) {}
  }

  @Test func `along the path all of it runs before any reducer, from the store up to the root`() async throws {
    let steps = Record<String>()
    func step<State>(_ name: String) -> Middleware<State, Int> {
      Middleware { action, context, next in
        steps.add("\(name) before \(action) of \(context.store)")
        next(action + 1)
        steps.add("\(name) after \(action)")
      }
    }
    let root = RootStore(initialState: 0, middleware: [step("root")]) { state, action in
      steps.add("root reduces \(action)")
      state += action
    }
    let plain = root.childStore(initialState: 0) { state, action in
      steps.add("child reduces \(action)")
      state += action
    }
    let grandchild = plain.childStore(
      initialState: 0, stateMapping: { ($0.0, $0.1, $1) }, middleware: [step("grandchild 1"), step("grandchild 2")],
      reducer: { state, action in
        steps.add("grandchild reduces \(action)")
        state += action
      })
    #expect(try await grandchild.send(1) { [$0.0, $0.1, $0.2] } == [4, 4, 4])
    #expect(
      steps.all == [
        "grandchild 1 before 1 of child 2", "grandchild 2 before 2 of child 2", "root before 3 of child 2",
        "grandchild reduces 4", "child reduces 4", "root reduces 4", "root after 3", "grandchild 2 after 2",
        "grandchild 1 after 1",
      ])
    #expect(try await plain.send(0) { [$0.0, $0.1] } == [5, 5], "only the root's is on the child's path")
  }

  @Test(arguments: Kind.allCases)
  func `a stopped action changes nothing, wakes no subscriber, and its sender gets the reason`(kind: Kind) async throws
  {
    let intercepted = Record<Int>()
    let history = History<Snapshot, Int>(limit: 10)
    let guarded = Subject(
      kind, interceptors: Interceptor { action, _ in intercepted.add(action) },
      middleware: [.guarding { action, state in action < -state.root.count ? "too low" : nil }],
      history: history)
    let states = guarded.store.states()
    guarded.store.dispatch(1)
    #expect(guarded.store.dispatch(-2) == .enqueued, "of what middleware will do nothing is known yet")
    await #expect(throws: StoreError.rejected(reason: "too low")) { try await guarded.store.send(-2) }
    await #expect(throws: StoreError.rejected(reason: "too low")) { try await guarded.store.send(-3) { $0 } }
    try await guarded.store.send(2)
    await guarded.root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(await states.collect() == guarded.expectedStates(during: [1, 2]))
    #expect(intercepted.all.sorted() == [1, 2], "nor does it reach the interceptor")
    #expect(history.entries.map(\.action) == [1, 2], "nor the history")
    #expect(history.entries.map(\.position) == [1, 2])
  }

  @Test(arguments: Kind.allCases)
  func `the reason can be made at run time`(kind: Kind) async throws {
    let guarded = Subject(
      kind,
      middleware: [
        .guarding { action, state in action < state.root.last ? "\(action) is less than \(state.root.last)." : nil }
      ])
    try await guarded.store.send(5)
    let error = await #expect(throws: StoreError.self) { try await guarded.store.send(3) }
    #expect(error == .rejected(reason: "3 is less than 5."))
    #expect(error.map { "\($0)" }?.contains("3 is less than 5.") == true)
    try await guarded.store.send(7)
    await #expect(throws: StoreError.rejected(reason: RejectionReason("6 is less than \(3 + 4)."))) {
      try await guarded.store.send(6) { $0 }
    }
    #expect(try await guarded.store.state == guarded.expected(after: [5, 7]))
    await guarded.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `an action stopped without a reason is rejected without one`(kind: Kind) async throws {
    let subject = Subject(kind, middleware: [Middleware { _, _, _ in }])
    await #expect(throws: StoreError.rejected(reason: nil)) { try await subject.store.send(1) }
    #expect(try await subject.store.state == subject.expected(after: []))
  }

  @Test(arguments: Kind.allCases)
  func `reducers, interceptors and histories get the actions that it passes on`(kind: Kind) async throws {
    let intercepted = Record<Int>()
    let history = History<Snapshot, Int>(limit: 10)
    let subject = Subject(
      kind, interceptors: Interceptor { action, _ in intercepted.add(action) },
      middleware: [
        Middleware { action, _, next in next(action * 2) }, Middleware { action, _, next in next(action + 1) },
      ],
      history: history)
    try await subject.store.send(10)
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(intercepted.all == [21])
    #expect(history.entries.map(\.action) == [21])
    #expect(history.entries.map(\.state.root.last) == [21])
  }

  @Test(arguments: Kind.allCases)
  func `an action passed on more than once makes consecutive commits`(kind: Kind) async throws {
    let subject = Subject(
      kind,
      middleware: [
        Middleware { action, _, next in
          for part in 0..<action { next(part) }
        }
      ])
    let states = subject.store.states()
    #expect(try await subject.store.send(3) { $0.root } == Ledger(count: 3, last: 2))
    await #expect(throws: StoreError.rejected(reason: nil)) { try await subject.store.send(0) }
    await subject.root.shutdown()
    #expect(await states.collect() == subject.expectedStates(during: [0, 1, 2]))
  }

  @Test(arguments: Kind.allCases)
  func `its own actions go to the store of the action, later in the order`(kind: Kind) async throws {
    let subject = Subject(
      kind,
      middleware: [
        Middleware { action, context, next in
          if action < 100 { #expect(context.dispatch(action + 100) == .enqueued) }
          next(action)
          if action < 100 { #expect(context.dispatch(action + 200) == .enqueued) }
        }
      ])
    let states = subject.store.states()
    subject.store.dispatch(1)
    #expect(await states.collect(4) == subject.expectedStates(during: [1, 101, 201]))
  }

  @Test func `a child's sees the child's whole state, both halves from one commit`() async throws {
    let seen = Record<[Int]>()
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let child = root.childStore(
      initialState: 0,
      middleware: [
        Middleware { action, context, next in
          seen.add([context.state.0, context.state.1])
          next(action)
          seen.add([context.state.0, context.state.1])
        }
      ], reducer: { $0 -= $1 })
    try await root.send(1)
    try await child.send(5)
    #expect(seen.all == [[1, 0], [6, -5]])
  }

  @Test func `it knows whether the action was committed`() async throws {
    let seen = Record<Bool>()
    let store = RootStore<Int, Int>(
      initialState: 0,
      middleware: [
        Middleware { action, context, next in
          seen.add(context.isCommitted)
          next(action)
          seen.add(context.isCommitted)
        }, .guarding { action, _ in action < 0 ? "below zero" : nil },
      ]
    ) { $0 += $1 }
    try await store.send(1)
    try? await store.send(-1)
    #expect(seen.all == [false, true, false, false])
  }

  @Test func `logging reports the action, the changes and the duration`() async throws {
    let logs = Record<ActionLog<Snapshot, Int>>()
    let clock = ManualClock()
    let subject = Subject(
      .grandchild,
      middleware: [
        .logging(clock: clock) { logs.add($0) },
        Middleware { action, _, next in
          clock.advance(by: .milliseconds(3))
          next(action)
        }, .guarding { action, _ in action < 0 ? "below zero" : nil },
      ])
    try await subject.store.send(7)
    try? await subject.store.send(-1)
    let log = try #require(logs.all.first)
    #expect(log.action == 7)
    #expect(log.store == subject.store.id)
    #expect(log.isCommitted)
    #expect(log.taken == .milliseconds(3))
    let (before, after) = (Ledger(), Ledger(count: 1, last: 7))
    let changes = [
      "root.count: 0 -> 1", "root.last: 0 -> 7", "keyed: \(Keyed([(1, before)])) -> \(Keyed([(1, after)]))",
    ]
    #expect(log.changes.map(\.description) == changes)
    #expect(logs.all.map(\.isCommitted) == [true, false])
    #expect(logs.all[1].changes.isEmpty)
  }

  @Test func `timing reports each action and the duration of the inner middleware and the commit`() async throws {
    let times = Record<Duration>()
    let clock = ManualClock()
    let store = RootStore<Int, Int>(initialState: 0, middleware: [.timing(clock: clock) { times.add($0 * $1) }]) {
      clock.advance(by: .seconds(2))
      $0 += $1
    }
    try await store.send(1)
    try await store.send(10)
    #expect(times.all == [.seconds(2), .seconds(20)])
  }

  @Test func `a collection that middleware reads is mutated in place`() async throws {
    let store = RootStore<[Int], Int>(
      initialState: Array(0..<1000),
      middleware: [
        .guarding { action, state in state.count > 100_000 ? "too many" : nil },
        Middleware { action, context, next in
          let before = context.state.count
          next(action)
          #expect(context.state.count == before)
        }, .timing { _, _ in },
      ]
    ) { state, action in state[action] += 1 }
    let first = try await store.send(0) { state in
      unsafe state.withUnsafeBufferPointer { Int(bitPattern: $0.baseAddress) }
    }
    let second = try await store.send(1) { state in
      unsafe state.withUnsafeBufferPointer { Int(bitPattern: $0.baseAddress) }
    }
    #expect(first == second)
  }

  /// Code that keeps a context must declare that it is unsafe, because the context is not `Sendable`.
  @Test func `a context kept after its action dispatches nothing`() async throws {
    final class Keeper: @unchecked Sendable {
      var context: MiddlewareContext<Int, Int>?
      var answers: [DispatchResult] = []
    }
    let keeper = Keeper()
    let root = RootStore<Int, Int>(
      initialState: 0,
      middleware: [
        Middleware { action, context, next in
          // Dispatches nothing even while the next action is handled.
          if let kept = keeper.context { keeper.answers.append(kept.dispatch(1)) }
          keeper.context = context
          next(action)
        }
      ]
    ) { $0 += $1 }
    try await root.send(1)
    #expect(keeper.context?.dispatch(1) == .terminated)
    #expect(keeper.context?.store == .root)
    #expect(keeper.context?.isCommitted == true)
    #expect(await root.state == 1)
    try await root.send(1)
    #expect(keeper.answers == [.terminated])
    #expect(await root.state == 2)
  }
}

extension Duration {
  fileprivate static func * (action: Int, duration: Duration) -> Duration { duration * action }
}
