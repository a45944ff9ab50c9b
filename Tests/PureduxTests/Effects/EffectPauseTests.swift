import PureduxTestSupport
import Testing

@testable import Puredux

/// How callers that wait for rest see an effect that pauses.
@Suite(.timeLimit(.minutes(15))) struct EffectPauseTests {
  /// Cancels the current task as soon as its effect pauses.
  private final class Canceller: RunningEffect.Host {
    let store: (any AnyObject & Sendable)? = nil
    let holds = Record<Bool>()

    func effect(_ effect: RunningEffect, pausesBy pause: RunningEffect.Pause) {
      holds.add(pause.holds)
      // SAFETY: the task is not kept.
      unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
      holds.add(pause.holds)
    }

    func ended(_ effect: RunningEffect) {}
  }

  @Test func `an effect that is cancelled as its sleep begins does not rest`() async {
    let host = Canceller()
    let effect = RunningEffect(of: host)
    await Task {
      effect.beginsHere()
      await ElapsedClock(ContinuousClock()).wait(.seconds(86_400), in: effect)
    }.value
    #expect(host.holds.all == [true, false])
  }

  /// Cancels an effect with an id as soon as it pauses.
  private final class IdentifiedCanceller: RunningEffect.Host {
    let store: (any AnyObject & Sendable)? = nil
    let identified = Record<IdentifiedEffect>()
    let holds = Record<Bool>()

    func effect(_ effect: RunningEffect, pausesBy pause: RunningEffect.Pause) {
      identified.all[0].cancel()
      holds.add(pause.holds)
    }

    func ended(_ effect: RunningEffect) {}
  }

  @Test func `cancelling a resting effect cancels its task at once`() async {
    for _ in 1...2_000 {
      let host = IdentifiedCanceller()
      let identified = IdentifiedEffect { effect, _ in
        effect.beginsHere()
        await ElapsedClock(ContinuousClock()).wait(.seconds(86_400), in: effect)
      }
      host.identified.add(identified)
      await identified.run(within: RunningEffect(of: host))
      #expect(host.holds.all == [false])
    }
  }

  @Test func `of pauses that are held back, the last one is reported, and later ones at once`() {
    let host = Listener()
    let effect = RunningEffect(of: host)
    let pauses = (1...4).map { _ in RunningEffect.Pause(for: .time) { _ in true } }
    effect.pauses(by: pauses[0])
    effect.holdPauses()
    effect.pauses(by: pauses[1])
    effect.pauses(by: pauses[2])
    #expect(host.pauses.all.count == 1)
    effect.releasePauses()
    #expect(host.pauses.all.count == 2 && host.pauses.all[1] === pauses[2])
    effect.pauses(by: pauses[3])
    effect.holdPauses()
    effect.releasePauses()
    #expect(host.pauses.all.count == 3 && host.pauses.all[2] === pauses[3])
    // A timer and the effect that it begins hold the pauses of the same effect.
    effect.holdPauses()
    effect.holdPauses()
    effect.releasePauses()
    effect.pauses(by: pauses[0])
    #expect(host.pauses.all.count == 3)
    effect.releasePauses()
    #expect(host.pauses.all.count == 4 && host.pauses.all[3] === pauses[0])
  }

  private final class Listener: RunningEffect.Host {
    let store: (any AnyObject & Sendable)? = nil
    let pauses = Record<RunningEffect.Pause>()
    let ended = Record<RunningEffect>()

    func effect(_ effect: RunningEffect, pausesBy pause: RunningEffect.Pause) { pauses.add(pause) }
    func ended(_ effect: RunningEffect) { ended.add(effect) }
  }

  /// A loop over a store's states, as the work of an effect.
  private struct Loop {
    let host = Listener()
    let subscriber: Subscriber
    let end: Task<Void, Never>

    init(over root: RootStore<Int, Int>, until last: Int) {
      let effect = RunningEffect(of: host)
      let subscriber = Subscriber(to: root.store().source.map { $0 }, .unbounded, through: root.core.node)
      _ = root.core.node.enqueue(subscriber)
      self.subscriber = subscriber
      end = Task {
        effect.beginsHere()
        while let state: Int = await subscriber.next(for: effect), state < last {}
      }
    }

    var waits: Bool { host.pauses.all.last?.holds == true }
  }

  /// A caller may have found the wait pending, and acquire the lock only after the loop is gone.
  @Test(arguments: [false, true])
  func `a late check of a released loop's wait finds it over`(isFollowed: Bool) async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let others = isFollowed ? root.states() : nil
    let pause: RunningEffect.Pause
    do {
      let loop = Loop(over: root, until: 1)
      while !loop.waits { await Task.yield() }
      try await root.send(1)
      await loop.end.value
      pause = try #require(loop.host.pauses.all.last)
    }
    while await root.statistics.subscriptions > (isFollowed ? 1 : 0) { await Task.yield() }
    #expect(!pause.isPending(pause))
    // A new loop that waits has taken its place.
    let loop = Loop(over: root, until: 2)
    while !loop.waits { await Task.yield() }
    #expect(!pause.isPending(pause))
    try await root.send(1)
    await loop.end.value
    withExtendedLifetime(others) {}
  }

  private final class Captured: Sendable {}

  @Test func `work runs once, as part of its effect, and is released when it is done`() async {
    let host = Listener()
    let seen = Record<RunningEffect?>()
    weak var captured: Captured?
    let effect: RunningEffect
    do {
      let kept = Captured()
      captured = kept
      effect = ClosureEffect(of: host) { effect in
        seen.add(RunningEffect.current)
        withExtendedLifetime((effect, kept)) {}
      }
    }
    #expect(captured != nil)
    await effect.run()
    #expect(captured == nil)
    await effect.run()
    #expect(seen.all.count == 1 && seen.all[0] === effect)
    #expect(host.ended.all.count == 1 && host.ended.all[0] === effect)
    #expect(RunningEffect.current == nil)
  }

  private struct Weak: Sendable {
    weak var captured: Captured?
  }

  @Test(arguments: [false, true])
  func `keeping an effect's dispatch does not retain the captures of its work`(hasID: Bool) async throws {
    let dispatches = Record<Dispatch<Int>>()
    let made = Record<Weak>()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        let captured = Captured()
        made.add(Weak(captured: captured))
        let effect = Effect<Int>.run { dispatch in
          dispatches.add(dispatch)
          dispatch(2)
          withExtendedLifetime(captured) {}
        }
        return hasID ? effect.id("only") : effect
      }
    ) { $0 += $1 }
    try await root.send(1)
    await root.settled()
    #expect(await root.state == 3)
    #expect(made.all.count == 1 && made.all[0].captured == nil)
    #expect(dispatches.all.count == 1)
    await root.shutdown()
    withExtendedLifetime(dispatches) {}
  }

  /// The clock is the user's, and may be slow to return the time.
  @Test func `an early check of a time does not undo the result of a later check`() {
    let pauses = Record<RunningEffect.Pause>()
    let answers = LockedValue([true, false])
    let pause = RunningEffect.Pause(for: .time) { _ in
      let isPending = answers.withLock { $0.removeFirst() }
      if isPending { pauses.all[0].look() }
      return isPending
    }
    pauses.add(pause)
    pause.look()
    #expect(!pause.holds)
  }
}
