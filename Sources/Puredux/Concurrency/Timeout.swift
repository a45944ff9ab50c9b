/// Waits, until a time by a clock, beside what an effect or any other task does. What is to be done at that time is up
/// to whoever made it.
///
/// The clock and the effect know of it as soon as it is made: when the effect counts as resting, the clock has been
/// told of the time.
struct Timeout: Sendable {
  private let clock: ElapsedClock
  private let time: Duration
  private let pause: RunningEffect.Pause
  private let effect: RunningEffect?

  /// - Parameter effect: The effect that does it. Nil if none does.
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

  /// What was to be done at that time has been, or is no longer to be done.
  func end() {
    pause.end()
    effect?.ended(pause)
  }
}
