import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// No sender is told that its action is in no log if a decision can bring back the action's entry (G11, G12).
@Suite(.timeLimit(.minutes(15))) struct RevivedTests {
  enum Fate: CaseIterable, Sendable {
    /// The log is sealed for newer rules before the entry.
    case sealed
    /// A decision skips the entry, which its own writer cannot decode.
    case skipped
    /// The action is passed on twice. One half follows a seal, and the log refuses the other.
    case refusedInPart
    /// One half follows a seal, and the root's middleware stops the other.
    case stoppedInPart

    var isInPart: Bool { self == .refusedInPart || self == .stoppedInPart }
  }

  private struct Undecodable: Error {}

  private static func open(
    _ log: any OrderedLog, decodes: Bool = true, rules: UInt32 = 1, stops: String? = nil,
    ignoresSnapshots: Bool = false
  ) async throws -> LedgerStore {
    var options = LogOptions.once
    (options.rules, options.newestRules, options.ignoresSnapshots) = (rules, 2, ignoresSnapshots)
    (options.actionsPerEntry, options.entriesUnderWay) = (1, 1)
    let json = LogCoding<String>.json()
    let coding = LogCoding<String>(schema: 1, encode: json.encode) { bytes, schema in
      let action = try json.decode(bytes, schema)
      if !decodes, action == "pay" { throw Undecodable() }
      return action
    }
    let guarding = Middleware<Ledger, String> { action, context, next in
      if action == stops { return context.reject("Stopped.") }
      next(action)
    }
    return try await RootStore(
      following: log, initialState: Ledger(), codings: LogCodings(actions: coding, states: .json()),
      options: FollowingOptions(log: options), middleware: [guarding]
    ) { $0.entries.append($1) }
  }

  @Test("an action whose entry a decision can bring back is not rejected", arguments: Fate.allCases)
  func revived(fate: Fate) async throws {
    let log = SurroundingLog()
    let store = try await Self.open(
      log, decodes: fate != .skipped, stops: fate == .stoppedInPart ? "pay, too" : nil)
    let child = store.childStore(
      initialState: 0, stateMapping: { $0.entries.count + $1 },
      middleware: [
        Middleware { action, _, next in
          next(action)
          if fate.isInPart { next(action + ", too") }
        }
      ]
    ) { count, _ in count += 1 }
    log.surround { position in
      switch fate {
      case .skipped: ([], [LogEntry.encode(LogEntry.Decision(skipped: position, time: 7, reason: "a test"))])
      default: ([LogEntry.encode(LogEntry.Seal(rules: 2, time: 7, reason: "a test"))], [])
      }
    }
    if fate == .refusedInPart { log.refusal.withLock { $0 = "too" } }
    await #expect(throws: StoreError.outcomeUnknown) { try await child.send("pay") }
    await store.shutdown()
    log.refusal.withLock { $0 = nil }
    // The decision, or the seal, was a mistake.
    try await log.skip(position: fate == .skipped ? 2 : 1, reason: "a mistake")
    let later = try await Self.open(log, rules: fate == .skipped ? 1 : 2, ignoresSnapshots: true)
    #expect(await later.state.entries.first == "pay")
    await later.shutdown()
  }
}

/// A log in memory that places others' entries before and after the next entry, and refuses some.
private final class SurroundingLog: LogAround {
  typealias Neighbors = @Sendable (_ position: UInt64) -> (before: [[UInt8]], behind: [[UInt8]])

  let log: any OrderedLog = MemoryLog()
  private let next = LockedValue<Neighbors?>(nil)
  /// Entries that contain this text are refused.
  let refusal = LockedValue<String?>(nil)

  func surround(_ neighbors: @escaping Neighbors) { next.withLock { $0 = neighbors } }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    if let text = refusal.withLock({ $0 }), String(decoding: entry, as: UTF8.self).contains(text) {
      Task { outcome(.failure(.refused("It is not taken."))) }
      return
    }
    guard let neighbors = next.withLock({ $0.take() }) else { return log.append(entry, outcome: outcome) }
    let (before, behind) = neighbors(1)
    for entry in before { log.append(entry) { _ in } }
    log.append(entry, outcome: outcome)
    for entry in behind { log.append(entry) { _ in } }
  }
}
