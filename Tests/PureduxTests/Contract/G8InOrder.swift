import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

private struct Mishap: Error {}

/// A sequence of effects: each begins when the previous one has ended.
@Suite(.timeLimit(.minutes(15))) struct G8InOrder {
  @Test(arguments: Kind.allCases)
  func `each effect begins when the previous one has ended, even by a failure`(kind: Kind) async throws {
    let clock = ManualClock()
    let (reduced, reports) = (Record<Int>(), Record<String>())
    let gate = Gate()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        return .inOrder(
          .run { dispatch in
            dispatch(2)
            await gate.wait()
            dispatch(3)
          },
          .run { _ in throw Mishap() }.id("failing"),
          .run { _ in throw Mishap() }.retried(.constant(.seconds(1), attempts: 2)).catching { _ in 4 },
          .run { try await $0.sleep(for: .seconds(10)) }.timeout(after: .seconds(1), 5),
          .run { try await $0.send(6) }.after(.seconds(1)))
      }, reporting: { reports.add("\($0.effect ?? "")") }, reducing: { reduced.add($0) })
    try await subject.store.send(1)
    await subject.root.settled()
    #expect(reduced.all == [1, 2])
    gate.open()
    await subject.root.settled()
    #expect(reduced.all == [1, 2, 3])
    #expect(reports.all == ["failing"])
    for expected in [[1, 2, 3, 4], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6]] {
      await clock.advance(by: .seconds(1), settling: subject.root)
      #expect(reduced.all == expected)
    }
    #expect(await subject.root.statistics.runningTasks == 0)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `the sequence has one id, and its cancellation ends all parts`(kind: Kind) async throws {
    let reduced = Record<Int>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        switch action {
        case 1:
          .inOrder(
            .run { _ in await PureduxTesting.untilCancelled() }.id("part"), .run { $0(2) }, .cancel("other")
          ).id("whole")
        case 3: .cancel("part")
        case 4: .cancel("whole")
        case 5: .run { _ in await PureduxTesting.untilCancelled() }.id("other")
        default: nil
        }
      }, reducing: { reduced.add($0) })
    for action in [1, 5, 3] { try await subject.store.send(action) }
    await subject.root.settled()
    #expect(await subject.root.statistics.effects == ["whole": 1, "other": 1])
    try await subject.store.send(4)
    await subject.root.settled()
    #expect(await subject.root.statistics.effects == ["other": 1])
    #expect(reduced.all == [1, 5, 3, 4])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `a part may be several concurrent effects, or a cancellation`(kind: Kind) async throws {
    let reduced = Record<Int>()
    let (begun, gates) = ([Gate(), Gate()], [Gate(), Gate()])
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        let parts = (0...1).map { number in
          Effect<Int>.run { dispatch in
            begun[number].open()
            await gates[number].wait()
            dispatch(10 + number)
          }
        }
        return switch action {
        case 1: .run { _ in await PureduxTesting.untilCancelled() }.id("other")
        case 2: .inOrder(Effect(combining: parts), .cancel("other"), .run { $0(20) })
        default: nil
        }
      }, reducing: { reduced.add($0) })
    for action in [1, 2] { try await subject.store.send(action) }
    for gate in begun { await gate.wait() }
    let states = subject.states()
    gates[1].open()
    _ = await states.collect(until: { $0.root.last == 11 })
    #expect(await subject.root.statistics.effects == ["other": 1])
    gates[0].open()
    await subject.root.settled()
    #expect(reduced.all == [1, 2, 11, 10, 20])
    #expect(await subject.root.statistics.effects.isEmpty)
    await subject.root.shutdown()
  }

  @Test func `the time limit and the delay of the sequence apply to all parts together`() async throws {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let subject = Subject(
      .rootActor, clock: clock,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        let parts = (2...9).map { number in
          Effect<Int>.run { dispatch in
            try await dispatch.sleep(for: .seconds(1))
            dispatch(number)
          }
        }
        return .inOrder(.inOrder(parts[0], parts[1]), parts[2], parts[3]).after(.seconds(5))
          .timeout(after: .milliseconds(2500), 100)
      }, reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    try await subject.store.send(1)
    await clock.advance(by: .seconds(5), settling: subject.root)
    #expect(reduced.all == [1])
    await clock.advance(by: .seconds(20), settling: subject.root)
    #expect(reduced.all == [1, 2, 3, 100])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `the retries and the catching of the sequence apply to each part that has none`(kind: Kind) async throws {
    let (attempts, reduced) = (Record<Int>(), Record<Int>())
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        let parts = (1...4).map { part in
          Effect<Int>.run { _ in
            attempts.add(part)
            throw Mishap()
          }
        }
        return .inOrder(
          parts[0], parts[1].retried(.constant(.zero, attempts: 2)).catching { _ in 20 }, .all(parts[2]),
          .inOrder(parts[3])
        ).catching { _ in 9 }.retried(.constant(.zero, attempts: 3))
      }, reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    try await subject.store.send(1)
    await subject.root.settled()
    #expect(attempts.all == [1, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4])
    #expect(reduced.all == [1, 9, 20, 9, 9])
    await subject.root.shutdown()
  }
}
