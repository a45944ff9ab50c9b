/// How effects with one id in one store behave alongside each other. Each is treated by its own policy when its action
/// is committed, whatever the policies of those before it were; one that cancels those before it ends their times, too.
public enum EffectPolicy: Sendable, Hashable {
  /// Cancels those before it, and begins at once.
  case latest
  /// Begins only if there is no other; otherwise it is left out. One that has dispatched this very action still counts.
  case first
  /// Begins when those before it have ended. At most `limit` of them wait, none with a limit of zero or less: one more
  /// is left out, and reported.
  case inTurn(limit: Int = .max)
  /// Begins if fewer than `limit` of them run and none waits, and otherwise in its turn. A limit below one counts as
  /// one.
  case concurrent(limit: Int)
  /// Cancels those before it, and begins after a time in which no other has come: those that come in the meantime
  /// replace it. A time of zero or less is none.
  case debounced(for: Duration)
  /// Begins at once, and then at most once in this time: of those that come in the meantime, the last one begins at the
  /// end of it. A time of zero or less is none.
  case throttled(for: Duration)
}

/// When work that has thrown is begun again.
public struct RetryPolicy: Sendable {
  /// The maximum number of attempts.
  public let attempts: Int
  private let delay: @Sendable (_ failures: Int) -> Duration

  /// - Parameters:
  ///   - attempts: The maximum number of attempts. One or less means a single attempt.
  ///   - delay: How long to wait after that many failures.
  public init(attempts: Int, delay: @escaping @Sendable (_ failures: Int) -> Duration) {
    self.attempts = attempts
    self.delay = delay
  }

  /// Waits the same time after every failure.
  public static func constant(_ delay: Duration, attempts: Int = .max) -> RetryPolicy {
    RetryPolicy(attempts: attempts) { _ in delay }
  }

  /// Waits twice as long after each failure, up to a limit.
  public static func exponential(from first: Duration, upTo limit: Duration, attempts: Int = .max) -> RetryPolicy {
    RetryPolicy(attempts: attempts) { failures in
      var delay = min(first, limit)
      var doublings = failures - 1
      while doublings > 0, delay > .zero, delay < limit {
        delay = delay > limit / 2 ? limit : delay * 2
        doublings -= 1
      }
      return delay
    }
  }

  /// Nil if there are no more attempts.
  func delay(after failures: Int) -> Duration? { failures < attempts ? delay(failures) : nil }
}
