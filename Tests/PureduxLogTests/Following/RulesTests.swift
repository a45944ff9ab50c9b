import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Entries that name the rules for their reduction, and logs that are sealed for newer rules (G11).
@Suite(.timeLimit(.minutes(15))) struct RulesTests {
  private static func options(_ rules: UInt32, newest: UInt32? = nil, oldest: UInt32 = 0) -> LogOptions {
    var options = LogOptions.once
    (options.rules, options.newestRules, options.oldestRules) = (rules, newest, oldest)
    return options
  }

  /// Under rules before 2, each action is recorded unchanged; from rules 2 on, with a mark.
  private static func open(
    _ log: any OrderedLog, _ options: LogOptions, middleware: [Middleware<Ledger, String>] = []
  ) async throws -> LedgerStore {
    try await RootStore(
      following: log, initialState: Ledger(), options: FollowingOptions(log: options, fingerprint: .unchecked),
      middleware: middleware
    ) {
      $0.entries.append(LogRules.current < 2 ? $1 : $1 + "!")
    }
  }

  private static func openNew(_ log: any OrderedLog, _ options: LogOptions = options(2, oldest: 2)) async throws
    -> LedgerStore
  {
    try await RootStore(
      following: log, initialState: Ledger(), options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      $0.entries.append($1 + "!")
    }
  }

  private static func write(_ actions: [String], to log: any OrderedLog, _ options: LogOptions) async throws {
    let store = try await open(log, options)
    for action in actions { try await store.send(action) }
    await store.shutdown()
  }

  @Test("an entry is reduced by its writer's rules on every replica", arguments: LogPlace.allCases)
  func byWriter(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.write(["a"], to: log, .once)
      try await Self.write(["b"], to: log, Self.options(1))
      let seen = LockedValue<[UInt32]>([])
      let watching = Middleware<Ledger, String> { action, _, next in
        seen.withLock { $0.append(LogRules.current) }
        next(action)
      }
      let store = try await Self.open(log, Self.options(2), middleware: [watching])
      try await store.send("c")
      #expect(await store.state.entries == ["a", "b", "c!"])
      #expect(seen.withLock { $0 } == [0, 1, 2])
      try await store.saveSnapshot()
      try await store.send("d")
      await store.shutdown()
      #expect(try await Self.open(log, Self.options(3)).state.entries == ["a", "b", "c!", "d!"])
      #expect(LogRules.current == .max)
    }
  }

  @Test("admission, and the middleware of children, see the number that the entry is written under, also as that rises")
  func beforeLog() async throws {
    let memory = MemoryLog()
    let log = GatedLog(memory)
    await log.open()
    let seen = Record<String>()
    func telling(_ place: String) -> @Sendable (String, MiddlewareContext<Ledger, String>, (String) -> Void) -> Void {
      { action, _, next in
        seen.add("\(action): \(place) \(LogRules.current)")
        next(action)
      }
    }
    var options = Self.options(1, newest: 2)
    options.entriesUnderWay = 1
    let store = try await Self.open(
      log, options, middleware: [.admission(telling("admission")), Middleware(telling("commit"))])
    let child = store.childStore(
      initialState: 0, stateMapping: { (state, _) in state },
      middleware: [Middleware(telling("child"))]
    ) { count, _ in count += 1 }
    try await child.send("a")
    #expect(seen.all == ["a: child 1", "a: admission 1", "a: commit 1"])
    // Two actions were admitted under the old rules. One is on its way when the log is sealed, and one waits.
    await log.hold()
    let sends = ["b", "c"].map { action in Task { try await child.send(action) } }
    while await store.statistics.log?.pendingActions != 2 { await Task.yield() }
    let seal = try await memory.append(LogEntry.Seal(rules: 2, time: 7, reason: "a test"))
    while await store.statistics.log?.position != seal { await Task.yield() }
    let later = Task { try await child.send("d") }
    while await store.statistics.log?.pendingActions != 3 { await Task.yield() }
    await log.open()
    try await later.value
    for send in sends { await #expect(throws: StoreError.self) { try await send.value } }
    #expect(await store.state.entries == ["a", "d!"])
    #expect(seen.all.filter { $0.hasPrefix("d") } == ["d: child 2", "d: admission 2", "d: commit 2"])
    #expect(seen.all.filter { !$0.hasPrefix("d") }.allSatisfy { $0.hasSuffix(" 1") })
    #expect(!seen.all.contains { $0 == "b: commit 2" || $0 == "c: commit 2" })
    await child.shutdown()
    await store.shutdown()
    #expect(LogRules.current == .max)
  }

  @Test("a version that knows the next rules, and writes under the present ones, reduces by these")
  func nextAhead() async throws {
    let log = MemoryLog()
    let first = try await Self.open(log, Self.options(1, newest: 2))
    let second = try await Self.open(log, Self.options(1, newest: 2))
    try await first.send("a")
    let third = try await Self.open(log, Self.options(2))
    try await third.send("b")
    for store in [first, second, third] {
      #expect(await store.state(where: { $0.entries.count == 2 }).entries == ["a", "b!"])
    }
    try await second.send("c")
    #expect(await third.state(where: { $0.entries.count == 3 }).entries == ["a", "b!", "c"])
  }

  @Test(
    "an entry of newer rules stops a program that does not know them, open or opening", arguments: LogPlace.allCases)
  func newer(place: LogPlace) async throws {
    try await place.withLog { log in
      let told = Record<LogReport>()
      var options = Self.options(1)
      options.reporting = { told.add($0) }
      let old = try await Self.open(log, options)
      try await old.send("a")
      let new = try await Self.open(log, Self.options(2))
      try await new.send("b")
      for await phase in old.logPhases() { if case .stopped = phase { break } }
      #expect(await old.statistics.log?.phase == .stopped(.newerRules(position: 2)))
      #expect(await old.state.entries == ["a"])
      #expect(old.dispatch("c") == .stopped)
      let report = LogReport.stoppedAs(key: log.name, .newerRules(position: 2))
      #expect(told.all == [report] && report.description.contains("Bring the version"))
      await #expect(throws: StoreError.stopped(.newerRules(position: 2))) { try await Self.open(log, options) }
      #expect(told.all == [report, report])
      // The store is not opened at all from a snapshot of the new version.
      try await new.saveSnapshot()
      await #expect(throws: StoreError.stopped(.newerRules(position: 2))) { try await Self.open(log, options) }
      #expect(told.all == [report, report, report])
      options.ignoresSnapshots = true
      try await log.skip(position: 2, reason: "back to the version before")
      #expect(try await Self.open(log, options).state.entries == ["a"])
      await new.shutdown()
    }
  }

  @Test(
    "a program that does not know the rules of the past does not reduce it by its own", arguments: LogPlace.allCases)
  func older(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.write(["a", "b"], to: log, Self.options(1))
      let told = LockedValue<[LogReport]>([])
      var options = Self.options(2, oldest: 2)
      options.reporting = { report in told.withLock { $0.append(report) } }
      options.snapshotBytes = 1
      await #expect(throws: StoreError.stopped(.olderRules(position: 1))) { try await Self.openNew(log, options) }
      #expect(told.withLock { $0 } == [.olderRules(key: log.name, position: 1, rules: 1)])
      #expect(told.withLock { $0[0].description.contains("under rules 1, which") })
      #expect(try await log.snapshots?.newest() == nil)
      #expect(try await Self.open(log, Self.options(1)).state.entries == ["a", "b"])
    }
  }

  @Test(
    "a log is sealed: the old program stops, and the new one begins behind its snapshot", arguments: LogPlace.allCases)
  func sealed(place: LogPlace) async throws {
    try await place.withLog { log in
      let old = try await Self.open(log, Self.options(1))
      let other = try await Self.open(log, Self.options(1))
      for action in ["a", "b"] { try await old.send(action) }
      #expect(try await old.sealLog(forRules: 2, reason: "bids by tens") == 3)
      #expect(try await log.snapshots?.newest()?.position == 3)
      for store in [old, other] {
        for await phase in store.logPhases() { if case .stopped = phase { break } }
        #expect(await store.statistics.log?.phase == .stopped(.newerRules(position: 3)))
        #expect(await store.state.entries == ["a", "b"])
        await #expect(throws: StoreError.stopped(.newerRules(position: 3))) { try await store.send("c") }
      }
      let new = try await Self.openNew(log)
      try await new.send("c")
      try await new.saveSnapshot()
      try await new.send("d")
      await new.shutdown()
      #expect(try await Self.openNew(log).state.entries == ["a", "b", "c!", "d!"])
      // After a rollback, the old program changes nothing.
      await #expect(throws: StoreError.stopped(.newerRules(position: 4))) { try await Self.open(log, Self.options(1)) }
      var options = Self.options(1)
      options.opensWhereStopped = true
      #expect(try await Self.open(log, options).state.entries == ["a", "b", "c!"])
    }
  }

  @Test("an entry without actions stops no program by its rules, also behind skipped entries")
  func withoutActions() async throws {
    let log = MemoryLog()
    func open(_ rules: UInt32) async throws -> LedgerStore {
      var options = Self.options(rules)
      options.fingerprintVersion = rules
      return try await RootStore(
        following: log, initialState: Ledger(),
        options: FollowingOptions(log: options, fingerprint: .hashed { UInt64($0.entries.count + 1) })
      ) { $0.entries.append($1) }
    }
    var store = try await open(1)
    try await store.send("a")
    await store.shutdown()
    let old = try await log.head()
    // The new program writes an entry when it ends, with the hash of its own number.
    await (try await open(2)).shutdown()
    #expect(try await log.head() > old)
    store = try await open(1)
    #expect(await store.state.entries == ["a"])
    await store.shutdown()
    store = try await open(2)
    try await store.send("b")
    let newer = try #require(await store.statistics.log?.position)
    await store.shutdown()
    #expect(try await log.head() > newer)
    await #expect(throws: StoreError.stopped(.newerRules(position: newer))) { try await open(1) }
    try await log.skip(position: newer, reason: "back to the version before")
    store = try await open(1)
    try await store.send("c")
    try await store.saveSnapshot()
    await store.shutdown()
    #expect(try await open(1).state.entries == ["a", "c"])
  }

  @Test("if all processes died before the snapshot of the seal, the old program saves it, and stops")
  func sealedWithoutSnapshot() async throws {
    let log = MemoryLog()
    try await Self.write(["a", "b", "c"], to: log, Self.options(1))
    #expect(try await log.append(LogEntry.Seal(rules: 2, time: 7, reason: "a test")) == 4)
    await #expect(throws: StoreError.stopped(.olderRules(position: 1))) { try await Self.openNew(log) }
    // Meanwhile, a decision about an entry has been appended.
    try await log.skip(position: 2, reason: "a test")
    await #expect(throws: StoreError.stopped(.newerRules(position: 5))) { try await Self.open(log, Self.options(1)) }
    #expect(try await log.newest()?.position == 5)
    await #expect(throws: StoreError.stopped(.newerRules(position: 5))) { try await Self.open(log, Self.options(1)) }
    #expect(try await Self.openNew(log).state.entries == ["a", "c"])
  }

  @Test(
    "a lost snapshot of a seal is saved again by the old program, also after entries of the new one")
  func sealedAndLost() async throws {
    let memory = MemoryLog()
    try await Self.write(["a", "b"], to: memory, Self.options(1))
    _ = try await memory.append(LogEntry.Seal(rules: 2, time: 7, reason: "a test"))
    try await Self.write(["c"], to: memory, Self.options(2))
    #expect(try await memory.newest() == nil)
    await #expect(throws: StoreError.stopped(.olderRules(position: 1))) { try await Self.openNew(memory) }
    await #expect(throws: StoreError.stopped(.newerRules(position: 4))) { try await Self.open(memory, Self.options(1)) }
    #expect(try await memory.newest()?.position == 3)
    #expect(try await Self.openNew(memory).state.entries == ["a", "b", "c!"])
  }

  @Test("an old program's entries after the seal are void on every replica")
  func void() async throws {
    let log = MemoryLog()
    try await Self.write(["a"], to: log, Self.options(1))
    _ = try await log.append(LogEntry.Seal(rules: 2, time: 7, reason: "a test"))
    let header = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 1, rules: 1)
    log.append(LogEntry.encode(header, actions: [Array("\"late\"".utf8), [1, 2, 3]])) { _ in }
    let both = try await Self.open(log, Self.options(2))
    #expect(await both.state.entries == ["a"])
    #expect(await both.statistics.log?.skipped == 2)
    await #expect(throws: StoreError.stopped(.newerRules(position: 3))) { try await Self.open(log, Self.options(1)) }
    #expect(try await log.newest()?.position == 3)
    log.append(LogEntry.encode(header, actions: [Array("\"later\"".utf8)])) { _ in }
    let new = try await Self.openNew(log)
    try await new.send("b")
    for store in [both, new] {
      #expect(await store.state(where: { $0.entries.count == 2 }).entries == ["a", "b!"])
    }
  }

  @Test("a mistaken seal is skipped, and the old program continues")
  func unsealed() async throws {
    let log = MemoryLog()
    try await Self.write(["a"], to: log, Self.options(1))
    _ = try await log.append(LogEntry.Seal(rules: 2, time: 7, reason: "a mistake"))
    try await log.skip(position: 2, reason: "it was one")
    let store = try await Self.open(log, Self.options(1))
    try await store.send("b")
    #expect(await store.state.entries == ["a", "b"])
    // If the snapshot contains the seal, one opening must ignore the snapshot.
    let position = try await store.sealLog(forRules: 2, reason: "a mistake")
    try await log.skip(position: position, reason: "it was one")
    await #expect(throws: StoreError.self) { try await Self.open(log, Self.options(1)) }
    var options = Self.options(1)
    options.ignoresSnapshots = true
    let other = try await Self.open(log, options)
    try await other.send("c")
    await other.shutdown()
    #expect(try await Self.open(log, Self.options(1)).state.entries == ["a", "b", "c"])
  }

  @Test("a program that knows both rules seals a log, and continues")
  func sealedByBoth() async throws {
    let log = MemoryLog()
    let store = try await Self.open(log, Self.options(1, newest: 2))
    try await store.send("a")
    #expect(try await store.sealLog(forRules: 2, reason: "from now on") == 2)
    #expect(try await log.newest()?.position == 2)
    await #expect(throws: LogError.self) { try await store.sealLog(forRules: 1, reason: "no newer ones") }
    // The log continues under the new rules, also after it is opened again.
    try await store.send("b")
    #expect(await store.state.entries == ["a", "b!"])
    let again = try await Self.open(log, Self.options(1, newest: 2))
    try await again.send("c")
    let new = try await Self.openNew(log)
    try await new.send("d")
    for store in [store, again, new] {
      #expect(await store.state(where: { $0.entries.count == 4 }).entries == ["a", "b!", "c!", "d!"])
    }
    await store.shutdown()
    await #expect(throws: StoreError.terminated) { try await store.sealLog(forRules: 2, reason: "too late") }
  }

  @Test("a seal needs a log that keeps snapshots")
  func refused() async throws {
    let plain = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    await #expect(throws: LogError.self) { try await plain.sealLog(forRules: 1, reason: "") }
    let stateless = try await RootStore<Ledger, String>(
      following: MemoryLog(), initialState: Ledger(), codings: LogCodings(actions: .json(), states: nil),
      options: FollowingOptions(log: .once)
    ) { $0.entries.append($1) }
    await #expect(throws: LogError.self) { try await stateless.sealLog(forRules: 1, reason: "") }
    #expect(await stateless.statistics.log?.phase == .following)
  }
}
