import Puredux
import PureduxLogTesting
import Testing

@testable import PureduxLog

/// A program whose changed reducer or middleware would give the past another result (G11).
@Suite(.timeLimit(.minutes(15))) struct ChangedRulesTests {
  /// The hash is the same in every process.
  private static let fingerprint: @Sendable (Ledger) -> UInt64 = { ledger in
    ledger.entries.reduce(0) { $0 &* 31 &+ $1.utf8.reduce(7) { $0 &* 31 &+ UInt64($1) } }
  }

  private static func open(
    _ log: any OrderedLog, _ options: LogOptions = .once, atLeast step: Int = 1, suffix: String = ""
  ) async throws -> LedgerStore {
    let guarding = Middleware<Ledger, String> { action, context, next in
      let highest = context.state.entries.compactMap { Int($0) }.max() ?? 0
      guard Int(action) ?? .max >= highest + step else { return context.reject("Too low.") }
      next(action)
    }
    return try await RootStore(
      following: log, initialState: Ledger(),
      options: FollowingOptions(log: options, fingerprint: .hashed(fingerprint)),
      middleware: [guarding]
    ) { $0.entries.append($1 + suffix) }
  }

  private static func bid(in log: any OrderedLog) async throws {
    let store = try await open(log)
    for bid in ["1", "2", "3", "11", "12"] { try await store.send(bid) }
    await store.shutdown()
  }

  @Test("a tightened guard stops the next version at an acknowledged action that it would refuse")
  func tightened() async throws {
    let log = MemoryLog()
    try await Self.bid(in: log)
    let told = LockedValue<[LogReport]>([])
    var options = LogOptions.once
    options.reporting = { report in told.withLock { $0.append(report) } }
    options.snapshotBytes = 1
    options.truncatesBehindSnapshots = true
    await #expect(throws: StoreError.stopped(.diverged(position: 1))) { try await Self.open(log, options, atLeast: 10) }
    let (first, none) = (Self.fingerprint(Ledger(entries: ["1"])), Self.fingerprint(Ledger()))
    let hashes = LogReport.Fingerprints(here: max(1, none), there: first)
    #expect(told.withLock { $0 } == [.diverged(key: nil, position: 1, entry: 2, states: hashes)])
    #expect(try await log.newest() == nil)
    // The version before continues. So does the new one, if its operator chooses that.
    #expect(try await Self.open(log).state.entries == ["1", "2", "3", "11", "12"])
    options.fingerprintVersion = 2
    #expect(try await Self.open(log, options, atLeast: 10).state.entries == ["11"])
  }

  @Test("a changed reducer stops the next version at the first different state")
  func changed() async throws {
    let log = MemoryLog()
    try await Self.bid(in: log)
    await #expect(throws: StoreError.stopped(.diverged(position: 1))) { try await Self.open(log, suffix: "!") }
    var options = LogOptions.once
    options.opensWhereStopped = true
    let store = try await Self.open(log, options, suffix: "!")
    #expect(await store.state.entries == ["1!"])
    #expect(store.dispatch("13") == .stopped)
    await store.shutdown()
    #expect(try await Self.open(log).state.entries.count == 5)
  }

  @Test("after a snapshot the new reducer continues, because earlier entries are not reduced again")
  func behindSnapshot() async throws {
    let log = MemoryLog()
    try await Self.bid(in: log)
    var options = LogOptions.once
    options.ignoresSnapshots = true
    await (try Self.open(log, options)).shutdown()
    let store = try await Self.open(log, suffix: "!")
    try await store.send("13")
    await store.shutdown()
    #expect(try await Self.open(log, suffix: "!").state.entries.last == "13!")
    // The version before does not accept the new version's writes as its own.
    await #expect(throws: StoreError.stopped(.diverged(position: 7))) { try await Self.open(log) }
  }

  @Test("a divergence is resolved by a replay without snapshots under a raised number, and not without that")
  func walkedOut() async throws {
    let log = MemoryLog()
    let store = try await Self.open(log, suffix: "?")
    for bid in ["1", "2"] { try await store.send(bid) }
    try await store.saveSnapshot()
    await store.shutdown()
    var options = LogOptions.once
    options.ignoresSnapshots = true
    await #expect(throws: StoreError.stopped(.diverged(position: 1))) { try await Self.open(log, options) }
    options.ignoresSnapshots = false
    options.fingerprintVersion = 2
    #expect(try await Self.open(log, options).state.entries == ["1?", "2?"])
    options.ignoresSnapshots = true
    await (try Self.open(log, options)).shutdown()
    options.ignoresSnapshots = false
    #expect(try await Self.open(log, options).state.entries == ["1", "2"])
  }

  @Test("the state that a store ends with is compared, too, and noted once")
  func attested() async throws {
    let log = MemoryLog()
    let store = try await Self.open(log)
    try await store.send("1")
    await store.shutdown()
    #expect(try await log.head() == 2)
    for _ in 0..<3 { await (try Self.open(log)).shutdown() }
    #expect(try await log.head() == 2)
    await #expect(throws: StoreError.stopped(.diverged(position: 1))) { try await Self.open(log, suffix: "!") }
    // If the process dies, no entry attests the state after the last one.
    let mortal = MortalLog(log)
    let dying = try await Self.open(mortal)
    try await dying.send("2")
    await mortal.kill(dying)
    #expect(try await log.head() == 3)
  }

  @Test("actions on their way when a store ends are compared, too", arguments: [1, 2, 3])
  func attestedUnderWay(count: Int) async throws {
    let log = MemoryLog()
    let store = try await Self.open(log)
    for bid in 1...count { store.dispatch("\(bid)") }
    await store.shutdown()
    let head = try await log.head()
    await #expect(throws: StoreError.stopped(.diverged(position: head - 1))) {
      try await RootStore<Ledger, String>(
        following: log, initialState: Ledger(),
        options: FollowingOptions(log: .once, fingerprint: .hashed(Self.fingerprint))
      ) { $0.entries.append($1 == "\(count)" ? "!" : $1) }
    }
    #expect(try await Self.open(log).state.entries == (1...count).map(String.init))
  }

  @Test("states between an entry and the decision to skip it are not compared")
  func skippedBetween() async throws {
    let log = MemoryLog()
    try await Self.bid(in: log)
    try await log.skip(position: 2, reason: "a mistake")
    let store = try await Self.open(log)
    #expect(await store.state.entries == ["1", "3", "11", "12"])
    try await store.send("13")
    await store.shutdown()
    #expect(try await Self.open(log).state.entries == ["1", "3", "11", "12", "13"])
    await #expect(throws: StoreError.stopped(.diverged(position: 1))) { try await Self.open(log, suffix: "!") }
  }

  @Test("hashes without a function's number are compared only between replicas that run at the same time")
  func older() async throws {
    let log = MemoryLog()
    var seen = LogEntry.Mark()
    var fold = Fold()
    for number in 1...3 as ClosedRange<UInt64> {
      let header = LogEntry.Header(writer: 7, first: number, seen: seen, schema: 1)
      log.append(LogEntry.encode(header, actions: [Array("\"\(number)\"".utf8)])) { _ in }
      _ = fold.take(number, of: 7, at: number)
      fold.ended(at: number, fingerprint: 99)
      seen = fold.mark
    }
    #expect(try await Self.open(log).state.entries == ["1", "2", "3"])
  }
}
