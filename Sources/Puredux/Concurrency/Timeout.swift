/// A time limit, by a clock, beside the work of an effect or of any other task. Its owner does what is to be done when
/// it is over.
///
/// The clock and the effect know of it as soon as it is made: when the effect counts as resting, the clock has been
/// told of the time.
struct Timeout: Sendable {
  private let clock: ElapsedClock
  private let time: Duration
  private let pause: RunningEffect.Pause
  private let effect: RunningEffect?

  /// - Parameter effect: The effect that does the work. Nil if none does.
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

  /// The owner has done what was to be done at that time, or no longer has to.
  func end() {
    pause.end()
    effect?.ended(pause)
  }
}
