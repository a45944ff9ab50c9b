/// The clock that a store is made with: the time since then.
struct EffectClock: Sendable {
  private let elapsed: @Sendable () -> Duration
  private let sleep: @Sendable (_ until: Duration) async throws -> Void

  init(_ clock: some Clock<Duration>) {
    let start = clock.now
    elapsed = { start.duration(to: clock.now) }
    sleep = { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
  }

  var now: Duration { elapsed() }

  /// Returns when it is that time by this clock, or, where that cannot sleep, by the continuous one; at once when the
  /// caller is cancelled. A clock that wakes too early is taken at its word: `now` may be less.
  ///
  /// - Parameter effect: What the current task is part of: where it does its work, that sleeps for so long.
  func wait(until time: Duration, in effect: RunningEffect?) async {
    let pause = EffectPause(for: .time) { elapsed() < time }
    if let effect, effect.isHere { effect.pauses(by: pause) }
    await withTaskCancellationHandler {
      do {
        try await sleep(time)
      } catch {
        if !Task.isCancelled { await ContinuousClock().wait(min(time - now, .longest)) }
      }
    } onCancel: {
      pause.end()
    }
    pause.end()
  }

  func wait(_ duration: Duration, in effect: RunningEffect?) async {
    if duration > .zero { await wait(until: now + min(duration, .longest), in: effect) }
  }
}

extension Duration {
  /// What every clock can add to its time: about a hundred years.
  static var longest: Duration { .seconds(100 * 365 * 86_400) }
}

extension Clock<Duration> {
  /// Returns when a time has passed, by this clock, or, where that cannot sleep, by the continuous one; at once when
  /// the caller is cancelled.
  func wait(_ duration: Duration) async { await EffectClock(self).wait(duration, in: nil) }
}
