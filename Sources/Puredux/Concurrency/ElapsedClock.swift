/// A clock whose times are durations since it was made, whatever its instants are.
package struct ElapsedClock: Sendable {
  package let now: @Sendable () -> Duration
  private let sleeping: @Sendable (Duration) async throws -> Void

  package init(_ clock: any Clock<Duration>) { self.init(opening: clock) }

  private init(opening clock: some Clock<Duration>) {
    let start = clock.now
    now = { start.duration(to: clock.now) }
    sleeping = { try await clock.sleep(for: $0) }
  }

  /// False if the task is cancelled. A clock that cannot sleep is replaced by one that can. More than a hundred years
  /// count as a hundred years.
  package func sleep(for duration: Duration) async -> Bool {
    let duration = min(duration, .longest)
    do {
      try await sleeping(duration)
    } catch {
      try? await ContinuousClock().sleep(for: duration)
    }
    return !Task.isCancelled
  }
}

extension Duration {
  /// A duration that every clock can add to its time: about a hundred years.
  package static var longest: Duration { .seconds(100 * 365 * 86_400) }
}
