import PureduxTestSupport
import Testing

@testable import Puredux

/// `settled()` returns when nothing is left to do until a new request arrives or time passes.
@Suite(.timeLimit(.minutes(15))) struct SettledTests {
  @Test(arguments: Kind.allCases)
  func `everything that an action causes is committed, down to the last effect`(kind: Kind) async throws {
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action > 1 else { return nil }
        return .all(.run { $0(action - 1) }, .run { $0(action - 2) }.id(action, .inTurn()))
      })
    for (action, commits) in [(1, 1), (2, 3), (3, 5), (6, 25), (9, 109)] {
      let before = await subject.root.statistics.commits
      subject.store.dispatch(action)
      await subject.root.settled()
      #expect(await subject.root.statistics.commits - before == commits)
      #expect(await subject.root.statistics.runningTasks == 0)
    }
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases, [1, 5, 300])
  func `actions dispatched within a commit are committed, however long the chain`(kind: Kind, length: Int) async throws
  {
    let subject = Subject(
      kind,
      interceptors: .effects { action, context in
        if action > 1 { context.dispatch(action - 1) }
        return nil
      })
    let before = await subject.root.statistics.commits
    subject.store.dispatch(length)
    await subject.root.settled()
    #expect(await subject.root.statistics.commits - before == length)
    await subject.root.shutdown()
  }

  @Test func `on a step-by-step executor, a chain is committed to its end`() async {
    let executor = ManualExecutor()
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(executor: .serial(executor)),
      interceptors: .effects { action, context in
        if action > 1 { context.dispatch(action - 1) }
        return nil
      }
    ) { $0 += $1 }
    executor.hold()
    store.dispatch(20)
    let isSettled = Gate()
    async let commits = {
      await store.settled()
      let commits = await store.statistics.commits
      isSettled.open()
      // This adds an action to wait for.
      store.dispatch(0)
      return commits
    }()
    while !isSettled.isOpen {
      await executor.untilWaiting(1)
      await executor.step()
    }
    executor.letGo()
    #expect(await commits == 20)
    await store.shutdown()
  }

  @Test func `a cancelled caller returns from an endless chain`() async {
    let store = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, context in
        context.dispatch(action)
        return nil
      }
    ) { $0 += $1 }
    store.dispatch(1)
    let settling = Task { await store.settled() }
    settling.cancel()
    await settling.value
    await store.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `effects that sleep on the store's clock are not awaited, and due ones are`(kind: Kind) async throws {
    let clock = ManualClock()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        switch action {
        case 1: .run { $0(10) }.id("search", .debounced(for: .seconds(3)))
        case 2: .run { $0(20) }.after(.seconds(5))
        case 3:
          .run { dispatch in
            for tick in 30... {
              try await dispatch.sleep(for: .seconds(1))
              dispatch(tick)
            }
          }.id("poll")
        case 4: .cancel("poll")
        default: nil
        }
      })
    let states = subject.states()
    func settle(after seconds: Int = 0) async -> [Int] {
      clock.advance(by: .seconds(seconds))
      await subject.root.settled()
      let count = await subject.root.statistics.commits
      defer { seen = count }
      return await states.collect(count - seen).map(\.root.last)
    }
    var seen = 0
    _ = await states.collect(1)
    for action in [1, 2, 1, 3] { subject.store.dispatch(action) }
    #expect(await settle() == [1, 2, 1, 3])
    #expect(await settle(after: 1) == [30])
    #expect(await settle(after: 1) == [31])
    #expect(Set(await settle(after: 1)) == [10, 32])
    #expect(await settle(after: 1) == [33])
    #expect(Set(await settle(after: 1)) == [20, 34])
    subject.store.dispatch(4)
    #expect(await settle() == [4])
    #expect(await settle(after: 10) == [])
    #expect(await subject.root.statistics.runningTasks == 0)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `running effects of interceptors, observers and the state are awaited`(kind: Kind) async throws {
    let log = Record<String>()
    let gates = (0...2).map { _ in Gate(isWork: true) }
    let begun = Record<Int>()
    @Sendable func work(_ number: Int) async {
      begun.add(number)
      await gates[number].wait()
      log.add("done \(number)")
    }
    let subject = Subject(kind, interceptors: .effects { _, _ in .run { _ in await work(0) } })
    subject.store.subscribe(
      observer: Observer { state in
        if state.root.last == 1 { await work(1) }
        return .active
      })
    subject.store.subscribe(effect: .while({ $0.root.last == 1 }) { .run { _ in await work(2) } })
    await subject.root.settled()
    try await subject.store.send(1)
    await begun.untilCount(3)
    let settled = Task {
      await subject.root.settled()
      log.add("settled")
    }
    await untilAwaited(subject.root)
    for gate in gates { gate.open() }
    await settled.value
    #expect(log.all.count == 4)
    #expect(log.all.last == "settled")
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `an effect that follows the store has seen every state, and its actions are committed`(kind: Kind)
    async throws
  {
    let subject = Subject(kind)
    let store = subject.store.store()
    subject.store.subscribe(
      effect: .while({ _ in true }) {
        .run { dispatch in
          for await state in store.states() where state.root.last > 0 && state.root.last % 2 == 0 {
            dispatch(state.root.last + 1)
          }
        }
      })
    subject.store.subscribe(
      observer: Observer { state in
        if state.root.last > 0, state.root.last % 2 == 1, state.root.last < 20 {
          store.dispatch(state.root.last + 1)
        }
        return .active
      })
    await subject.root.settled()
    subject.store.dispatch(1)
    await subject.root.settled()
    #expect(await subject.root.state.root == Ledger(count: 21, last: 21))
    await subject.root.shutdown()
  }

  @Test func `a child task that sleeps does not make its effect sleep`() async throws {
    let clock = ManualClock()
    let gate = Gate(isWork: true)
    let log = Record<String>()
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptor: { _, dispatch in
        await withDiscardingTaskGroup { tasks in
          tasks.addTask { try? await dispatch.sleep(for: .seconds(1)) }
          await gate.wait()
          tasks.cancelAll()
        }
        log.add("done")
      }
    ) { $0 += $1 }
    try await store.send(1)
    await clock.untilAsleep(1)
    let settled = Task {
      await store.settled()
      log.add("settled")
    }
    await untilAwaited(store)
    gate.open()
    await settled.value
    #expect(log.all == ["done", "settled"])
    await store.shutdown()
  }

  /// Returns when a caller waits for the store's effects to rest.
  private func untilAwaited<State, Action>(_ store: RootStore<State, Action>) async {
    while store.core.node.existingEffects?.isRestAwaited != true { await Task.yield() }
  }

  @Test func `an effect that waits for a future state is at rest`() async throws {
    let seen = Record<Int>()
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let positive = root.scope(toOptional: { $0 > 0 ? $0 : nil })
    root.subscribe(
      effect: .while({ _ in true }) {
        .run { _ in for await state in positive.states() { seen.add(state) } }
      })
    for _ in 1...50 { await root.settled() }
    try await root.send(1)
    await root.settled()
    #expect(seen.all == [1])
    await root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
  }

  @Test func `an effect that follows another tree is at rest until it receives a state`() async throws {
    let (seen, commits) = (Record<Int>(), Record<Int>())
    let history = History<Int, Int>(limit: 10)
    let other = RootStore<Int, Int>(initialState: 0, history: history) { $0 += $1 }
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    root.subscribe(
      effect: .while({ _ in true }) {
        .all(
          .run { dispatch in for await state in other.states() { dispatch(state) } },
          .run { _ in for await state in other.states() as StateSequence { seen.add(state) } },
          .run { _ in for await commit in history.commits() { commits.add(commit.state) } })
      })
    for _ in 1...50 { await root.settled() }
    for sum in 1...20 {
      try await other.send(1)
      await root.settled()
      #expect(seen.all == Array(0...sum))
      #expect(commits.all == Array(1...sum))
      #expect(await root.state == sum * (sum + 1) / 2)
    }
    await root.shutdown()
    await other.shutdown()
  }

  @Test func `an effect that waits for another tree's state or action is at rest until it arrives or the time is over`()
    async throws
  {
    let clock = ManualClock()
    let other = RootStore<Int, Int>(initialState: 0, options: StoreOptions(clock: clock)) { $0 += $1 }
    let root = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in
        switch action {
        case 1: .run { dispatch in dispatch(try await other.first(where: { $0 >= 5 }) * 10) }
        case 2: .run { dispatch in dispatch(try await other.firstAction(matching: { $0 == 3 ? 100 : nil })) }
        case 4:
          .run { dispatch in
            do {
              _ = try await other.first(where: { $0 < 0 }, within: .seconds(5))
            } catch is TimedOut {
              dispatch(1_000)
            }
          }
        default: nil
        }
      }
    ) { $0 += $1 }
    for action in [1, 2, 4] { try await root.send(action) }
    await root.settled()
    #expect(await root.state == 7)
    try await other.send(3)
    await root.settled()
    #expect(await root.state == 107)
    try await other.send(2)
    await root.settled()
    #expect(await root.state == 157)
    clock.advance(by: .seconds(4))
    await root.settled()
    #expect(await root.state == 157)
    clock.advance(by: .seconds(1))
    await root.settled()
    #expect(await root.state == 1_157)
    await root.shutdown()
    await other.shutdown()
  }

  @Test func `an effect that follows the commits of its own store is at rest, and is not waited for at the end`()
    async throws
  {
    let commits = Record<Int>()
    let history = History<Int, Int>(limit: 10)
    let root = RootStore<Int, Int>(initialState: 0, history: history) { $0 += $1 }
    root.subscribe(
      effect: .while({ _ in true }) {
        .run { _ in for await commit in history.commits() { commits.add(commit.state) } }
      })
    for sum in 1...20 {
      try await root.send(1)
      await root.settled()
      #expect(commits.all == Array(1...sum))
    }
    await root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(commits.all == Array(1...20))
  }

  @Test func `a clock that throws is replaced by the continuous one, which sleeps`() async throws {
    struct Broken: Clock {
      struct Instant: InstantProtocol {
        var time = Swift.Duration.zero
        func advanced(by duration: Swift.Duration) -> Instant { Instant(time: time + duration) }
        func duration(to other: Instant) -> Swift.Duration { other.time - time }
        static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.time < rhs.time }
      }
      struct Mishap: Error {}
      var now: Instant { Instant() }
      var minimumResolution: Swift.Duration { .zero }
      func sleep(until deadline: Instant, tolerance: Swift.Duration?) async throws { throw Mishap() }
    }
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: Broken()),
      interceptor: { action, dispatch in
        try? await dispatch.sleep(for: .nanoseconds(1))
        if action == 1 { dispatch(10) }
      }
    ) { $0 += $1 }
    let states = store.states()
    try await store.send(1)
    #expect(await states.collect(until: { $0 == 11 }) == [0, 1, 11])
    await store.shutdown()
  }

  @Test func `a cancelled call returns, and a call from an effect does not wait for that effect`() async throws {
    let (begun, gate, done) = (Gate(), Gate(isWork: true), Gate())
    let reference = Record<RootStore<Int, Int>>()
    let store = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, _ in
        .run { _ in
          switch action {
          case 1:
            begun.open()
            await gate.wait()
          default:
            // The two effects wait for each other, so one of them must not.
            await reference.all[0].settled()
            if action == 3 { done.open() }
          }
        }
      }
    ) { $0 += $1 }
    reference.add(store)
    try await store.send(1)
    await begun.wait()
    for _ in 1...100 {
      let call = Task { await store.settled() }
      call.cancel()
      await call.value
    }
    gate.open()
    await store.settled()
    try await store.send(2)
    try await store.send(3)
    await done.wait()
    await store.settled()
    await store.shutdown()
    await store.settled()
  }

  @Test func `sleeping on the store's clock ends with the task, and a time of zero is none`() async throws {
    let clock = ManualClock()
    let errors = Record<String>()
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptor: { _, dispatch in
        do {
          try await dispatch.sleep(for: .zero)
          try await dispatch.sleep(for: .seconds(-1))
          try await dispatch.map { (action: Int) in action }.sleep(for: .seconds(1))
        } catch {
          errors.add("\(error is CancellationError)")
        }
      }
    ) { $0 += $1 }
    try await store.send(1)
    await clock.untilAsleep(1)
    await store.settled()
    await store.shutdown()
    #expect(errors.all == ["true"])
  }
}
