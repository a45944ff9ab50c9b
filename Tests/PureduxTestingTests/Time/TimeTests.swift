import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// A clock that stands still until it is advanced, and stores that sleep on it.
@Suite(.timeLimit(.minutes(15))) struct TimeTests {
  private let clock = ManualClock()

  /// Adds up its actions; an action that is negative polls every second.
  private func poller() -> RootStore<Int, Int> {
    RootStore(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in
        guard action < 0 else { return nil }
        return .run { dispatch in
          for _ in 0..<(-action) {
            try await dispatch.sleep(for: .seconds(1))
            dispatch(1)
          }
        }.id("poll")
      }
    ) { $0 += max($1, 0) }
  }

  @Test func `sleepers are woken in the order of their deadlines`() async throws {
    let (clock, woken) = (ManualClock(), Record<Int>())
    let sleepers = [3, 1, 2].map { seconds in
      Task {
        try await clock.sleep(for: .seconds(seconds))
        woken.add(seconds)
      }
    }
    await clock.untilAsleep(3)
    #expect(clock.nextDeadline?.time == .seconds(1))
    for left in [2, 1, 0] {
      clock.advance(by: .seconds(1))
      await clock.untilAsleep(left)
      await woken.untilCount(3 - left)
    }
    for sleeper in sleepers { try await sleeper.value }
    #expect(woken.all == [1, 2, 3])
    #expect(clock.nextDeadline == nil)
    #expect(clock.sleepCount == 3)
  }

  @Test(arguments: [Duration.zero, .seconds(-1)]) func `no time passes with a duration of zero or less`(
    duration: Duration
  ) async throws {
    try await clock.sleep(for: duration)
    clock.advance(by: .seconds(5))
    let store = poller()
    store.dispatch(-1)
    await clock.advance(by: duration, settling: store)
    clock.advance(by: duration)
    #expect(clock.now.time == .seconds(5))
    #expect(clock.nextDeadline?.time == .seconds(6))
    await store.shutdown()
  }

  @Test func `a sleeper that is cancelled throws, whether it sleeps or comes late`() async throws {
    let gate = Gate()
    let asleep = Task { [clock] in try await clock.sleep(for: .seconds(1)) }
    await clock.untilAsleep(1)
    let late = Task { [clock] in
      await gate.wait()
      try await clock.sleep(for: .seconds(1))
    }
    for task in [asleep, late] { task.cancel() }
    gate.open()
    for task in [asleep, late] { await #expect(throws: CancellationError.self) { try await task.value } }
    await clock.untilAsleep(0)
    #expect(clock.nextDeadline == nil)
  }

  @Test func `a sleeper that sleeps again while time passes is woken each time`() async throws {
    let store = poller()
    store.dispatch(-60)
    await clock.advance(by: .seconds(10), settling: store)
    #expect(await store.state == 10)
    #expect(clock.now.time == .seconds(10))
    await clock.advance(by: .milliseconds(500), settling: store)
    #expect(await store.state == 10)
    await clock.advance(by: .milliseconds(500), settling: store)
    #expect(await store.state == 11)
    await store.shutdown()
  }

  @Test func `one step wakes a poller once`() async throws {
    let store = poller()
    store.dispatch(-60)
    await store.settled()
    clock.advance(by: .seconds(10))
    await store.settled()
    #expect(await store.state == 1)
    await store.shutdown()
  }

  @Test func `time goes to the next sleeper, and to the last`() async throws {
    let stores = [poller(), poller()]
    stores[0].dispatch(-2)
    stores[1].dispatch(-5)
    #expect(await clock.advanceToNextSleeper(settling: stores[0], stores[1]) == .seconds(1))
    #expect(await stores[0].state == 1)
    #expect(await stores[1].state == 1)
    await clock.run(settling: stores[0], stores[1])
    #expect(await stores[0].state == 2)
    #expect(await stores[1].state == 5)
    #expect(clock.now.time == .seconds(5))
    #expect(await clock.advanceToNextSleeper(settling: stores[0], stores[1]) == nil)
    for store in stores { await store.shutdown() }
  }

  @Test func `an endless poller is reported`() async throws {
    let store = poller()
    store.dispatch(-1_000_000)
    await expectFailure {
      await clock.run(settling: store, limit: 20)
    } matching: {
      $0.says("Something still sleeps after 20 deadlines: the next is 1.0 seconds away.")
    }
    #expect(await store.state == 20)
    await store.shutdown()
  }

  @Test func `a sleeper is known when its store has settled, again and again`() async throws {
    let store = poller()
    for round in 1...200 {
      store.dispatch(-1)
      await store.settled()
      #expect(clock.nextDeadline?.time == .seconds(round))
      clock.advance(by: .seconds(1))
      await store.settled()
      #expect(await store.state == round)
    }
    await store.shutdown()
  }

  @Test func `an effect that sleeps on the clock itself, or waits at a gate, is at rest`() async throws {
    let gate = Gate()
    let store = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { [clock] action, _ in
        guard action == 1 else { return nil }
        return .run { dispatch in
          try await clock.sleep(for: .seconds(1))
          dispatch(10)
          await gate.wait()
          dispatch(100)
          await PureduxTesting.untilCancelled()
        }
      }
    ) { $0 += $1 }
    store.dispatch(1)
    await store.settled()
    #expect(await store.state == 1)
    await clock.advance(by: .seconds(1), settling: store)
    #expect(await store.state == 11)
    gate.open()
    #expect(gate.isOpen)
    await store.settled()
    #expect(await store.state == 111)
    await store.shutdown()
  }

  @Test(arguments: [true, false])
  func `an effect that is cancelled while it sleeps is waited for`(sleepsOnTheClock: Bool) async throws {
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects(
        ofState: .onChange(of: { $0 }) { [clock] state in
          if state == 0 { return nil }
          return .run { dispatch in
            if sleepsOnTheClock {
              try await clock.sleep(for: .seconds(1))
            } else {
              try await dispatch.sleep(for: .seconds(1))
            }
            dispatch(-state)
          }
        })
    ) { $0 += $1 }
    for number in 1...100 {
      for action in [1, 1, 1] {
        store.dispatch(action)
        await store.settled()
        #expect(clock.nextDeadline == clock.now.advanced(by: .seconds(1)))
      }
      await clock.advance(by: .seconds(1), settling: store)
      #expect(await store.state == 0, "\(number)")
    }
    await store.shutdown()
  }

  @Test func `an effect that waits at a gate for work is waited for`() async throws {
    let (gate, begun, limits) = (Gate(isWork: true), Gate(), ManualClock())
    let store = TestStore<Int, Int>(
      initialState: 0, options: TestOptions(limit: .seconds(3)),
      interceptor: { action, dispatch in
        if action != 1 { return }
        begun.open()
        await gate.wait()
        dispatch(10)
      }
    ) { $0 += $1 }
    store.root.dispatch(1)
    await begun.wait()
    await WaitingClock.$current.withValue(limits) {
      await expectFailure {
        async let settle: Void = store.settle()
        await limits.passes(.seconds(3))
        await settle
      } matching: {
        $0.text.hasPrefix("After 3.0 seconds the store has not settled.")
      }
      gate.open()
      #expect(await store.skipReceived() == [1, 10])
      await store.finish()
    }
  }

  @Test func `two that advance it at once move it by both durations`() async {
    let clock = clock
    await withDiscardingTaskGroup { tasks in
      for _ in 1...2 {
        tasks.addTask { for _ in 1...10_000 { clock.advance(by: .seconds(1)) } }
      }
    }
    #expect(clock.now.time == .seconds(20_000))
  }

  @Test func `many sleepers on one clock`() async throws {
    let (count, rounds) = (2_000, 3)
    let clock = clock
    await withDiscardingTaskGroup { tasks in
      for number in 1...count {
        tasks.addTask {
          for _ in 1...rounds { try? await clock.sleep(for: .milliseconds(number % 7 + 1)) }
        }
      }
      for _ in 1...rounds {
        await clock.untilAsleep(count)
        clock.advance(by: .milliseconds(7))
      }
    }
    #expect(clock.sleepCount == count * rounds)
    #expect(clock.nextDeadline == nil)
  }

  /// Each of two stores gives the other one work, whichever is named first.
  @Test(arguments: [false, true]) func `stores that wake each other settle together`(isReversed: Bool) async {
    let clock = ManualClock()
    let one = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in action == 1 ? .run { $0(10) }.after(.seconds(1)) : nil }
    ) { $0 += $1 }
    let other = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in .run { _ in one.dispatch(action) }.after(.seconds(5)) }
    ) { $0 += $1 }
    other.dispatch(1)
    await clock.advance(by: .seconds(10), settling: isReversed ? [other, one] : [one, other])
    #expect(await one.state == 11)
    await one.shutdown()
    await other.shutdown()
  }
}
