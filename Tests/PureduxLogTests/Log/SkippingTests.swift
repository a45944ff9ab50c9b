import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// No decision makes a log unusable for all versions of a program, and decisions can be taken back (G11).
@Suite(.timeLimit(.minutes(15))) struct SkippingTests {
  static func options(ignoresSnapshots: Bool = false, told: Record<LogReport>? = nil) -> LogOptions {
    var options = LogOptions.once
    options.openingLimit = .zero
    options.ignoresSnapshots = ignoresSnapshots
    options.reporting = { told?.add($0) }
    return options
  }

  static func entries(
    _ log: any OrderedLog, ignoresSnapshots: Bool = false, told: Record<LogReport>? = nil
  ) async throws -> [String] {
    let store = try await ledger(log, options: options(ignoresSnapshots: ignoresSnapshots, told: told))
    let entries = await store.state.entries
    await store.shutdown()
    return entries
  }

  /// Writes entries named for their positions. Entries before `first` are truncated; entries up to `snapshot` are in
  /// the snapshot.
  static func fill(_ log: any OrderedLog, through last: UInt64, snapshot: UInt64, first: UInt64) async throws {
    let store = try await ledger(log, options: options())
    for position in 1...last {
      try await store.send("\(position)")
      if position == snapshot { try await store.saveSnapshot() }
    }
    await store.shutdown()
    try await log.truncate(through: first - 1)
  }

  private static func names(_ positions: ClosedRange<Int>) -> [String] { positions.map { "\($0)" } }

  private static func refusal(_ body: () async throws -> Void) async throws -> String {
    do {
      try await body()
      Issue.record("It was not refused.")
      return ""
    } catch LogError.refused(let text) {
      return text
    }
  }

  @Test(
    "an entry in the snapshot of a truncated log is not skipped, and the error names the alternative",
    arguments: SmallPlace.allCases)
  func covered(place: SmallPlace) async throws {
    try await place.withLog { log in
      try await Self.fill(log, through: 15, snapshot: 14, first: 12)
      for position in [12, 13, 14] as [UInt64] {
        let text = try await Self.refusal { try await log.skip(position: position, reason: "rolled back") }
        #expect(text.contains("The snapshot at position 14 has the entry at position \(position)"), "\(text)")
        #expect(text.contains("the first entry left is 12"), "\(text)")
        #expect(text.contains("an action that takes back"), "\(text)")
      }
      for position in [1, 11] as [UInt64] {
        let text = try await Self.refusal { try await log.skip(position: position, reason: "rolled back") }
        #expect(text.contains("The entry at position \(position) was removed"), "\(text)")
      }
      #expect(try await log.head() == 15)
      #expect(try await log.verifyEntries().problems == [])
      #expect(try await Self.entries(log) == Self.names(1...15))
      // An entry after the snapshot can be skipped as always.
      try await log.skip(position: 15, reason: "back to the version before")
      #expect(try await Self.entries(log) == Self.names(1...14))
      let copy = MemoryLogs()["copy"]
      try await log.copy(to: copy)
      #expect(try await Self.entries(copy) == Self.names(1...14))
    }
  }

  @Test("neither are a seal, an epoch and a decision that such a snapshot has", arguments: SmallPlace.allCases)
  func coveredDecisions(place: SmallPlace) async throws {
    try await place.withLog { log in
      try await Self.fill(log, through: 2, snapshot: 1, first: 1)
      try await log.skip(position: 2, reason: "a mistake")
      try await log.beginEpoch(reason: "restored")
      let store = try await ledger(log, options: Self.options())
      try await store.send("5")
      #expect(try await store.sealLog(forRules: 1, reason: "other rules") == 6)
      await store.shutdown()
      try await log.truncate(through: 2)
      for position in [3, 4, 6] as [UInt64] {
        let text = try await Self.refusal { try await log.skip(position: position, reason: "a mistake") }
        #expect(text.contains("The snapshot at position 6 has the entry at position \(position)"), "\(text)")
      }
      #expect(try await log.verifyEntries().problems == [])
      var sealed = Self.options()
      (sealed.rules, sealed.oldestRules) = (1, 1)
      let next = try await ledger(log, options: sealed)
      #expect(await next.state.entries == ["1", "5"])
      await next.shutdown()
    }
  }

  @Test(
    "without the log's beginning and without a snapshot, no decision, seal or epoch is accepted",
    arguments: SmallPlace.allCases)
  func withoutSnapshot(place: SmallPlace) async throws {
    try await place.withLog { log in
      let header = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 1)
      for _ in 0..<3 { _ = try await log.append(LogEntry.encode(header, actions: [])) }
      try await log.truncate(through: 1)
      for body in [
        { try await log.skip(position: 3, reason: "") }, { try await log.beginEpoch(reason: "") },
        { try await log.seal(forRules: 1, reason: "") },
      ] as [() async throws -> UInt64] {
        let text = try await Self.refusal { _ = try await body() }
        #expect(text.contains("no store can be opened"), "\(text)")
      }
      #expect(try await log.head() == 3)
      #expect(try await log.verifyEntries().problems == [.noSnapshot(first: 2)])
    }
  }

  @Test("a decision is taken back by another one, which is taken back in turn", arguments: SmallPlace.allCases)
  func takenBack(place: SmallPlace) async throws {
    try await place.withLog { log in
      func expect(_ entries: [String]) async throws {
        #expect(try await log.verifyEntries().problems == [])
        let store = try await ledger(log, options: Self.options(), fingerprint: CopyTests.fingerprint)
        #expect(await store.state.entries == entries)
        await store.shutdown()
        let copy = MemoryLogs()["copy"]
        try await log.copy(to: copy)
        #expect(try await Self.entries(copy) == entries)
      }
      let store = try await ledger(log, options: Self.options(), fingerprint: CopyTests.fingerprint)
      for name in Self.names(1...3) { try await store.send(name) }
      await store.shutdown()
      let first = try await log.skip(position: 2, reason: "a mistake")
      try await expect(["1", "3"])
      let second = try await log.skip(position: first, reason: "it was none")
      try await expect(["1", "2", "3"])
      try await log.skip(position: second, reason: "it was one")
      try await expect(["1", "3"])
      try await log.skip(position: 2, reason: "to be sure")
      try await expect(["1", "3"])
      // An open store that has obeyed the decision stops.
      let open = try await ledger(log, options: Self.options())
      let other = try await log.skip(position: 3, reason: "a mistake")
      for await phase in open.logPhases() { if case .stopped(.diverged(position: 3)) = phase { break } }
      await open.shutdown()
      let obeying = try await ledger(log, options: Self.options())
      try await log.skip(position: other, reason: "it was none")
      for await phase in obeying.logPhases() { if case .stopped(.diverged(position: other)) = phase { break } }
      await obeying.shutdown()
      try await expect(["1", "3"])
    }
  }

  @Test("a decision that a seal's snapshot has already carried out is not taken back")
  func carriedOut() async throws {
    let log = MemoryLogs()["tree"]
    func open(_ rules: UInt32, ignoresSnapshots: Bool = false) async throws -> LedgerStore {
      var options = Self.options(ignoresSnapshots: ignoresSnapshots)
      (options.rules, options.oldestRules) = (rules, rules)
      return try await ledger(log, options: options)
    }
    let old = try await open(0)
    for name in ["1", "2"] { try await old.send(name) }
    #expect(try await old.sealLog(forRules: 1, reason: "other rules") == 3)
    await old.shutdown()
    let new = try await open(1)
    try await new.send("4")
    await new.shutdown()
    let decision = try await log.skip(position: 1, reason: "a mistake")
    await #expect(throws: StoreError.stopped(.newerRules(position: 4))) { try await open(0, ignoresSnapshots: true) }
    #expect(try await open(1).state.entries == ["2", "4"])
    let text = try await Self.refusal { try await log.skip(position: decision, reason: "it was none") }
    #expect(text.contains("The snapshot at position 3 has carried out the decision at position 5"), "\(text)")
    #expect(try await open(1).state.entries == ["2", "4"])
    #expect(try await log.verifyEntries().problems == [])
  }

  /// A race with a decision about an entry.
  enum Race: CaseIterable, Sendable {
    /// The log is truncated behind a snapshot that has the entry.
    case truncated
    /// A snapshot that has the entry is saved, and the log was truncated before.
    case saved
    /// As `saved`, by a store that looked for decisions before this one arrived, and saves after it.
    case savedLater
  }

  @Test("after a snapshot or truncation during a decision, the log still opens", arguments: Race.allCases)
  func race(race: Race) async throws {
    let log = RacingLog()
    try await Self.fill(log.memory, through: 4, snapshot: race == .truncated ? 3 : 1, first: race == .truncated ? 1 : 2)
    let late = MemoryLog()
    try await Self.fill(late, through: 4, snapshot: 4, first: 1)
    let snapshot = try #require(try await late.newest())
    let fold = try #require(try? SnapshotContent<Ledger>(snapshot.bytes, by: .json()))
    #expect(fold.state.entries == Self.names(1...4))
    switch race {
    case .truncated:
      log.beforeAppend { try await $0.truncate(through: 2) }
      await #expect(throws: LogError.self) { try await log.skip(position: 3, reason: "a mistake") }
    case .saved:
      log.beforeAppend { try await $0.save(snapshot) }
      await #expect(throws: LogError.self) { try await log.skip(position: 3, reason: "a mistake") }
    case .savedLater:
      try await log.skip(position: 3, reason: "a mistake")
      try await log.memory.save(snapshot)
    }
    let told = Record<LogReport>()
    for _ in 0..<2 {
      #expect(try await Self.entries(log, told: told) == Self.names(1...4))
      #expect(try await log.verifyEntries().problems == [])
    }
    let copy = MemoryLogs()["copy"]
    try await log.copy(to: copy)
    #expect(try await Self.entries(copy) == Self.names(1...4))
    if race == .savedLater {
      #expect(told.all == [.takenBack(key: nil, position: 3, decision: 5, snapshot: 4)])
      #expect(told.all.allSatisfy { "\($0)".contains("position 3") && "\($0)".contains("position 5") })
    } else {
      #expect(told.all == [])
    }
  }

  @Test("a log that an earlier version could not open after such a decision is opened, and open stores continue")
  func lost() async throws {
    let log = MemoryLog()
    try await Self.fill(log, through: 15, snapshot: 14, first: 12)
    let told = Record<LogReport>()
    let open = try await ledger(log, options: Self.options(told: told))
    _ = try await log.append(LogEntry.encode(LogEntry.Decision(skipped: 13, time: 7, reason: "back")))
    try await open.send("more")
    #expect(await open.state.entries == Self.names(1...15) + ["more"])
    await open.shutdown()
    #expect(told.all == [.takenBack(key: nil, position: 13, decision: 16, snapshot: 14)])
    #expect(try await log.verifyEntries().problems == [])
    #expect(try await Self.entries(log) == Self.names(1...15) + ["more"])
    // The same holds for a decision about a truncated entry.
    _ = try await log.append(LogEntry.encode(LogEntry.Decision(skipped: 3, time: 7, reason: "back")))
    #expect(try await Self.entries(log) == Self.names(1...15) + ["more"])
  }

  @Test("a decision that takes another one back is stored as the formats say, and moves with a copy")
  func format() {
    let reason: [UInt8] = Array("why".utf8)
    var bytes: [UInt8] = [0x50, 0x44, 0x58, 2, 6, 0x0D, 1, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]
    bytes += reason
    let decision = LogEntry.Decision(skipped: 269, time: 7, reason: "why", takesBack: true)
    #expect(LogEntry.encode(decision) == bytes)
    #expect(LogEntry.decode(bytes) == .decision(decision))
    bytes[5] = 0x0E
    #expect(LogEntry.moved(LogEntry.encode(decision), to: 270) == bytes)
    // An entry kind newer than that stops this version.
    bytes[4] = 7
    #expect(LogEntry.decode(bytes) == .newerFormat)
  }

  @Test("a replay in a test judges such a decision as a store does, and a store on a read-only log stops")
  func lostAndReadOnly() async throws {
    let log = MemoryLog()
    try await Self.fill(log, through: 15, snapshot: 14, first: 12)
    _ = try await log.append(LogEntry.encode(LogEntry.Decision(skipped: 13, time: 7, reason: "back")))
    _ = try await log.append(LogEntry.encode(LogEntry.Decision(skipped: 3, time: 7, reason: "back")))
    _ = try await log.append(LogEntry.encode(LogEntry.Decision(skipped: 14, time: 7, reason: "back")))
    #expect(try await !log.verifyEntries().problems.isEmpty)
    let program = ReplayedProgram<Ledger, String>(initialState: Ledger()) { $0.entries.append($1) }
    let report = try await verifyReplay(of: log, by: program)
    #expect(report.stop == nil && report.start == 14 && report.position == 18)
    #expect(report.reports.count == 3)
    #expect(try await log.head() == 18)
    // The log of a process that may only read.
    let told = Record<LogReport>()
    await #expect(throws: StoreError.stopped(.diverged(position: 13))) {
      try await Self.entries(ReadOnlyLog(log: log), told: told)
    }
    #expect(try await log.head() == 18)
    #expect(try await Self.entries(log) == Self.names(1...15))
    #expect(try await verifyReplay(of: log, by: program).stop == nil)
  }

  @Test(
    "a log is not truncated or erased before the decisions about its snapshot are carried out",
    arguments: SmallPlace.allCases)
  func spared(place: SmallPlace) async throws {
    try await place.withLog { log in
      try await Self.fill(log, through: 3, snapshot: 2, first: 1)
      let held = HeldRecords(log: log)
      let store = try await ledger(held, options: Self.options())
      held.holding.hold()
      try await log.skip(position: 2, reason: "a mistake")
      for body in [{ try await store.truncateLog() }, { try await store.eraseLog() }] as [() async throws -> UInt64] {
        let text = try await Self.refusal { _ = try await body() }
        #expect(text.contains("position 2"), "\(text)")
      }
      held.holding.release()
      await store.shutdown()
      #expect(try await log.verifyEntries().first == 1)
      // The printed advice leads to a working log.
      let told = Record<LogReport>()
      await #expect(throws: StoreError.stopped(.diverged(position: 2))) { try await Self.entries(log, told: told) }
      #expect(try await Self.entries(log, ignoresSnapshots: true) == ["1", "3"])
      #expect(try await Self.entries(log) == ["1", "3"])
    }
  }
}

/// The place of a log whose entries can each be truncated singly.
enum SmallPlace: CaseIterable, Sendable {
  case memory, files

  func withLog(_ body: (any OrderedLog) async throws -> Void) async throws {
    switch self {
    case .memory: try await LogPlace.memory.withLog(body)
    case .files:
      let directory = try TemporaryDirectory()
      var options = FileLog.Options()
      (options.segmentBytes, options.preallocatedBytes) = (1, 0)
      let log = try FileLog(directory: directory.path, options: options)
      try await body(log["tree"])
      await log.close()
    }
  }
}

/// A log that the process may only read.
private struct ReadOnlyLog: LogAround {
  let log: any OrderedLog

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    Task { outcome(.failure(.refused("This process may only read."))) }
  }
}

/// A log in memory that runs a closure before the next append.
private final class RacingLog: LogAround {
  let memory = MemoryLog()
  var log: any OrderedLog { memory }
  private let next = LockedValue<(@Sendable (MemoryLog) async throws -> Void)?>(nil)

  func beforeAppend(_ body: @escaping @Sendable (MemoryLog) async throws -> Void) { next.withLock { $0 = body } }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    guard let body = next.withLock({ $0.take() }) else { return log.append(entry, outcome: outcome) }
    Task {
      do { try await body(memory) } catch { Issue.record(error) }
      log.append(entry, outcome: outcome)
    }
  }
}

/// A log that holds entries back from a store opened earlier; other calls pass through.
private struct HeldRecords: LogAround {
  let log: any OrderedLog
  let holding = RecordHold()

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    holding.isHeld ? log.records(after: position) : holding.records(log, after: position)
  }
}
