import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// The behavior of a log whose files were closed to open others.
@Suite(.timeLimit(.minutes(15))) struct OpenFilesTests {
  /// A log that keeps the files of only one tree open.
  func open(_ directory: TemporaryDirectory, faults: DiskFaults? = nil) throws -> FileLog {
    var options = FileLog.Options()
    options.openFiles = 2
    return try FileLog(directory: directory.path, options: options, onTornTail: nil, faults: faults)
  }

  @Test("trees whose files are never open at once are written to in turn")
  func inTurn() async throws {
    let directory = try TemporaryDirectory()
    let log = try open(directory)
    let stores = [try await ledger(log["a"], options: .once), try await ledger(log["b"], options: .once)]
    for round in 0..<20 { for store in stores { try await store.send("\(round)") } }
    try await stores[0].saveSnapshot()
    for store in stores {
      #expect(await store.state.entries == (0..<20).map { "\($0)" })
      await store.shutdown()
    }
    await log.close()
    let again = try FileLog(directory: directory.path)
    for key in ["a", "b"] { #expect(try await again[key].head() == 20) }
    await again.close()
  }

  enum Change: CaseIterable, Sendable { case replaced, shortened, acknowledged, exchanged, removed, lockRemoved }

  @Test("files that were changed while they were closed are not written to", arguments: Change.allCases)
  func changed(change: Change) async throws {
    let directory = try TemporaryDirectory()
    let log = try open(directory)
    let store = try await ledger(log["a"], options: .once)
    for number in 0..<3 { try await store.send("\(number)") }
    _ = try await log["b"].append([1])
    let (files, tree) = (FileManager.default, directory.path + "/=a")
    let segment = tree + "/0000000000000001.log"
    let bytes = try Data(contentsOf: URL(fileURLWithPath: segment))
    switch change {
    case .replaced: try bytes.write(to: URL(fileURLWithPath: segment), options: .atomic)
    case .shortened:
      let file = try #require(FileHandle(forWritingAtPath: segment))
      try file.truncate(atOffset: 30)
      try file.close()
    case .acknowledged:
      try Data(AcknowledgedMark(first: 1, end: 7000).bytes).write(to: URL(fileURLWithPath: tree + "/acknowledged"))
    case .exchanged:
      try files.moveItem(atPath: tree, toPath: directory.path + "/away")
      try files.copyItem(atPath: directory.path + "/away", toPath: tree)
    case .removed: try files.removeItem(atPath: tree)
    case .lockRemoved: try files.removeItem(atPath: directory.path + "/lock")
    }
    await #expect(throws: StoreError.self) { try await store.send("lost") }
    for await phase in store.logPhases() { if case .stopped(.unreadable) = phase { break } }
    #expect(await store.state.entries == ["0", "1", "2"])
    await store.shutdown()
    await log.close()
  }

  @Test("an entry that could not be withdrawn is withdrawn when the files are opened again")
  func remains() async throws {
    let directory = try TemporaryDirectory()
    let fails = Flag()
    let faults = DiskFaults { call, _ in fails.isRaised && call != .write ? ENOSPC : nil }
    let log = try open(directory, faults: faults)
    let (a, b) = (log["a"], log["b"])
    _ = try await a.append([1])
    _ = try await b.append([1])
    _ = try await a.append([2])
    fails.raise()
    await #expect(throws: LogError.self) { _ = try await a.append(Array("in vain".utf8)) }
    fails.lower()
    _ = try await b.append([2])
    #expect(try await a.append([3]) == 3)
    #expect(try await a.read(after: 0, through: 3).map(\.bytes) == [[1], [2], [3]])
    await log.close()
  }

  // MARK: Opening that waits

  @Test("opening a log that is open elsewhere waits until it is released")
  func waits() async throws {
    let directory = try TemporaryDirectory()
    let clock = ManualClock()
    let first = try FileLog(directory: directory.path)
    #expect(try await first["tree"].append([1]) == 1)
    let opening = Task { try await FileLog(directory: directory.path, waitingFor: .seconds(10), clock: clock) }
    await clock.untilAsleep(1)
    clock.advance(by: .milliseconds(50))
    await clock.untilAsleep(1)
    await first.close()
    clock.advance(by: .milliseconds(50))
    let second = try await opening.value
    #expect(try await second["tree"].head() == 1)
    await second.close()
    // No other log has the directory open, so this does not wait.
    let third = try await FileLog(directory: directory.path, waitingFor: .seconds(10), clock: clock)
    await third.close()
  }

  @Test("it waits no longer than its limit, and ends when it is cancelled")
  func waitsNoLonger() async throws {
    let directory = try TemporaryDirectory()
    let clock = ManualClock()
    let first = try FileLog(directory: directory.path)
    let opening = Task { try await FileLog(directory: directory.path, waitingFor: .milliseconds(70), clock: clock) }
    for step in [50, 20] {
      await clock.untilAsleep(1)
      clock.advance(by: .milliseconds(step))
    }
    await #expect(throws: LogError.inUse("\(directory.path) is open already.")) { try await opening.value }
    let cancelled = Task {
      try await FileLog(directory: directory.path, waitingFor: Duration(attoseconds: .max), clock: clock)
    }
    await clock.untilAsleep(1)
    cancelled.cancel()
    await #expect(throws: LogError.unavailable("The task was cancelled.")) { try await cancelled.value }
    for limit in [Duration.zero, .seconds(-1), Duration(attoseconds: .min)] {
      await #expect(throws: LogError.self) {
        try await FileLog(directory: directory.path, waitingFor: limit, clock: clock)
      }
    }
    await first.close()
  }
}
