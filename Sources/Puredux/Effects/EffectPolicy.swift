/// How an effect with an id behaves alongside those of the same id before it, in the same store. It is applied when its
/// action is committed, whatever the policies of those before it were; those that come after it never hold it up.
///
/// An effect is *unfinished* until it has ended and what it dispatched is committed, or it is cancelled or left out: it
/// runs, waits for others, or is held until its time.
public enum EffectPolicy: Sendable, Hashable {
  /// Cancels those before it, ends their throttling, and begins at once.
  case latest
  /// Cancels the oldest of those before it, so that at most `limit` are unfinished, and begins at once. A limit below
  /// one counts as one.
  case newest(limit: Int)
  /// Begins only if none before it is unfinished; otherwise it is left out. One that has dispatched this very action
  /// still counts.
  case first
  /// Begins when none before it is unfinished. At most `limit` wait, none with a limit of zero or less: one more is
  /// left out, and reported.
  case inTurn(limit: Int = .max)
  /// Begins when fewer than `limit` of those before it are unfinished, and none of them waits for its turn. A limit
  /// below one counts as one.
  case concurrent(limit: Int)
  /// Cancels those before it, ends their throttling, and begins after a time in which no other has cancelled it: those
  /// that come in the meantime replace it. A time of zero or less is none.
  case debounced(for: Duration)
  /// Begins at once, beside those that run, and keeps others of this policy from beginning for this time. Of those that
  /// come in the meantime, the last begins at the end of it; without `latest`, none does, and all are left out. A time
  /// of zero or less is none.
  case throttled(for: Duration, latest: Bool = true)
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
