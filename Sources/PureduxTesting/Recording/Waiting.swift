import Puredux
import Testing

/// How long a store may take, by the continuous clock, before a helper stops waiting for it: a limit for what hangs,
/// which no test that passes comes near.
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
    try await WaitingClock.current.sleep(for: limit)
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
      try await WaitingClock.current.sleep(for: limit)
      gate.open()
      tell()
    }
  }

  var isOver: Bool { gate.isOpen }

  func end() { timing.cancel() }
}

/// What runs and waits in a tree, in words.
enum RunningEffects: Sendable {
  case none, some(String)
  /// The tree has not answered.
  case unknown

  /// As a part of an issue.
  func inWords(_ title: String) -> String? {
    switch self {
    case .none: nil
    case .some(let text): "\(title): \(text)"
    case .unknown: "The tree could not be asked for its effects"
    }
  }
}

extension StoreProbe {
  func runningEffects(within limit: Duration) async -> RunningEffects {
    let answer = LockedValue(RunningEffects.unknown)
    _ = await wait(within: limit) {
      let (named, unnamed) = await effects()
      let effects = effectsInWords(named: named, unnamed: unnamed)
      answer.withLock { $0 = effects }
    }
    return answer.withLock { $0 }
  }

  /// What runs when a wait was too long. The tree may not answer.
  func lateEffects() async -> RunningEffects { await runningEffects(within: .seconds(1)) }
}

/// The effects that have not ended, by the names of their ids.
private func effectsInWords(named: [String: Int], unnamed: Int) -> RunningEffects {
  var parts = named.filter { $0.value > 0 }.sorted { $0.key < $1.key }
    .map { "\"\($0.key)\"" + ($0.value > 1 ? " (\($0.value))" : "") }
  if unnamed > 0 { parts.append("\(unnamed) without an id, or cancelled") }
  return parts.isEmpty ? .none : .some(parts.joined(separator: ", "))
}

/// A text with lines below it, as issues show them.
func text(_ title: String, _ lines: [String]) -> String {
  ([title] + lines.map { "  " + $0 }).joined(separator: "\n")
}

extension Issue {
  static func record(_ title: String, _ lines: [String], at location: SourceLocation) {
    record(Comment(rawValue: text(title, lines)), sourceLocation: location)
  }
}
