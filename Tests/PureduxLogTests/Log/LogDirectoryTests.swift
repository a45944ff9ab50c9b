import Foundation
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Logs by key: their list, and the remains of removed logs.
@Suite(.timeLimit(.minutes(15))) struct LogDirectoryTests {
  @Test("logs in memory and in files keep the contract of directories of logs", arguments: LogPlace.allCases)
  func contract(place: LogPlace) async throws {
    switch place {
    case .memory: try await checkLogDirectory(MemoryLogs(), within: .seconds(1000))
    case .files:
      let directory = try TemporaryDirectory()
      try await checkLogDirectory(FileLog(directory: directory.path), within: .seconds(1000))
    }
  }

  @Test("stores of trees that are removed at random, most before their first entry, stop", arguments: LogPlace.allCases)
  func removals(place: LogPlace) async throws {
    try await place.withDirectory { open in
      let logs = try await open()
      try await RandomRemovals.run(0..<40, in: [logs, logs])
    }
  }

  @Test("the removal of unused trees leaves nothing")
  func unused() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    for number in 0..<10 { try await log.remove("\(number)") }
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory.path) == ["lock"])
    await log.close()
  }

  @Test("a tree is listed from its first entry on, however complete its directory was before")
  func unwritten() async throws {
    let directory = try TemporaryDirectory()
    do {
      let log = try FileLog(directory: directory.path)
      for key in ["begun", "damaged", "entry", "gone", "snapshot", "truncated"] { _ = try await log[key].append([1]) }
      _ = try await log["truncated"].append([2])
      try await log["truncated"].erase(through: 1)
      try await log["snapshot"].snapshots?.save(LogSnapshot(position: 1, bytes: [1]))
      await log.close()
    }
    let files = FileManager.default
    // A process that dies before the first entry leaves directories like these.
    for name in ["=empty", "=named", "~" + String(repeating: "0", count: 64)] {
      try files.createDirectory(atPath: directory.path + "/" + name, withIntermediateDirectories: true)
    }
    try files.copyItem(atPath: directory.path + "/=begun/tree", toPath: directory.path + "/=named/tree")
    let first = FileNames.segment(1)
    let begun = try Directory(directory.path + "/=begun")
    try Disk(first, in: begun, .writing).truncate(to: RecordFormat.headerSize)
    try AcknowledgedMark.ofNothing.place(in: begun)
    try files.removeItem(atPath: directory.path + "/=snapshot/" + first)
    // Missing or damaged acknowledged entries do not exclude a tree from the list.
    try files.removeItem(atPath: directory.path + "/=gone/" + first)
    try Disk(first, in: Directory(directory.path + "/=damaged"), .writing).write([0xff], at: 0)
    let log = try FileLog(directory: directory.path)
    #expect(try await all(log.keys(prefix: "")) == ["damaged", "entry", "gone", "snapshot", "truncated"])
    #expect(try await all(log.keys(prefix: "", batch: 1)) == ["damaged", "entry", "gone", "snapshot", "truncated"])
    _ = try await log["empty"].append([1])
    #expect(try await all(log.keys(prefix: "e")) == ["empty", "entry"])
    await log.close()
  }

  /// The ways to damage a tree. Only a tree's files contain its key if that is long.
  enum Damage: CaseIterable {
    case longWithoutIdentity, longWithDamagedIdentity, longExchanged, newerSummary, records

    static let long = String(repeating: "L", count: 255)

    var key: String { self == .records || self == .newerSummary ? "b" : Self.long }

    /// Damages the tree. Returns the path of its directory afterwards.
    func hurt(_ directory: String) throws -> String {
      let files = FileManager.default
      var tree = directory + "/" + FileNames.directory(of: key)
      func write(_ bytes: [UInt8], to name: String) {
        _ = files.createFile(atPath: tree + "/" + name, contents: Data(bytes))
      }
      switch self {
      case .longWithoutIdentity: try files.removeItem(atPath: tree + "/" + FileNames.identity)
      case .longWithDamagedIdentity: write([1], to: FileNames.identity)
      case .longExchanged:
        let other = directory + "/~" + String(repeating: "0", count: 64)
        try files.moveItem(atPath: tree, toPath: other)
        tree = other
      case .newerSummary: write([0x50, 0x44, 0x58, 0x53, 0x55, 0x4D, 0x4D, 200], to: FileNames.summary)
      case .records: write([UInt8](repeating: 0xFF, count: 100), to: FileNames.segment(1))
      }
      return tree
    }
  }

  @Test(
    "a file, or a dangling link, in place of a tree's directory is no empty tree", arguments: [false, true],
    ["b", Damage.long])
  func noDirectory(isLink: Bool, key: String) async throws {
    let directory = try TemporaryDirectory()
    let before = try FileLog(directory: directory.path + "/logs")
    for key in ["a", "b", Damage.long, "z"] { _ = try await before[key].append([1]) }
    await before.close()
    let place = directory.path + "/logs/" + FileNames.directory(of: key)
    try FileManager.default.moveItem(atPath: place, toPath: directory.path + "/moved")
    if isLink {
      try FileManager.default.createSymbolicLink(atPath: place, withDestinationPath: directory.path + "/nothing")
    } else {
      #expect(FileManager.default.createFile(atPath: place, contents: nil))
    }
    let log = try FileLog(directory: directory.path + "/logs")
    await #expect(throws: LogError.self) { try await log[key].append([2]) }
    await #expect(throws: LogError.self) { try await log[key].head() }
    var keys: Set<String> = []
    do {
      for try await key in log.keys(prefix: "") { keys.insert(key) }
    } catch {
      #expect("\(error)".contains(FileNames.directory(of: key)))
    }
    #expect(keys.isSuperset(of: Set(["a", "b", Damage.long, "z"]).subtracting([key])))
    await log.close()
    // The disk is available again.
    try FileManager.default.removeItem(atPath: place)
    try FileManager.default.moveItem(atPath: directory.path + "/moved", toPath: place)
    #expect(try await FileLog(directory: directory.path + "/logs")[key].append([2]) == 2)
  }

  @Test("a damaged tree hides no other one, and is named", arguments: Damage.allCases)
  func damaged(damage: Damage) async throws {
    let directory = try TemporaryDirectory()
    let before = try FileLog(directory: directory.path + "/logs")
    for key in ["a", "b", Damage.long, "z"] {
      _ = try await before[key].append([1])
      _ = try await before[key].summaries?.save([1], at: 1)
    }
    await before.close()
    let place = try damage.hurt(directory.path + "/logs")
    let log = try FileLog(directory: directory.path + "/logs")
    // Each list has all other trees, and then an error names the damaged one, unless the list has its key.
    func read(_ keys: AsyncThrowingStream<String, any Error>) async throws -> ([String], String?) {
      var all: [String] = []
      do {
        for try await key in keys { all.append(key) }
      } catch LogError.damaged(_, let text) {
        return (all, text)
      }
      return (all, nil)
    }
    let hasKey = damage.key == "b"
    let others = ["a", "b", Damage.long, "z"].filter { hasKey || $0 != damage.key }.sorted()
    for batch in [1, 2, 100] {
      let (keys, text) = try await read(log.keys(prefix: "", batch: batch))
      #expect(keys == others && (text == nil) == hasKey && text?.contains(place) != false)
    }
    for batch in [1, 100] {
      let summaries = log.summaries(prefix: "", batch: batch)
      let texts = LockedValue<String?>(nil)
      let keys = try await read(
        AsyncThrowingStream {
          do {
            return try await summaries.first { _ in true }?.key
          } catch LogError.damaged(_, let text) {
            texts.withLock { $0 = text }
            return nil
          }
        }
      ).0
      #expect(keys == others.filter { damage != .newerSummary || $0 != "b" })
      #expect(damage == .records ? texts.withLock { $0 } == nil : texts.withLock { $0 }?.contains(place) == true)
    }
    for key in ["a", "z"] { #expect(try await log[key].append([2]) == 2) }
    // Every operation on all trees behaves in this way.
    let archive = directory.path + "/archive"
    let exported = try await log.export(to: archive)
    let target = MemoryLogs()
    let copied = try await log.copy(to: target)
    #expect(
      try await all(LogArchive(path: archive).keys(prefix: ""))
        == others.filter { $0 != damage.key || damage == .newerSummary })
    for report in [exported, copied] {
      #expect(report.failures.count == (damage == .newerSummary ? 0 : 1))
      #expect(report.failures.allSatisfy { $0.key == (hasKey ? "b" : nil) && $0.description.contains(place) })
    }
    await log.close()
  }

  @Test("of many damaged trees the error names one and counts the others", arguments: [1, 2, 60], [false, true])
  func manyDamaged(count: Int, isDiskFailing: Bool) async throws {
    let directory = try TemporaryDirectory()
    let before = try FileLog(directory: directory.path)
    let long = (0..<count).map { "\($0)" + Damage.long }
    let short = (0..<count).map { "newer \($0)" }
    for key in long + short + ["z"] { _ = try await before[key].append([1]) }
    await before.close()
    func place(_ key: String, _ name: String) -> String {
      directory.path + "/" + FileNames.directory(of: key) + "/" + name
    }
    for key in long { try FileManager.default.removeItem(atPath: place(key, FileNames.identity)) }
    let newer = Data([0x50, 0x44, 0x58, 0x53, 0x55, 0x4D, 0x4D, 200])
    for key in short { try newer.write(to: URL(fileURLWithPath: place(key, FileNames.summary))) }
    if isDiskFailing {
      // A file that cannot be opened at present.
      for path in [place(long[count / 2], FileNames.identity), place("z", FileNames.summary)] {
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
      }
    }
    let log = try FileLog(directory: directory.path)
    func check(_ error: LogError?, total: Int) throws {
      switch error {
      case .unavailable: #expect(isDiskFailing)
      case .damaged(_, let text):
        #expect(!isDiskFailing && text.utf8.count < 1000)
        #expect(text.components(separatedBy: "…").count == (total > 1 ? 2 : 1))
        #expect(text.hasSuffix(" … and \(total - 1) more.") == (total > 1), "\(text)")
      default: Issue.record("\(String(describing: error))")
      }
    }
    for batch in [1, 7, 1000] {
      try check(
        await #expect(throws: LogError.self) { _ = try await all(log.keys(prefix: "", batch: batch)) }, total: count)
      try check(
        await #expect(throws: LogError.self) { for try await _ in log.summaries(prefix: "", batch: batch) {} },
        total: 2 * count)
    }
    await log.close()
  }

  @Test("a directory of logs that breaks its contract is found", arguments: FaultyLogs.Fault.allCases)
  func finds(fault: FaultyLogs.Fault) async throws {
    let violation = await #expect(throws: LogViolation.self) {
      try await checkLogDirectory(FaultyLogs(fault), within: .seconds(1000))
    }
    #expect(violation?.part == fault.part, "\(String(describing: violation))")
  }

  @Test("the keys of files are listed in order, however few are in memory", arguments: [1, 2, 7, 40])
  func batches(batch: Int) async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let keys = (0..<20).map { "tree \($0)" }.sorted()
    for key in keys { _ = try await log[key].append([1]) }
    #expect(try await all(log.keys(prefix: "", batch: batch)) == keys)
    #expect(try await all(log.keys(prefix: "tree 1", batch: batch)) == keys.filter { $0.hasPrefix("tree 1") })
    // Trees that exist during the whole listing are listed, even if others are removed.
    var found: [String] = []
    for try await key in log.keys(prefix: "", batch: batch) {
      found.append(key)
      if found.count == 3 { for key in keys[..<10] { try await log.remove(key) } }
    }
    #expect(found.starts(with: keys[..<3]) && found.suffix(10) == keys[10...])
    await log.close()
    await #expect(throws: LogError.self) { _ = try await all(log.keys(prefix: "")) }
  }

  @Test("a removal that is cut short has removed the tree, and its files go when the log is opened")
  func cutShort() async throws {
    let directory = try TemporaryDirectory()
    let fails = Flag()
    let faults = DiskFaults { call, _ in call == .remove && fails.isRaised ? EIO : nil }
    let log = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let store = try await ledger(log["tree"], options: options)
    try await store.send("old and secret")
    try await store.saveSnapshot()
    fails.raise()
    await #expect(throws: LogError.self) { try await log.remove("tree") }
    for await phase in store.logPhases() { if case .stopped(.removed) = phase { break } }
    #expect(told.all == [.stoppedAs(key: "tree", .removed)])
    await store.shutdown()
    #expect(try await all(log.keys(prefix: "")) == [])
    let next = try await ledger(log["tree"])
    try await next.send("new")
    await next.shutdown()
    #expect(try holds(directory.path, "secret"))
    await log.close()
    let again = try FileLog(directory: directory.path)
    #expect(try !holds(directory.path, "secret"))
    let opened = try await ledger(again["tree"])
    #expect(await opened.state.entries == ["new"])
    await opened.shutdown()
    // Nothing remains of a tree that is removed without a fault. Earlier remains are deleted, too.
    try await again.remove("tree")
    #expect(try !holds(directory.path, "new"))
    await again.close()
  }

  @Test("the remains of a removal are deleted with the next one")
  func deletedLater() async throws {
    let directory = try TemporaryDirectory()
    let fails = Flag()
    let faults = DiskFaults { call, _ in call == .remove && fails.isRaised ? EIO : nil }
    let log = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
    _ = try await log["tree"].append(Array("secret".utf8))
    fails.raise()
    await #expect(throws: LogError.self) { try await log.remove("tree") }
    fails.lower()
    try await log.remove("tree")
    #expect(try !holds(directory.path, "secret"))
    await log.close()
  }

  @Test("a tree whose files were moved away can be removed, and a new one begins")
  func moved() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let tree = log["tree"]
    _ = try await tree.append([1])
    try FileManager.default.moveItem(atPath: directory.path + "/=tree", toPath: directory.path + "/away")
    await #expect(throws: LogError.self) { _ = try await tree.append([2]) }
    await #expect(throws: LogError.self) { _ = try await log["tree"].append([2]) }
    try await log.remove("tree")
    #expect(try await log["tree"].append([3]) == 1)
    await log.close()
  }

  @Test("a store opened during the removal of its tree belongs to the old or the new tree, or the opening fails")
  func opening() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    for round in 0..<20 {
      let old = try await ledger(log["tree"])
      try await old.send("\(round)")
      try await old.saveSnapshot()
      async let opening = ledger(log["tree"])
      async let removing: Void = log.remove("tree")
      do {
        let store = try await opening
        let entries = await store.state.entries
        #expect(entries == [] || entries == ["\(round)"])
        await store.shutdown()
      } catch {
        #expect(error as? LogError == .removed)
      }
      try await removing
      await old.shutdown()
      #expect(try await log["tree"].head() == 0)
    }
    await log.close()
  }
}

/// Whether a file in the directory, or below it, contains the text.
func holds(_ directory: String, _ text: String) throws -> Bool {
  for name in try FileManager.default.subpathsOfDirectory(atPath: directory) {
    guard let data = FileManager.default.contents(atPath: directory + "/" + name) else { continue }
    if data.range(of: Data(text.utf8)) != nil { return true }
  }
  return false
}

/// Logs in memory with one fault.
final class FaultyLogs: LogDirectory {
  enum Fault: CaseIterable {
    case listsNothing, listsUnused, comparesBytes, removesNothing, forgetsSummaries, goesOn, keepsEmpty, staysOpen

    /// The violated part of the contract.
    var part: String {
      switch self {
      case .listsNothing, .listsUnused, .removesNothing: "keys"
      case .comparesBytes: "equal keys"
      case .forgetsSummaries: "summaries"
      case .goesOn: "removal"
      case .keepsEmpty: "removal before the first entry"
      case .staysOpen: "end"
      }
    }
  }

  private let fault: Fault
  private let logs = LockedValue(MemoryLogs())
  private let asked = LockedValue<Set<String>>([])

  init(_ fault: Fault) { self.fault = fault }

  private var current: MemoryLogs { logs.withLock { $0 } }

  private func stored(_ key: String) -> String {
    fault == .comparesBytes && key.hasPrefix("caf") ? key.unicodeScalars.map { "\($0.value)" }.joined() : key
  }

  subscript(key: String) -> any OrderedLog {
    asked.withLock { _ = $0.insert(key) }
    return current[stored(key)]
  }

  func keys(prefix: String) -> AsyncThrowingStream<String, any Error> {
    switch fault {
    case .listsNothing: return AsyncThrowingStream { nil }
    case .listsUnused:
      let keys = LockedValue(asked.withLock { $0.filter { $0.hasPrefix(prefix) } })
      return AsyncThrowingStream { keys.withLock { $0.popFirst() } }
    default: return current.keys(prefix: prefix)
    }
  }

  func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
    fault == .forgetsSummaries ? AsyncThrowingStream { nil } : current.summaries(prefix: prefix)
  }

  func remove(_ key: String) async throws(LogError) {
    switch fault {
    case .removesNothing: return
    // The stores of the other trees are not told, either.
    case .goesOn: logs.withLock { $0 = MemoryLogs() }
    // A tree without entries survives its removal.
    case .keepsEmpty:
      let isListed = try? await current.keys(prefix: key).contains { $0 == key }
      if isListed == true { try await current.remove(key) }
    default: try await current.remove(stored(key))
    }
  }

  func close() async { if fault != .staysOpen { await current.close() } }
}
