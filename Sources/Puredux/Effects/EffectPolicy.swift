/// How an effect with an id behaves alongside earlier effects of the same id, in the same store. The policy is applied
/// when the effect's action is committed, whatever the policies of the earlier effects. Later effects never hold it up.
///
/// An effect is *unfinished* while it runs, waits for others, or is held until its time, and until its actions are
/// committed. A cancelled or left-out effect is finished. An effect has left its id when `perform`, `settled` or
/// `shutdown` returns because of its end, and when `statistics` omit its task.
///
/// Effects that wait for others begin in commit order.
public enum EffectPolicy: Sendable, Hashable {
  /// Cancels all earlier effects, ends their throttling, and begins at once.
  case latest
  /// Cancels the oldest earlier effects, so that at most `limit` are unfinished, and begins at once. A limit below one
  /// counts as one.
  case newest(limit: Int)
  /// Begins only if no earlier effect is unfinished; otherwise it is left out. An effect that has dispatched this very
  /// action still counts.
  case first
  /// Begins when no earlier effect is unfinished. At most `limit` effects wait, and none with a limit of zero or less.
  /// An effect beyond the limit is left out, and reported.
  case inTurn(limit: Int = .max)
  /// Begins when fewer than `limit` earlier effects are unfinished, and none of them waits for its turn. A limit below
  /// one counts as one.
  case concurrent(limit: Int)
  /// Cancels all earlier effects, ends their throttling, and begins after this time, unless a later effect cancels or
  /// replaces it by then. A time of zero or less is none.
  case debounced(for: Duration)
  /// Begins at once, alongside running effects, and then holds back other throttled effects for this time. The last of
  /// these begins when the time is over; without `latest`, all are left out. A throttled effect neither waits for the
  /// time of a debounced effect, nor replaces that effect. A time of zero or less is none.
  case throttled(for: Duration, latest: Bool = true)
}

/// When work that has thrown is retried.
public struct RetryPolicy: Sendable {
  /// The maximum number of attempts.
  public let attempts: Int
  private let delay: @Sendable (_ failures: Int) -> Duration

  /// - Parameters:
  ///   - attempts: The maximum number of attempts. One or less means a single attempt.
  ///   - delay: The time to wait after that many failures.
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

  func delay(after failures: Int) -> Duration? { failures < attempts ? delay(failures) : nil }
}
