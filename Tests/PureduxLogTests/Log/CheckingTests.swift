import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// What tools can tell about a log without its program.
@Suite(.timeLimit(.minutes(15))) struct CheckingTests {
  @Test("each kind of entry describes itself", arguments: LogPlace.allCases)
  func content(place: LogPlace) async throws {
    try await place.withLog { log in
      let before = WallTime.now - .seconds(2)
      var options = LogOptions.once
      options.rules = 3
      let store = try await ledger(log, options: options, fingerprint: CopyTests.fingerprint)
      try await store.send("a")
      try await log.skip(position: 1, reason: "a mistake")
      try await log.beginEpoch(reason: "restored")
      try await log.seal(forRules: 4, reason: "other rules")
      _ = try await log.append([0x50, 0x44, 0x58, 9])
      _ = try await log.append([1])
      await store.shutdown()
      let contents = try await log.read(after: 0, through: 6).map(\.content)
      guard case .actions(let actions) = contents[0], case .skip(1, let skipped, "a mistake") = contents[1],
        case .epoch(let number, let begun, "restored") = contents[2],
        case .seal(4, let sealed, "other rules") = contents[3]
      else {
        Issue.record("\(contents)")
        return
      }
      #expect(actions.first == 1 && actions.seen == 0 && actions.schema == 1 && actions.rules == 3)
      #expect(actions.actions == [Array("\"a\"".utf8)] && actions.writer != 0 && number != 0)
      for time in [skipped, begun, sealed] { #expect(before < time && time < WallTime.now + .seconds(2)) }
      #expect(contents[4...] == [.newer, .unreadable])
      #expect(LogRecord(position: 1, bytes: LogEntry.standIn(for: 7, moment: 1)).content == .standIn(for: 7))
    }
  }

  @Test("a snapshot names its state, and nothing more than the library reads")
  func snapshot() async throws {
    let log = MemoryLogs()["tree"]
    try await CopyTests.fill(log)
    let newest = try #require(try await log.snapshots?.newest())
    guard case .state(let summary) = newest.content else {
      Issue.record("\(newest.content)")
      return
    }
    #expect(summary.schema == 1 && summary.rules == 2 && summary.sealedRules == 2 && summary.epoch == 0)
    #expect(summary.actions == 8 && summary.skipped == 1 && summary.stateBytes > 0)
    #expect(LogSnapshot(position: 1, bytes: [9, 0, 0, 0, 0]).content == .newer)
    #expect(LogSnapshot(position: 1, bytes: []).content == .unreadable)
  }

  @Test("a log in use by stores is found correct, and so is its copy", arguments: CopyPlace.allCases)
  func right(place: CopyPlace) async throws {
    for truncates in [false, true] {
      try await place.withLog { log in
        try await CopyTests.fill(log, truncates: truncates)
        let copy = MemoryLogs()["copy"]
        try await log.copy(to: copy)
        for log in [log, copy] {
          let check = try await log.verifyEntries()
          #expect(check.problems == [] && check.entries > 0)
          #expect(try await log.head() == check.head)
          #expect(try await log.snapshots?.newest()?.position == check.snapshot)
          #expect(check.actions == (truncates ? 2 : 10))
        }
      }
    }
    #expect(try await MemoryLog().verifyEntries() == LogCheck())
  }

  @Test("entries at which a store would stop are found, by their positions")
  func wrong() async throws {
    let log = MemoryLogs()["tree"]
    try await CopyTests.fill(log)
    let entries = try await log.read(after: 0, through: log.head())
    let snapshot = try #require(try await log.snapshots?.newest())
    // Leaves out each entry of actions that the snapshot covers, one at a time.
    for missing in entries where missing.position < snapshot.position {
      guard case .actions(let actions) = missing.content, !actions.actions.isEmpty else { continue }
      let other = MemoryLog()
      for entry in entries where entry != missing { _ = try await other.append(entry.bytes) }
      try await other.save(snapshot)
      let problems = try await other.verifyEntries().problems
      #expect(problems.contains(.foreignSnapshot(position: snapshot.position)), "\(missing.position)")
    }
    // Leaves out each entry after a snapshot, too: the later writers had applied another order.
    let row = MemoryLogs()["tree"]
    let store = try await ledger(row, options: .once)
    for action in ["a", "b"] { try await store.send(action) }
    try await store.saveSnapshot()
    for action in ["c", "d", "e"] { try await store.send(action) }
    await store.shutdown()
    let rest = try await row.read(after: 0, through: 5)
    let two = try #require(try await row.snapshots?.newest())
    for missing in 3...5 as ClosedRange<UInt64> {
      let other = MemoryLog()
      for entry in rest where entry.position != missing { _ = try await other.append(entry.bytes) }
      try await other.save(two)
      let problems = (missing..<5).map { LogCheck.Problem.diverged(position: $0, seen: $0) }
      #expect(try await other.verifyEntries().problems == problems)
    }
    let odd = MemoryLog()
    _ = try await odd.append([1])
    _ = try await odd.append([2])
    _ = try await odd.append([0x50, 0x44, 0x58, 9])
    try await odd.skip(position: 1, reason: "nobody's")
    #expect(try await odd.verifyEntries().problems == [.unreadable(position: 2), .newer(position: 3)])
    try await odd.save(LogSnapshot(position: 3, bytes: [1]))
    #expect(try await odd.verifyEntries().problems.contains(.unreadableSnapshot(position: 3)))
    try await odd.truncate(through: 2)
    #expect(try await odd.verifyEntries().problems.contains(.noSnapshot(first: 3)))
    let gap = MemoryLog()
    for entry in entries { _ = try await gap.append(entry.bytes) }
    try await gap.save(snapshot)
    try await gap.truncate(through: snapshot.position + 1)
    #expect(try await gap.verifyEntries().problems == [.noSnapshot(first: snapshot.position + 2)])
    let behind = MemoryLog()
    _ = try await behind.append(entries[0].bytes)
    try await behind.save(snapshot)
    #expect(try await behind.verifyEntries().problems == [.foreignSnapshot(position: snapshot.position)])
  }

  @Test("a running program stops at a seal from outside, after a snapshot", arguments: LogPlace.allCases)
  func sealed(place: LogPlace) async throws {
    try await place.withLog { log in
      await #expect(throws: LogError.refused("There is nothing in the log.")) {
        try await log.seal(forRules: 1, reason: "early")
      }
      var options = LogOptions.once
      options.rules = 1
      let store = try await ledger(log, options: options)
      try await store.send("a")
      await #expect(throws: LogError.refused("The log has rules 1 already: it can be sealed only for newer rules.")) {
        try await log.seal(forRules: 1, reason: "no others")
      }
      let position = try await log.seal(forRules: 2, reason: "other rules")
      for await phase in store.logPhases() { if case .stopped(.newerRules) = phase { break } }
      #expect(try await log.snapshots?.newest()?.position == position)
      await #expect(throws: LogError.refused("The log has rules 2 already: it can be sealed only for newer rules.")) {
        try await log.seal(forRules: 2, reason: "again")
      }
      await store.shutdown()
      var sealed = options
      (sealed.rules, sealed.oldestRules) = (2, 2)
      let next = try await ledger(log, options: sealed)
      #expect(await next.state.entries == ["a"])
      await next.shutdown()
    }
  }

  @Test("if no store was open at a seal from outside, the printed advice leads to its snapshot")
  func sealedWhileClosed() async throws {
    let (log, told) = (MemoryLog(), Record<LogReport>())
    let store = try await ledger(log, options: .once)
    try await store.send("a")
    await store.shutdown()
    let position = try await log.seal(forRules: 1, reason: "other rules")
    var sealed = LogOptions.once
    (sealed.rules, sealed.oldestRules) = (1, 1)
    sealed.reporting = { told.add($0) }
    await #expect(throws: StoreError.stopped(.olderRules(position: 1))) { try await ledger(log, options: sealed) }
    #expect(told.all[0].description.contains("Start the version before once more. If the log is sealed already"))
    await #expect(throws: StoreError.stopped(.newerRules(position: position))) { try await ledger(log, options: .once) }
    #expect(try await ledger(log, options: sealed).state.entries == ["a"])
  }
}
