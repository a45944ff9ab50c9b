import Testing

@testable import Puredux

/// What an effect that pauses is for those who wait for rest.
@Suite struct EffectPauseTests {
  /// Cancels the current task as soon as its effect pauses.
  private final class Canceller: EffectHost {
    let holds = Record<Bool>()

    func effect(_ effect: RunningEffect, pausesBy pause: EffectPause) {
      holds.add(pause.holds)
      // SAFETY: the task is not kept.
      unsafe withUnsafeCurrentTask { task in unsafe task?.cancel() }
      holds.add(pause.holds)
    }
  }

  @Test func `an effect that is cancelled as its sleep begins does not rest`() async {
    let host = Canceller()
    let effect = RunningEffect(of: host, number: 0, within: [])
    await Task {
      effect.beginsHere()
      await EffectClock(ContinuousClock()).wait(.seconds(86_400), in: effect)
    }.value
    #expect(host.holds.all == [true, false])
  }

  /// The clock is the user's, and may take its time to say what time it is.
  @Test func `who looked before the time had come does not undo what one who looked later has seen`() {
    let pauses = Record<EffectPause>()
    let answers = LockedValue([true, false])
    let pause = EffectPause(for: .time) {
      let isPending = answers.withLock { $0.removeFirst() }
      if isPending { pauses.all[0].look() }
      return isPending
    }
    pauses.add(pause)
    pause.look()
    #expect(!pause.holds)
  }
}
