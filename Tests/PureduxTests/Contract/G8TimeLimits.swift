import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

private struct Mishap: Error {}

@Suite(.timeLimit(.minutes(15))) struct G8TimeLimits {
  @Test(arguments: Kind.allCases, [false, true])
  func `work that takes too long is cancelled, and an action replaces its later ones`(
    kind: Kind, hasID: Bool
  ) async throws {
    let clock = ManualClock()
    let (reduced, ended) = (Record<Int>(), Record<Bool>())
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        let effect = Effect<Int>.run { dispatch in
          dispatch(2)
          await PureduxTesting.untilCancelled()
          dispatch(3)
          try? await dispatch.send(4)
          ended.add(Task.isCancelled)
          throw Mishap()
        }.retried(.constant(.zero)).catching { _ in 5 }.timeout(after: .seconds(3), 9)
        return hasID ? effect.id("a") : effect
      }, reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    try await subject.store.send(1)
    await subject.root.settled()
    clock.advance(by: .seconds(2))
    await subject.root.settled()
    #expect(reduced.all == [1, 2])
    clock.advance(by: .seconds(1))
    await subject.root.settled()
    #expect(reduced.all == [1, 2, 9])
    #expect(ended.all == [true])
    #expect(await subject.root.statistics.runningTasks == 0)
    await subject.root.shutdown()
  }

  /// The tree is suspended from before the limit until the work has ended.
  @Test(arguments: Kind.inMemory)
  func `an action dispatched in time is committed, even if its turn comes later`(kind: Kind) async throws {
    let clock = ManualClock()
    let executor = HeldExecutor()
    let reduced = Record<Int>()
    let (started, mayGoOn, dispatched, ended) = (Gate(), Gate(), Gate(), Gate())
    let subject = Subject(
      kind, executor: .serial(executor), clock: clock,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        return .run { dispatch in
          started.open()
          await mayGoOn.wait()
          dispatch(2)
          dispatched.open()
          await untilCancelled()
          dispatch(3)
          ended.open()
        }.timeout(after: .seconds(3), 9)
      }, reducing: { reduced.add($0) })
    try await subject.store.send(1)
    await started.wait()
    executor.hold()
    mayGoOn.open()
    await dispatched.wait()
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(3))
    await ended.wait()
    executor.letGo()
    await subject.root.settled()
    #expect(reduced.all == [1, 2, 9])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `the time includes all attempts and begins after the delay`(kind: Kind) async throws {
    let clock = ManualClock()
    let (attempts, reduced) = (Record<Duration>(), Record<Int>())
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        return .run { _ in
          attempts.add(clock.now.time)
          throw Mishap()
        }.timeout(after: .milliseconds(2500), 9).retried(.constant(.seconds(1))).after(.seconds(10))
      }, reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    try await subject.store.send(1)
    await clock.advance(by: .seconds(12), settling: subject.root)
    #expect(reduced.all == [1])
    await clock.advance(by: .seconds(20), settling: subject.root)
    #expect(attempts.all == [10, 11, 12].map { .seconds($0) })
    #expect(reduced.all == [1, 9])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `the timeout action is not dispatched if the work has ended or is cancelled`(kind: Kind) async throws {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        switch action {
        case 1: .run { try await $0.sleep(for: .seconds(2)) }.timeout(after: .seconds(3), 9)
        case 2: .run { try await $0.sleep(for: .seconds(20)) }.timeout(after: .seconds(3), 9).id("a")
        case 3: .cancel("a")
        default: nil
        }
      }, reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    for action in 1...2 { try await subject.store.send(action) }
    await clock.advance(by: .milliseconds(2500), settling: subject.root)
    try await subject.store.send(3)
    await subject.root.settled()
    #expect(clock.nextDeadline == nil)
    await clock.advance(by: .seconds(20), settling: subject.root)
    #expect(reduced.all == [1, 2, 3])
    await subject.root.shutdown()
  }

  @Test(arguments: [Duration.zero, .seconds(-1), Duration(attoseconds: .min)])
  func `without any time the work does not begin`(time: Duration) async throws {
    let subject = Subject(
      .rootActor,
      interceptors: .effects { action, _ in
        action == 1 ? .run { _ in Issue.record("It has begun.") }.timeout(after: time, 9) : nil
      })
    try await subject.store.send(1)
    await subject.root.settled()
    #expect(await subject.root.state.root.last == 9)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `without any time, a cancelled effect dispatches nothing`(kind: Kind) async throws {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        switch action {
        case 1: .run { _ in }.after(.seconds(1)).timeout(after: .zero, 9).id("a")
        case 2: .cancel("a")
        default: nil
        }
      }, reducing: { reduced.add($0) })
    for action in 1...2 { try await subject.store.send(action) }
    await clock.advance(by: .seconds(1), settling: subject.root)
    #expect(reduced.all == [1, 2])
    await subject.root.shutdown()
  }

  @Test func `the longest time is long`() async throws {
    let clock = ManualClock()
    let subject = Subject(
      .rootActor, clock: clock,
      interceptors: .effects { action, _ in
        action == 1
          ? .run { try await $0.sleep(for: .seconds(5)) }.timeout(after: Duration(attoseconds: .max), 9) : nil
      })
    try await subject.store.send(1)
    await clock.advance(by: .seconds(5), settling: subject.root)
    #expect(await subject.root.state.root.last == 1)
    #expect(await subject.root.statistics.runningTasks == 0)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `effects of the state and of mapped actions have a time, too`(kind: Kind) async throws {
    let clock = ManualClock()
    let subject = Subject(kind, clock: clock)
    let effect = Effect<String>.run { _ in await PureduxTesting.untilCancelled() }
      .timeout(after: .seconds(3), "9").map { Int($0) ?? 0 }
    subject.store.subscribe(effect: .while({ $0.root.last == 1 }) { effect })
    try await subject.store.send(1)
    await subject.root.settled()
    await clock.advance(by: .seconds(3), settling: subject.root)
    #expect(try await subject.store.state.root.last == 9)
    await subject.root.shutdown()
  }
}
