import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Erased data is gone, and no other data is.
@Suite(.timeLimit(.minutes(15))) struct ErasureTests {
  @Test(
    "data that an action removes from the state is erased from the log, and stores continue",
    arguments: LogPlace.allCases)
  func erased(place: LogPlace) async throws {
    try await place.withLog { log in
      let make = { @Sendable () async throws -> LedgerStore in
        try await LedgerStore(following: log, initialState: Ledger(), options: FollowingOptions(log: .once)) {
          ledger, action in
          ledger.entries.append(action)
          if action == "forget" { ledger.entries.removeAll { $0.hasPrefix("secret") } }
        }
      }
      let store = try await make()
      await #expect(throws: LogError.self) { try await store.eraseLog() }
      for action in ["kept", "secret of Ann", "more", "forget"] { try await store.send(action) }
      #expect(try await store.eraseLog() == 4)
      try await store.send("later")
      #expect(await store.state.entries == ["kept", "more", "forget", "later"])
      for position in 0...3 as ClosedRange<UInt64> {
        await #expect(throws: LogError.truncated(first: 5)) { try await log.read(after: position, through: 6) }
      }
      #expect(try await log.snapshots?.newest()?.position == 4)
      let second = try await make()
      #expect(await second.state == store.state)
      try await second.send("secret")
      for await ledger in store.states() where ledger.entries.last == "secret" { break }
      #expect(try await store.eraseLog() >= 7)
      try await store.send("last")
      for await ledger in second.states() where ledger.entries.last == "last" { break }
      await second.shutdown()
      await store.shutdown()
      await #expect(throws: StoreError.terminated) { try await store.eraseLog() }
    }
  }

  @Test("no byte of it remains in the files, including files that were set aside", arguments: [60, 8 << 20])
  func files(segmentBytes: Int) async throws {
    let directory = try TemporaryDirectory()
    var options = FileLog.Options()
    options.segmentBytes = segmentBytes
    let log = try FileLog(directory: directory.path, options: options)
    let store = try await RootStore<String, String>(
      following: log["tree"], initialState: "", options: FollowingOptions(log: .once)
    ) {
      $0 = $1
    }
    for number in 0..<5 { try await store.send("secret \(number)") }
    try await store.saveSnapshot()
    try await store.send("harmless")
    for name in ["torn-0000000000000002", "snapshot.beyond", "snapshot.new", "segment.new"] {
      try Data("secret tail".utf8).write(to: URL(fileURLWithPath: directory.path + "/=tree/" + name))
    }
    #expect(try holds(directory.path, "secret"))
    #expect(try await store.eraseLog() == 6)
    #expect(try !holds(directory.path, "secret"))
    let names = try FileManager.default.contentsOfDirectory(atPath: directory.path + "/=tree")
    #expect(Set(names) == ["tree", "acknowledged", "snapshot", "0000000000000007.log"])
    // The log is as if it had always begun there, also after it is opened again.
    #expect(try await log["tree"].append([1]) == 8)
    await store.shutdown()
    await log.close()
    let again = try FileLog(directory: directory.path, options: options)
    #expect(try await again["tree"].head() == 8)
    #expect(try await again["tree"].append([2]) == 9)
    #expect(try await again["tree"].read(after: 7, through: 9).map(\.bytes) == [[1], [2]])
    await again.close()
  }

  @Test("entries after a position stay, wherever they are in a file", arguments: [30, 100, 8 << 20])
  func anywhere(segmentBytes: Int) async throws {
    for position in 1..<12 as Range<UInt64> {
      let directory = try TemporaryDirectory()
      var options = FileLog.Options()
      (options.segmentBytes, options.openFiles) = (segmentBytes, 2)
      let log = try FileLog(directory: directory.path, options: options)
      for number in 1...12 { _ = try await log["tree"].append(Array("entry \(number)".utf8)) }
      _ = try await log["beside"].append([1])
      try await log["tree"].erase(through: position)
      for round in 0..<2 {
        #expect(try await log["tree"].append(Array("entry \(13 + round)".utf8)) == UInt64(13 + round))
        let read = try await log["tree"].read(after: position, through: UInt64(13 + round))
        #expect(
          read.map { String(decoding: $0.bytes, as: UTF8.self) }
            == (Int(position) + 1...13 + round).map { "entry \($0)" })
        await #expect(throws: LogError.truncated(first: position + 1)) {
          try await log["tree"].read(after: position - 1, through: 13)
        }
      }
      await log.close()
      let again = try FileLog(directory: directory.path, options: options)
      #expect(try await again["tree"].read(after: position, through: 14).count == 14 - Int(position))
      await again.close()
    }
  }

  @Test("an erasure interrupted at any step leaves an intact log, and is repeated", arguments: 0..<8)
  func cutShort(step: Int) async throws {
    let directory = try TemporaryDirectory()
    let counts = Flag()
    let left = LockedValue(step)
    let faults = DiskFaults { call, _ in
      guard counts.isRaised else { return nil }
      return left.withLock { left in
        left -= 1
        return left < 0 ? EIO : nil
      }
    }
    let log = try FileLog(directory: directory.path, options: FileLog.Options(), onTornTail: nil, faults: faults)
    // Held, because its files would otherwise be opened again, which is a step of its own.
    let held = log["tree"]
    for number in 1...4 { _ = try await held.append(Array("secret \(number)".utf8)) }
    try await held.snapshots?.save(LogSnapshot(position: 3, bytes: [3]))
    for name in ["torn-0000000000000002", "torn-0000000000000003"] {
      try Data("secret tail".utf8).write(to: URL(fileURLWithPath: directory.path + "/=tree/" + name))
    }
    counts.raise()
    let isErased: Bool
    do {
      let erase: () async throws -> Void = { try await held.erase(through: 3) }
      try await erase()
      isErased = true
    } catch {
      isErased = false
    }
    // The steps are: write the remaining entries, sync them, sync their name, and remove two tails.
    #expect(isErased == (step >= 5))
    // Simulates a crash: another process finds the files as they are on the disk.
    let copy = try TemporaryDirectory()
    try FileManager.default.copyItem(atPath: directory.path, toPath: copy.path + "/log")
    counts.lower()
    for (number, path) in [directory.path, copy.path + "/log"].enumerated() {
      let tree: any OrderedLog
      var other: FileLog?
      if number == 0 {
        tree = held
      } else {
        other = try FileLog(directory: path)
        tree = try #require(other)["tree"]
      }
      #expect(try await tree.head() == 4)
      #expect(try await tree.append(Array("behind".utf8)) == 5)
      #expect(try await tree.read(after: 3, through: 5).map(\.bytes) == ["secret 4", "behind"].map { Array($0.utf8) })
      try await tree.erase(through: 4)
      #expect(try !holds(path, "secret") && holds(path, "behind"))
      #expect(try await tree.append([6]) == 6)
      await other?.close()
    }
    await log.close()
  }

  @Test("without syncs, the entries that stay are on the disk before they replace the others")
  func withoutSync() async throws {
    let directory = try TemporaryDirectory()
    let failsOnce = LockedValue(false)
    let faults = DiskFaults { call, _ in
      guard call == .sync else { return nil }
      return failsOnce.withLock { fails in
        defer { fails = false }
        return fails ? EIO : nil
      }
    }
    var options = FileLog.Options()
    options.syncs = false
    let log = try FileLog(directory: directory.path, options: options, onTornTail: nil, faults: faults)
    let tree = log["tree"]
    for number in 1...4 as ClosedRange<UInt8> { _ = try await tree.append([number]) }
    failsOnce.withLock { $0 = true }
    await #expect(throws: LogError.self) { try await tree.erase(through: 3) }
    let names = try FileManager.default.contentsOfDirectory(atPath: directory.path + "/=tree")
    #expect(!names.contains("0000000000000004.log"))
    #expect(try await tree.read(after: 0, through: 4).map(\.bytes) == [[1], [2], [3], [4]])
    try await tree.erase(through: 3)
    #expect(try await tree.read(after: 3, through: 4).map(\.bytes) == [[4]])
    await log.close()
  }

  @Test("a log that does not support erasure refuses it, and nothing is erased")
  func refused() async throws {
    let log = SilentLog()
    await #expect(throws: LogError.refused("The log does not erase.")) { try await log.erase(through: 1) }
    let plain = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    await #expect(throws: LogError.refused("The store follows no log.")) { try await plain.eraseLog() }
  }
}
