import Puredux

/// The time, by the continuous clock, after which a helper stops waiting for a store. No passing test comes near it.
public let defaultWaitingLimit = Duration.seconds(120)

package enum WaitingClock {
  @TaskLocal package static var current: any Clock<Duration> = ContinuousClock()
}

enum WaitingOutcome: Sendable {
  case done, late, cancelled
}

/// Returns at the limit even if the work ignores its cancellation.
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

struct CallLimit: Sendable {
  private let gate = Gate()
  private let timing: Task<Void, any Error>

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
