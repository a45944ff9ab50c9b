import Foundation
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Opens files that released versions have written (Docs/Reference/Formats.md).
@Suite(.timeLimit(.minutes(15))) struct GoldenTests {
  /// One directory for each version of the formats, as `write` has left it.
  private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    .deletingLastPathComponent().appending(path: "Golden")

  private static let fingerprint: @Sendable (Ledger) -> UInt64 = { ledger in
    ledger.entries.reduce(0) { $0 &* 31 &+ $1.utf8.reduce(7) { $0 &* 31 &+ UInt64($1) } }
  }

  /// A log with the smallest possible files.
  private static func smallLog(_ directory: String, segmentBytes: Int? = nil) throws -> FileLog {
    var small = FileLog.Options()
    small.preallocatedBytes = 0
    if let segmentBytes { small.segmentBytes = segmentBytes }
    return try FileLog(directory: directory, options: small)
  }

  /// Calls the body with the path of a copy of an earlier version's files.
  private static func withGolden(_ version: String, _ body: (_ path: String) async throws -> Void) async throws {
    let copy = try TemporaryDirectory()
    let path = copy.path + "/golden"
    try FileManager.default.copyItem(at: folder.appending(path: version), to: URL(fileURLWithPath: path))
    try await body(path)
  }

  /// Writes rules, a decision, a seal, and a snapshot of all these.
  private static func writeSealed(to directory: String) async throws {
    let log = try smallLog(directory, segmentBytes: 1)
    let tree = log["sealed"]
    for (rules, actions) in [(1, ["a", "a mistake"]), (2, ["c"])] as [(UInt32, [String])] {
      var options = LogOptions.once
      options.rules = rules
      let store = try await ledger(tree, options: options, fingerprint: rules == 1 ? nil : fingerprint)
      for action in actions { try await store.send(action) }
      if rules == 1 {
        await store.shutdown()
        try await tree.skip(position: 2, reason: "a mistake")
        try await (try ledger(tree, options: options)).sealLog(forRules: 2, reason: "other rules")
      } else {
        try await store.saveSnapshot()
        try await store.send("d")
        await store.shutdown()
      }
    }
    await log.close()
  }

  @Test("an earlier version's log with rules and a seal is read")
  func readSealed() async throws {
    try await Self.withGolden("2") { path in
      let log = try FileLog(directory: path)
      #expect(try await log["sealed"].snapshots?.newest()?.position == 5)
      for ignoring in [false, true] {
        var options = LogOptions.once
        (options.rules, options.ignoresSnapshots) = (2, ignoring)
        let store = try await ledger(log["sealed"], options: options, fingerprint: Self.fingerprint)
        #expect(await store.state.entries == ["a", "c", "d"])
        await store.shutdown()
      }
      await #expect(throws: StoreError.stopped(.newerRules(position: 7))) {
        try await ledger(log["sealed"], options: .once)
      }
      await log.close()
    }
  }

  /// Writes an archive of logs, one of them truncated, and the imported logs: with an epoch, and a snapshot of that.
  private static func writeExported(to directory: String) async throws {
    let source = MemoryLogs()
    for key in ["truncated", "whole"] { try await CopyTests.fill(source[key], truncates: key == "truncated") }
    _ = try await source.export(to: directory + "/backup")
    let log = try smallLog(directory + "/log")
    _ = try await log.import(from: directory + "/backup")
    for key in ["truncated", "whole"] {
      let store = try await ledger(log[key], options: CopyTests.ruled, fingerprint: CopyTests.fingerprint)
      try await store.saveSnapshot()
      try await store.send("j")
      await store.shutdown()
    }
    await log.close()
  }

  @Test("an earlier version's archive is imported, and leads to the same state")
  func readExported() async throws {
    try await Self.withGolden("3") { path in
      let (log, imported) = (try FileLog(directory: path + "/log"), MemoryLogs())
      #expect(try await imported.import(from: path + "/backup").logs == 2)
      #expect(try await all(log.keys(prefix: "")) == ["truncated", "whole"])
      for key in ["truncated", "whole"] {
        let then = try await fold(of: log[key])
        let store = try await ledger(imported[key], options: CopyTests.ruled, fingerprint: CopyTests.fingerprint)
        #expect(await store.state.entries == ["a", "b", "c", "d", "e", "f", "g", "h", "i"])
        try await store.saveSnapshot()
        await store.shutdown()
        let now = try await fold(of: imported[key])
        #expect(now.chain == then.chain && now.commits == then.commits && now.skipped == then.skipped)
        let kept = try await ledger(log[key], options: CopyTests.ruled, fingerprint: CopyTests.fingerprint)
        #expect(await kept.state.entries == ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
        #expect(await kept.statistics.log?.epoch == then.epoch && then.epoch != 0)
        await kept.shutdown()
      }
      await log.close()
    }
  }

  private func fold(of log: any OrderedLog) async throws -> Fold {
    let bytes = try #require(try await log.snapshots?.newest()?.bytes)
    guard case .snapshot(let snapshot) = EncodedSnapshot.decode(bytes) else {
      throw LogError.unavailable("There is no snapshot.")
    }
    #expect(bytes.first == 3)
    return snapshot.fold
  }

  /// Writes an entry and its summary.
  private static func writeSummarized(to directory: String) async throws {
    let log = try smallLog(directory)
    let store = try await LedgerStore(
      following: log["caf\u{E9}/1"], initialState: Ledger(),
      options: FollowingOptions(log: .once, summary: { $0.entries.count })
    ) { $0.entries.append($1) }
    try await store.send("a")
    await store.shutdown()
    await log.close()
  }

  @Test("an earlier version's summary is listed")
  func readSummarized() async throws {
    try await Self.withGolden("4") { path in
      let log = try FileLog(directory: path)
      var found: [DecodedSummary<Int>] = []
      for try await summary in log.summaries(of: Int.self, prefix: "") { found.append(summary) }
      #expect(found == [DecodedSummary(key: "caf\u{E9}/1", position: 1, value: 1)])
      #expect(try await log["caf\u{E9}/1"].summaries?.kept()?.position == 1)
      await log.close()
    }
  }

  private static let longKey = "boards/" + String(repeating: "caf\u{E9}", count: 50)

  /// Writes trees whose keys are exactly as long as a directory's name can be, and longer.
  private static func writeLong(to directory: String) async throws {
    let log = try smallLog(directory)
    for key in [longKey, String(repeating: "k", count: 254)] { _ = try await log[key].append([1]) }
    await log.close()
  }

  @Test("an earlier version's tree with a key too long for a file's name is listed and read")
  func readLong() async throws {
    try await Self.withGolden("5") { path in
      let log = try FileLog(directory: path)
      #expect(try await all(log.keys(prefix: "")) == [Self.longKey, String(repeating: "k", count: 254)])
      for key in try await all(log.keys(prefix: "")) { #expect(try await log[key].head() == 1) }
      await log.close()
    }
  }

  /// Writes entries of a program without rules, a snapshot, and two segments.
  private static func write(to directory: String) async throws {
    let log = try smallLog(directory, segmentBytes: 1)
    let tree = log["caf\u{E9}/1"]
    let plain = try await ledger(tree, options: .once)
    try await plain.send("a")
    await plain.shutdown()
    let compared = try await ledger(tree, options: .once, fingerprint: fingerprint)
    try await compared.send("b")
    await compared.shutdown()
    var options = LogOptions.once
    options.ignoresSnapshots = true
    await (try ledger(tree, options: options, fingerprint: fingerprint)).shutdown()
    let last = try await ledger(tree, options: .once, fingerprint: fingerprint)
    for action in ["c", "a mistake", "d"] { try await last.send(action) }
    await last.shutdown()
    try await tree.skip(position: 5, reason: "a mistake")
    let after = try await ledger(tree, options: .once, fingerprint: fingerprint)
    try await after.send("e")
    await after.shutdown()
    await log.close()
  }

  @Test("earlier versions' files are read to the last byte", arguments: ["1"])
  func read(version: String) async throws {
    try await Self.withGolden(version) { path in
      let log = try FileLog(directory: path)
      #expect(try await all(log.keys(prefix: "")) == ["caf\u{E9}/1"])
      let tree = log["caf\u{E9}/1"]
      #expect(try await tree.snapshots?.newest()?.position == 3)
      for ignoring in [false, true] {
        var options = LogOptions.once
        options.ignoresSnapshots = ignoring
        let store = try await ledger(tree, options: options, fingerprint: Self.fingerprint)
        #expect(await store.state.entries == ["a", "b", "c", "d", "e"])
        #expect(await store.statistics.log?.skipped == 1)
        await store.shutdown()
      }
      // A store continues from there.
      let store = try await ledger(tree, options: .once, fingerprint: Self.fingerprint)
      try await store.send("f")
      #expect(await store.state.entries == ["a", "b", "c", "d", "e", "f"])
      await store.shutdown()
      await log.close()
    }
  }

  @Test("this version writes its own golden files, except for random numbers", arguments: ["1", "2", "3", "4", "5"])
  func written(version: String) async throws {
    let directory = try TemporaryDirectory()
    switch version {
    case "1": try await Self.write(to: directory.path)
    case "2": try await Self.writeSealed(to: directory.path)
    case "3": try await Self.writeExported(to: directory.path)
    case "4": try await Self.writeSummarized(to: directory.path)
    default: try await Self.writeLong(to: directory.path)
    }
    if let path = ProcessInfo.processInfo.environment["PUREDUX_GOLDEN"] {
      try FileManager.default.copyItem(atPath: directory.path, toPath: path + version)
    }
    let kept = Self.folder.appending(path: version).path
    let names = try FileManager.default.subpathsOfDirectory(atPath: kept).sorted()
    #expect(try FileManager.default.subpathsOfDirectory(atPath: directory.path).sorted() == names)
    for name in names {
      let (one, other) = (
        FileManager.default.contents(atPath: kept + "/" + name),
        FileManager.default.contents(atPath: directory.path + "/" + name)
      )
      #expect(one?.count == other?.count, "\(name)")
      #expect(one?.prefix(8) == other?.prefix(8), "\(name)")
    }
  }

  @Test("a newer version's snapshot file does not count as missing")
  func newerSnapshot() async throws {
    try await Self.withGolden("1") { path in
      let file = URL(fileURLWithPath: path + "/=caf%c3%a9%2f1/snapshot")
      var bytes = try Data(contentsOf: file)
      bytes[7] += 1
      try bytes.write(to: file)
      let log = try FileLog(directory: path)
      do {
        _ = try await ledger(log["caf\u{E9}/1"], options: .once)
        Issue.record("It was opened.")
      } catch LogError.damaged(_, let text) {
        #expect(text.hasSuffix("was written by a newer version of this library, which is to open it."))
      }
      #expect(try Data(contentsOf: file) == bytes)
      await log.close()
    }
  }
}
