/// Interrupts, at a time by a clock, what an effect or any other task does.
///
/// The clock and the effect know of it as soon as it is made: when the effect counts as resting, the clock has been told
/// of the time.
struct Alarm: Sendable {
  private let clock: ElapsedClock
  private let time: Duration
  private let pause: RunningEffect.Pause
  private let effect: RunningEffect?

  /// - Parameter effect: The effect that is interrupted. Nil if it is none.
  init(after limit: Duration, by clock: ElapsedClock, of effect: RunningEffect?) {
    let time = clock.now + min(limit, .longest)
    self.clock = clock
    self.time = time
    self.effect = effect
    pause = RunningEffect.Pause(for: .time) { _ in clock.now < time }
    clock.announce(until: time)
    effect?.expects(pause)
  }

  /// Returns when the time has come, or the current task is cancelled. To be called once.
  func wait() async { await clock.waitAnnounced(until: time) }

  /// Whatever was to be interrupted has been, or is over.
  func end() {
    pause.end()
    effect?.alarmEnded()
  }
}
