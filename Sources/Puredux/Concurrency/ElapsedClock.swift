/// A clock whose times are durations since it was made, whatever its instants are.
package struct ElapsedClock: Sendable {
  private let elapsed: @Sendable () -> Duration
  private let sleep: @Sendable (_ until: Duration) async throws -> Void
  private let wall: @Sendable () -> WallTime
  /// Nil unless the clock is told of each sleep before it begins.
  private let announce: (@Sendable (_ until: Duration) -> Void)?

  package init(_ clock: some Clock<Duration>) {
    let start = clock.now
    let elapsed = { @Sendable in
      // A clock that is set by hand may show any time. It is limited, so that adding a duration does not overflow.
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
      // A user's clock sets the pace of the time of day, too.
      wall = { [start = WallTime.now] in start + elapsed() }
    }
  }

  package var now: Duration { elapsed() }

  package var wallTime: WallTime { wall() }

  /// Returns when this clock reaches a time, or, if it cannot sleep, when the continuous clock does; at once when the
  /// caller is cancelled. A clock that wakes too early is taken at its word: `now` may be less.
  ///
  /// - Parameters:
  ///   - effect: The effect that the current task is part of: if the task does its work, the effect sleeps.
  ///   - cause: The cause of the effect's pause.
  func wait(
    until time: Duration, in effect: RunningEffect? = nil, for cause: RunningEffect.Pause.Cause = .time
  ) async {
    announce(until: time)
    await waitAnnounced(until: time, in: effect, for: cause)
  }

  /// Tells the clock of a sleep that is about to begin, once for each.
  func announce(until time: Duration) { announce?(time) }

  func waitAnnounced(
    until time: Duration, in effect: RunningEffect? = nil, for cause: RunningEffect.Pause.Cause = .time
  ) async {
    let pause = RunningEffect.Pause(for: cause) { _ in elapsed() < time }
    await withTaskCancellationHandler {
      // Not before the handler is set: cancelling the effect ends the pause, as a cancelled effect does not rest.
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

  /// Returns when it is that time or later by the wall clock; at once when the caller is cancelled. A wall clock that
  /// has been set back in the meantime is waited for once more.
  func wait(until time: WallTime, in effect: RunningEffect? = nil) async {
    var rest = time - wallTime
    while rest > .zero {
      let end = now + rest.clamped
      await wait(until: end, in: effect)
      if Task.isCancelled || now < end { return }
      rest = time - wallTime
    }
  }

  /// Returns when a duration has passed, as above, and lets others run even if it is none. False if the task is
  /// cancelled.
  package func sleep(for duration: Duration) async -> Bool {
    if duration > .zero { await wait(duration) } else { await Task.yield() }
    return !Task.isCancelled
  }
}

extension Clock<Duration> {
  /// Returns when a duration has passed by this clock, or, if it cannot sleep, by the continuous one; at once when the
  /// caller is cancelled.
  func wait(_ duration: Duration) async { await ElapsedClock(self).wait(duration) }
}

extension Duration {
  /// A duration that every clock can add to its time: about a hundred years.
  package static var longest: Duration { .seconds(100 * 365 * 86_400) }

  /// A duration from a user, who may give any: a negative one counts as zero, one above the longest as the longest.
  package var clamped: Duration { min(max(self, .zero), .longest) }
}
