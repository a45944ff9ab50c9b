/// A time limit for the work of an effect, or of any task. Its owner acts when the time is over.
///
/// The clock and the effect are told of the limit when it is made. So the clock knows of it before the effect counts as
/// resting.
struct Timeout: Sendable {
  private let clock: ElapsedClock
  private let time: Duration
  private let pause: RunningEffect.Pause
  private let effect: RunningEffect?

  init(after limit: Duration, by clock: ElapsedClock, of effect: RunningEffect?) {
    let time = clock.now + min(limit, .longest)
    self.clock = clock
    self.time = time
    self.effect = effect
    pause = RunningEffect.Pause(for: .time) { _ in clock.now < time }
    clock.announce(until: time)
    effect?.expects(pause)
  }

  /// Returns when the time has come, or the current task is cancelled. Called once.
  func wait() async { await clock.waitAnnounced(until: time) }

  /// Called when the owner has acted, or no longer has to.
  func end() {
    pause.end()
    effect?.ended(pause)
  }
}
