import Puredux

/// How long a store may take, by the continuous clock, before a helper stops waiting for it: a limit for what stands
/// still, which no test that passes comes near.
public let defaultWaitingLimit = Duration.seconds(120)

/// The clock that measures the limits of helpers.
package enum WaitingClock {
  @TaskLocal package static var current: any Clock<Duration> = ContinuousClock()
}

/// How a wait has ended.
enum WaitingOutcome: Sendable {
  case done, late, cancelled
}

/// Runs work, and does not wait for it longer than up to a limit, even if it ignores its cancellation.
func wait(within limit: Duration, for work: @escaping @Sendable () async -> Void) async -> WaitingOutcome {
  let (outcomes, outcome) = AsyncStream.makeStream(of: WaitingOutcome.self)
  let working = Task {
    await work()
    outcome.yield(.done)
  }
  let timing = Task {
    try await WaitingClock.current.sleep(for: limit.clamped)
    outcome.yield(.late)
  }
  defer {
    working.cancel()
    timing.cancel()
  }
  for await outcome in outcomes { return outcome }
  return .cancelled
}

/// A limit of one call, however often that waits.
struct CallLimit: Sendable {
  private let gate = Gate()
  private let timing: Task<Void, any Error>

  /// - Parameter tell: Called when it is over.
  init(_ limit: Duration, _ tell: @escaping @Sendable () -> Void) {
    timing = Task { [gate] in
      try await WaitingClock.current.sleep(for: limit.clamped)
      gate.open()
      tell()
    }
  }

  var isOver: Bool { gate.isOpen }

  func end() { timing.cancel() }
}
