import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Seven versions of one program use one log, with rules, seals, skips, snapshots and truncation. A sequential model
/// replays all appended entries (G11).
@Suite(.timeLimit(.minutes(60))) struct VersionHistoriesTests {
  @Test("after any operations by different versions, no acknowledged state differs, and one version opens the log")
  func histories() async throws {
    let first = UInt64.random(in: 0 ... .max)
    for seed in 0..<(isThorough ? 3_000 : 100) as Range<UInt64> {
      var history = History(seed: first &+ seed)
      do {
        try await history.run()
      } catch {
        Issue.record("seed \(first &+ seed): \(error)\n\(history.steps.joined(separator: "\n"))")
        return
      }
    }
  }
}

private struct Version: Sendable {
  var schema: UInt32 = 1
  var newestSchema: UInt32 = 1
  var rules: UInt32 = 0
  var newestRules: UInt32 = 0
  var oldestRules: UInt32 = 0
  /// Whether it decodes actions that begin with an x.
  var decodesX = true

  static let all = [
    Version(),
    Version(newestSchema: 2, newestRules: 1),
    Version(schema: 2, newestSchema: 2, rules: 1, newestRules: 1),
    Version(schema: 2, newestSchema: 2, rules: 1, newestRules: 2, decodesX: false),
    Version(schema: 2, newestSchema: 2, rules: 2, newestRules: 2, oldestRules: 2),
    Version(schema: 2, newestSchema: 3, rules: 2, newestRules: 3, oldestRules: 1),
    knowing,
  ]

  /// A version that decodes everything and knows all rules.
  static let knowing = Version(schema: 2, newestSchema: 3, rules: 2, newestRules: 2)

  private struct Undecodable: Error {}

  func open(_ log: any OrderedLog, _ change: (inout LogOptions) -> Void = { _ in }) async throws -> LedgerStore {
    var options = LogOptions.once
    options.openingLimit = .zero
    options.reporting = { _ in }
    (options.rules, options.newestRules, options.oldestRules) = (rules, newestRules, oldestRules)
    change(&options)
    let json = LogCoding<String>.json()
    let coding = LogCoding<String>(schema: schema, newestSchema: newestSchema, encode: json.encode) {
      [decodesX] bytes, schema in
      let action = try json.decode(bytes, schema)
      if !decodesX, action.hasPrefix("x") { throw Undecodable() }
      return action
    }
    let guarding = Middleware<Ledger, String> { action, context, next in
      if LogRules.current > 0, action.hasSuffix("5") { return context.reject("Five.") }
      next(action)
    }
    return try await RootStore(
      following: log, initialState: Ledger(), codings: LogCodings(actions: coding, states: .json()),
      options: FollowingOptions(log: options, fingerprint: .hashed(CopyTests.fingerprint)), middleware: [guarding]
    ) { $0.entries.append(LogRules.current < 2 ? $1 : $1 + "!") }
  }
}

/// The state of a log by the sequential model, from its entries alone, none of which is ever removed here.
private struct Model {
  var state = Ledger()
  /// The rules that are sealed or written, and not skipped.
  var newestRules: UInt32 = 0

  init(_ records: [LogRecord]) throws {
    var skipped: Set<UInt64> = []
    for record in records.reversed() where !skipped.contains(record.position) {
      if case .skip(let position, _, _) = record.content { skipped.insert(position) }
    }
    var sealed: UInt32 = 0
    for record in records where !skipped.contains(record.position) {
      switch record.content {
      case .seal(let rules, _, _): sealed = max(sealed, rules)
      case .actions(let entry) where entry.rules >= sealed:
        newestRules = max(newestRules, entry.rules)
        for bytes in entry.actions {
          let action = try LogCoding<String>.json().decode(bytes[...], 1)
          if entry.rules > 0, action.hasSuffix("5") { continue }
          state.entries.append(entry.rules < 2 ? action : action + "!")
        }
      default: break
      }
    }
    newestRules = max(newestRules, sealed)
  }
}

private struct History {
  struct Wrong: Error, CustomStringConvertible {
    var description: String
  }

  private var random: SeededGenerator
  private var log = RememberingLog()
  private var open: [(version: Int, store: LedgerStore)] = []
  private var count = 0
  /// Actions whose senders were told that they are in no log.
  private var denied: Set<String> = []
  private(set) var steps: [String] = []

  init(seed: UInt64) { random = SeededGenerator(seed: seed) }

  private mutating func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  private func expect(_ condition: Bool, _ text: @autoclosure () -> String) throws {
    if !condition { throw Wrong(description: text()) }
  }

  mutating func run() async throws {
    for _ in 0..<20 + number(20) {
      try await step()
      try await settle()
    }
    for (_, store) in open { await store.shutdown() }
    open = []
    try await openAtEnd()
  }

  private mutating func step() async throws {
    let chosen = number(16)
    switch chosen {
    case 0..<3: try await openOne()
    case 3..<8: await send(racingSeal: false)
    case 8: await send(racingSeal: true)
    case 9, 10: await skip()
    case 11: await seal()
    case 12, 13: await snapshot(erases: false)
    case 14: await snapshot(erases: number(2) == 0)
    default:
      if !open.isEmpty {
        let (version, store) = open.remove(at: number(open.count))
        steps.append("shut \(version) down")
        await store.shutdown()
      }
    }
  }

  private mutating func openOne() async throws {
    let version = number(Version.all.count)
    let (ignores, saves) = (number(4) == 0, number(3) == 0)
    do {
      let store = try await Version.all[version].open(log) { options in
        options.ignoresSnapshots = ignores
        if saves { (options.snapshotBytes, options.truncatesBehindSnapshots) = (1, true) }
      }
      steps.append("opened \(version)\(ignores ? ", ignoring snapshots" : "")\(saves ? ", saving" : "")")
      open.append((version, store))
    } catch StoreError.stopped(let stop) {
      steps.append("\(version) stops, \(stop)\(ignores ? ", ignoring snapshots" : "")")
      if case .diverged = stop {
        let problems = try await log.verifyEntries().problems
        try expect(!problems.isEmpty, "\(version) stops, \(stop), and nothing is found to be wrong")
      }
    } catch let error as LogError {
      steps.append("\(version): \(error)")
      guard ignores, case .truncated = error else { throw error }
    }
  }

  private mutating func send(racingSeal: Bool) async {
    guard !open.isEmpty else { return }
    let (version, store) = open[number(open.count)]
    count += 1
    let action = (Version.all[version].decodesX && number(5) == 0 ? "x" : "") + "a\(count)"
    if racingSeal, let rules = try? Model(log.all).newestRules + 1, rules <= 2 {
      log.precede(with: LogEntry.encode(LogEntry.Seal(rules: rules, time: 7, reason: "a race")))
      steps.append("a seal for \(rules) comes before")
    }
    do {
      try await store.send(action)
      steps.append("\(version) sent \(action)")
    } catch StoreError.rejected(let reason) where reason == "Five." {
      steps.append("\(version) stopped \(action)")
    } catch {
      steps.append("\(version) sent \(action): \(error)")
      switch error {
      case StoreError.rejected, StoreError.withdrawn: denied.insert(action)
      default: break
      }
    }
  }

  /// Decides about an entry. In half of the cases, a store saves a snapshot or truncates the log meanwhile.
  private mutating func skip() async {
    let head = log.all.count
    guard head > 0 else { return }
    let position = UInt64(1 + number(head))
    let (races, truncates) = (number(2) == 0 && !open.isEmpty, number(2) == 0)
    let store = open.isEmpty ? nil : open[number(open.count)].store
    let log = log
    async let other: String = {
      guard races, let store else { return "" }
      do {
        return ", and saved \(try await truncates ? store.truncateLog() : store.saveSnapshot()) meanwhile"
      } catch {
        return ", and meanwhile \(error)"
      }
    }()
    do {
      let decision = try await log.skip(position: position, reason: "a test")
      steps.append("skipped \(position) at \(decision)\(await other)")
    } catch {
      steps.append("skipped not \(position): \(error.text)\(await other)")
    }
  }

  private mutating func seal() async {
    let rules = UInt32(1 + number(2))
    do {
      if number(2) == 0, !open.isEmpty {
        let (version, store) = open[number(open.count)]
        steps.append("\(version) sealed for \(rules) at \(try await store.sealLog(forRules: rules, reason: "a test"))")
      } else {
        steps.append("sealed for \(rules) at \(try await log.seal(forRules: rules, reason: "a test"))")
      }
    } catch {
      steps.append("sealed not for \(rules): \(error)")
    }
  }

  private mutating func snapshot(erases: Bool) async {
    guard !open.isEmpty else { return }
    let (version, store) = open[number(open.count)]
    do {
      if erases {
        steps.append("\(version) erased through \(try await store.eraseLog())")
      } else {
        steps.append("\(version) saved \(try await store.saveSnapshot())")
        if number(2) == 0 { steps.append("\(version) truncated through \(try await store.truncateLog())") }
      }
    } catch {
      steps.append("\(version) saved not: \(error)")
    }
  }

  /// Waits until each open store is up to date or has stopped, and compares the states with the model's.
  private mutating func settle() async throws {
    while true {
      let head = log.all.count
      var going: [(Int, LedgerStore)] = []
      for (version, store) in open {
        var isStopped = false
        while true {
          let figures = await store.statistics.log
          if case .stopped? = figures?.phase { isStopped = true }
          if isStopped || figures?.position ?? 0 >= UInt64(head) { break }
          await Task.yield()
        }
        if isStopped {
          steps.append("\(version) has stopped")
          await store.shutdown()
        } else {
          going.append((version, store))
        }
      }
      open = going
      // A store that has taken a decision back, or has ended, has appended an entry.
      guard log.all.count == head else { continue }
      let model = try Model(log.all)
      for (version, store) in open {
        let state = await store.state
        try expect(state == model.state, "\(version) has \(state.entries), not \(model.state.entries)")
      }
      guard log.all.count == head else { continue }
      break
    }
    let text = log.text
    for action in denied where text.contains("\"\(action)\"") {
      throw Wrong(description: "\(action) was said to be nowhere, and is in the log")
    }
  }

  /// The version that knows everything opens the log, with the snapshot if the check finds no problem.
  private mutating func openAtEnd() async throws {
    // An ended store may still be saving its last snapshot.
    log = await log.successor()
    let problems = try await log.verifyEntries().problems
    var (opened, stop) = (LedgerStore?.none, LogStop?.none)
    do {
      opened = try await Version.knowing.open(log)
    } catch StoreError.stopped(let reason) {
      stop = reason
    }
    steps.append("problems: \(problems)")
    if let stop { try expect(!problems.isEmpty, "it stops, \(stop), and nothing was found to be wrong") }
    if opened != nil {
      try expect(
        problems.allSatisfy { if case .notSkipped(_, _, isTruncated: true) = $0 { true } else { false } },
        "it is opened, and that was found to be wrong: \(problems)")
    }
    var store: LedgerStore
    if let opened { store = opened } else { store = try await Version.knowing.open(log) { $0.ignoresSnapshots = true } }
    open = [(6, store)]
    try await settle()
    try expect(open.count == 1, "the version that knows everything has stopped")
    try await store.send("last")
    await store.shutdown()
    open = []
    let copy = MemoryLogs()["copy"]
    try await log.copy(to: copy)
    for log in [log, copy] as [any OrderedLog] {
      let problems = try await log.verifyEntries().problems
      try expect(problems.isEmpty, "\(problems) in \(type(of: log))")
      store = try await Version.knowing.open(log)
      let (state, model) = (await store.state, try Model(self.log.all))
      try expect(state == model.state, "\(state.entries) in \(type(of: log)), not \(model.state.entries)")
      await store.shutdown()
    }
  }
}

/// A log in memory that remembers truncated entries, and can put another writer's entry before the next one.
private final class RememberingLog: OrderedLog, SnapshotStore {
  private struct Contents {
    var all: [LogRecord] = []
    var next: [UInt8]?
    /// The calls in progress that change the log or its snapshot.
    var changeCount = 0
    var isOver = false
  }

  private let memory: MemoryLog
  private let contents: LockedValue<Contents>

  init() {
    memory = MemoryLog()
    contents = LockedValue(Contents())
  }

  private init(after other: RememberingLog) {
    memory = other.memory
    contents = LockedValue(Contents(all: other.all))
  }

  /// Another object for the same log. From then on, this one changes nothing.
  func successor() async -> RememberingLog {
    contents.withLock { $0.isOver = true }
    while contents.withLock({ $0.changeCount > 0 }) { await Task.yield() }
    return RememberingLog(after: self)
  }

  private func change(_ body: () async throws(LogError) -> Void) async throws(LogError) {
    let isOver = contents.withLock { contents in
      if !contents.isOver { contents.changeCount += 1 }
      return contents.isOver
    }
    if isOver { throw .unavailable("There is another object for this log.") }
    defer { contents.withLock { $0.changeCount -= 1 } }
    try await body()
  }

  var all: [LogRecord] { contents.withLock { $0.all } }
  var text: String { all.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: " ") }

  func precede(with entry: [UInt8]) { contents.withLock { $0.next = entry } }

  var snapshots: (any SnapshotStore)? { self }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    contents.withLock { contents in
      if let before = contents.next.take() { add(before, to: &contents) { _ in } }
      add(entry, to: &contents, outcome)
    }
  }

  /// Runs under the lock, so that both have the same order. The outcome is reported later.
  private func add(
    _ entry: [UInt8], to contents: inout Contents, _ outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void
  ) {
    contents.all.append(LogRecord(position: UInt64(contents.all.count) + 1, bytes: entry))
    memory.append(entry, outcome: outcome)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    memory.records(after: position)
  }
  func head() async throws(LogError) -> UInt64 { try await memory.head() }
  func truncate(through position: UInt64) async throws(LogError) {
    try await change { () async throws(LogError) in try await memory.truncate(through: position) }
  }
  func erase(through position: UInt64) async throws(LogError) {
    try await change { () async throws(LogError) in try await memory.erase(through: position) }
  }
  func newest() async throws(LogError) -> LogSnapshot? { try await memory.newest() }
  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    try await change { () async throws(LogError) in try await memory.save(snapshot) }
  }
  func replace(with snapshot: LogSnapshot) async throws(LogError) {
    try await change { () async throws(LogError) in try await memory.replace(with: snapshot) }
  }
}
