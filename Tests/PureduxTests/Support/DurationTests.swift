import Puredux
import PureduxDirectory
import PureduxTestSupport
import PureduxTesting
import Testing

/// Every duration parameter of `Puredux` and `PureduxTesting` at its extremes: nothing traps.
@Suite(.timeLimit(.minutes(15))) struct DurationTests {
  static let extremes: [Duration] = [
    Duration(attoseconds: .max), Duration(attoseconds: .min), .zero, .nanoseconds(-1),
  ]

  enum Time: CaseIterable {
    case continuous, suspending, manual

    var clock: any Clock<Duration> {
      switch self {
      case .continuous: ContinuousClock()
      case .suspending: SuspendingClock()
      case .manual: ManualClock()
      }
    }
  }

  struct Failed: Error {}

  @Test(arguments: extremes, Time.allCases)
  func `delays, policies, retries and sleeps of effects`(duration: Duration, time: Time) async throws {
    let clock = time.clock
    let reports = Record<EffectReport>()
    let store = RootStore<[Int], Int>(
      initialState: [], options: StoreOptions(clock: clock, reporting: { reports.add($0) }),
      interceptors: .effects { action, _ in
        guard action == 0 else { return nil }
        let failing = Effect<Int>.run { _ in throw Failed() }
        return .all(
          .run { $0(1) }.after(duration), .run { $0(2) }.id("debounced", .debounced(for: duration)),
          .run { $0(3) }.id("throttled", .throttled(for: duration)),
          .run { $0(4) }.id("throttled", .throttled(for: duration)),
          .run { dispatch in
            try await dispatch.sleep(for: duration)
            dispatch(5)
          },
          failing.retried(.constant(duration, attempts: 2)),
          failing.retried(.exponential(from: duration, upTo: duration, attempts: 3)),
          failing.retried(.exponential(from: .seconds(1), upTo: duration, attempts: 3)),
          failing.retried(RetryPolicy(attempts: 2) { _ in duration }))
      }
    ) { $0.append($1) }
    for _ in 1...2 {
      try await store.send(0)
      await store.settled()
    }
    if duration > .zero {
      #expect(await store.state.filter { $0 > 0 } == [3])
    } else {
      #expect(await store.state.filter { $0 > 0 }.sorted() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    }
    // Even the longest time ends, after a hundred years.
    if duration > .zero, let clock = clock as? ManualClock {
      for _ in 1...3 { await clock.advance(by: duration, settling: store) }
      #expect(Set(await store.state) == [0, 1, 2, 3, 4, 5])
      #expect(reports.all.count == 8)
    }
    await store.shutdown()
    // Sleeps by the dispatch of a store that has ended.
    let dispatches = Record<Dispatch<Int>>()
    let ended = RootStore<Int, Int>(initialState: 0, interceptor: { dispatches.add($1) }, reducer: { $0 += $1 })
    try await ended.send(1)
    await dispatches.untilCount(1)
    await ended.shutdown()
    let sleeping = Task { try await dispatches.all[0].sleep(for: duration) }
    sleeping.cancel()
    _ = await sleeping.result
  }

  @Test(arguments: extremes, Time.allCases)
  func `the time that effects have to finish`(duration: Duration, time: Time) async throws {
    let begun = Gate()
    let mayEnd = Gate()
    let store = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    store.interceptActions { action, dispatch in
      guard action == 1 else { return }
      begun.open()
      await mayEnd.wait()
      dispatch(10)
    }
    try await store.send(1)
    await begun.wait()
    let states = store.states()
    let ending = Task { await store.shutdown(interceptors: .finish(within: duration), clock: time.clock) }
    if duration > .zero {
      while store.dispatch(0) != .terminated { await Task.yield() }
    } else {
      for await _ in states {}
    }
    mayEnd.open()
    await ending.value
    #expect(await store.state == (duration > .zero ? 11 : 1))
  }

  @Test(arguments: extremes, Time.allCases)
  func `the time for which a directory keeps unused stores`(duration: Duration, time: Time) async throws {
    let clock = time.clock
    let directory = StoreDirectory<Int, Int, Int>(
      idleLimit: duration, clock: clock, interceptors: .finish(within: duration)
    ) { key in RootStore(initialState: key) { $0 += $1 } }
    try await directory.withStore(1) { try await $0.send(1) }
    // The directory checks a followed store again later.
    let states = try await directory.withStore(2) { $0.states() }
    // The next check of a store is due when its time comes again.
    func advance() { (clock as? ManualClock)?.advance(by: max(duration, .seconds(1))) }
    advance()
    if duration <= .zero || clock is ManualClock {
      while await directory.keys.contains(1) { await Task.yield() }
      // A store that is requested later is made again, and removed when its time comes.
      try await directory.withStore(3) { try await $0.send(1) }
      await (clock as? ManualClock)?.untilAsleep(1)
      advance()
      while await directory.keys.contains(3) { await Task.yield() }
    }
    #expect(await directory.keys.contains(2))
    withExtendedLifetime(states) {}
    await directory.shutdown()
  }

  @Test(arguments: extremes)
  func `a clock that is advanced by hand`(duration: Duration) async throws {
    let clock = ManualClock()
    for other in Self.extremes {
      let instant = ManualClock.Instant(time: other)
      let moved = instant.advanced(by: duration)
      #expect(duration > .zero ? moved >= instant : moved <= instant)
      #expect((instant.duration(to: ManualClock.Instant(time: duration)) > .zero) == (duration > other))
    }
    let store = RootStore<Int, Int>(initialState: 0, options: StoreOptions(clock: clock)) { $0 += $1 }
    for _ in 1...3 {
      clock.advance(by: duration)
      await clock.advance(by: duration, settling: store)
      await clock.advance(by: duration, settling: [store])
    }
    #expect((clock.now > ManualClock.Instant()) == (duration > .zero))
    let sleeping = Task { try await clock.sleep(until: ManualClock.Instant(time: duration), tolerance: duration) }
    if ManualClock.Instant(time: duration) > clock.now {
      await clock.untilAsleep(1)
      await clock.advanceToNextSleeper(settling: store)
    }
    try await sleeping.value
    // A store continues with a clock that is at its end.
    let late = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in
        action == 1 ? .run { $0(10) }.id(1, .debounced(for: Duration(attoseconds: .max))) : nil
      }
    ) { $0 += $1 }
    try await late.send(1)
    await late.settled()
    await clock.advance(by: Duration(attoseconds: .max), settling: late)
    await late.shutdown()
  }

  @Test func `the limits of waiting for a store in tests`() async throws {
    let longest = Duration(attoseconds: .max)
    let store = TestStore<Int, Int>(initialState: 0, options: TestOptions(limit: longest)) { $0 += $1 }
    for duration in Self.extremes { await store.advance(by: duration) }
    await store.send(1) { $0 = 1 }
    await store.finish()
    let history = History<Int, Int>(limit: 10)
    let root = RootStore<Int, Int>(initialState: 0, history: history) { $0 += $1 }
    let around = await TestStore(root, history: history, limit: longest)
    await around.send(1) { $0 = 1 }
    await around.finish()
    let states = root.record(limit: longest)
    #expect(await states.next(within: longest) == 1)
    root.dispatch(1)
    #expect(await states.next() == 2)
    root.dispatch(1)
    #expect(await states.next(within: longest) { $0 == 3 } == 3)
    await checkDeliveryContract(
      of: { StoreUnderTest(RootStore<[Int], Int>(initialState: []) { $0.append($1) }) }, given: [1], within: longest
    ) { $0.append($1) }
  }
}
