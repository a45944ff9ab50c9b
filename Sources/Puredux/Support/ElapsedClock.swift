/// A clock whose times are durations since its creation.
package struct ElapsedClock: Sendable {
  private let elapsed: @Sendable () -> Duration
  private let sleep: @Sendable (_ until: Duration) async throws -> Void
  private let wall: @Sendable () -> WallTime
  private let announce: (@Sendable (_ until: Duration) -> Void)?

  package init(_ clock: some Clock<Duration>) {
    let start = clock.now
    let elapsed = { @Sendable in
      // A clock set by hand may show any time. The limit prevents overflows.
      min(max(start.duration(to: clock.now), .longest * -1_000), .longest * 1_000)
    }
    self.elapsed = elapsed
    announce = (clock as? any AnnouncedClock)?.announcing(from: start)
    sleep = { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
    if let clock = clock as? any WallClock {
      wall = { clock.wallTime }
    } else if clock is ContinuousClock || clock is SuspendingClock {
      wall = { .now }
    } else {
      // A user's clock sets the pace of the wall time, too.
      wall = { [start = WallTime.now] in start + elapsed() }
    }
  }

  package var now: Duration { elapsed() }

  package var wallTime: WallTime { wall() }

  /// Returns when this clock reaches a time, or when the continuous clock does if this one cannot sleep; at once if the
  /// caller is cancelled. If the clock wakes it too early, `now` may be less.
  ///
  /// - Parameters:
  ///   - effect: An effect, which pauses if the current task does its work.
  ///   - cause: The cause of the pause.
  func wait(
    until time: Duration, in effect: RunningEffect? = nil, for cause: RunningEffect.Pause.Cause = .time
  ) async {
    announce(until: time)
    await waitAnnounced(until: time, in: effect, for: cause)
  }

  func announce(until time: Duration) { announce?(time) }

  func waitAnnounced(
    until time: Duration, in effect: RunningEffect? = nil, for cause: RunningEffect.Pause.Cause = .time
  ) async {
    let pause = RunningEffect.Pause(for: cause) { _ in elapsed() < time }
    await withTaskCancellationHandler {
      // After the handler is set: a cancelled effect does not rest.
      if let effect, effect.isHere { effect.pauses(by: pause) }
      do {
        try await sleep(time)
      } catch {
        if !Task.isCancelled { await ContinuousClock().wait(time - now) }
      }
    } onCancel: {
      pause.end()
    }
    pause.end()
  }

  func wait(
    _ duration: Duration, in effect: RunningEffect? = nil, for cause: RunningEffect.Pause.Cause = .time
  ) async {
    if duration > .zero { await wait(until: now + duration.clamped, in: effect, for: cause) }
  }

  /// Waits again if the wall clock was set back. Returns at once if the caller is cancelled.
  func wait(until time: WallTime, in effect: RunningEffect? = nil) async {
    var rest = time - wallTime
    while rest > .zero {
      let end = now + rest.clamped
      await wait(until: end, in: effect)
      if Task.isCancelled || now < end { return }
      rest = time - wallTime
    }
  }

  /// Yields if the duration is zero or less. Returns false if the task is cancelled.
  package func sleep(for duration: Duration) async -> Bool {
    if duration > .zero { await wait(duration) } else { await Task.yield() }
    return !Task.isCancelled
  }
}

extension Clock<Duration> {
  func wait(_ duration: Duration) async { await ElapsedClock(self).wait(duration) }
}

extension Duration {
  /// The longest duration that every clock can add to its time: about a hundred years.
  package static var longest: Duration { .seconds(100 * 365 * 86_400) }

  package var clamped: Duration { min(max(self, .zero), .longest) }
}

/// A clock that is told of a sleep before the effect counts as asleep, so that it knows every sleeper when a store has
/// settled.
package protocol AnnouncedClock: Clock where Duration == Swift.Duration {
  func announceSleep(until deadline: Instant)
}

extension AnnouncedClock {
  func announcing(from start: any InstantProtocol) -> (@Sendable (_ until: Swift.Duration) -> Void)? {
    guard let start = start as? Instant else { return nil }
    return { announceSleep(until: start.advanced(by: $0)) }
  }
}

/// A time limit for work, whose owner acts when the time is over. The clock and the effect are told at once, before the
/// effect counts as resting.
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

  /// Also returns if the current task is cancelled. Called once.
  func wait() async { await clock.waitAnnounced(until: time) }

  func end() {
    pause.end()
    effect?.ended(pause)
  }
}
