import Foundation
import Puredux
import PureduxLogTesting
import Testing

@testable import PureduxLog

/// The result of replaying a log in a test, or in a job.
@Suite(.timeLimit(.minutes(15))) struct VerifyReplayTests {
  private static let hash: @Sendable (Ledger) -> UInt64 = { ledger in
    ledger.entries.reduce(7) { $0 &* 31 &+ $1.utf8.reduce(7) { $0 &* 31 &+ UInt64($1) } }
  }

  private static func write(
    _ actions: [String], to log: any OrderedLog, truncating: Bool = false, refusing: String = ""
  ) async throws {
    let store = try await ledger(
      log, options: .once, fingerprint: hash,
      middleware: [Middleware { action, _, next in if action != refusing { next(action) } }])
    for action in actions { try? await store.send(action) }
    if truncating {
      try await store.saveSnapshot()
      try await store.truncateLog()
      try await store.send("last")
    }
    await store.shutdown()
  }

  private static func program(
    suffix: @escaping @Sendable (String) -> String = { _ in "" }, refusing: String = "", options: LogOptions = .once
  ) -> ReplayedProgram<Ledger, String> {
    ReplayedProgram(
      initialState: Ledger(), options: FollowingOptions(log: options, fingerprint: .hashed(hash)),
      middleware: [Middleware { action, _, next in if action != refusing { next(action) } }]
    ) {
      switch $1 {
      case "trap": _exit(1)
      case "forever": while true { usleep(1000) }
      default: $0.entries.append($1 + suffix($1))
      }
    }
  }

  @Test(
    "a program with the same result has nothing to report, and the log is unchanged", arguments: LogPlace.allCases)
  func same(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.write(["a", "b", "no", "c"], to: log, refusing: "no")
      let head = try await log.head()
      let report = try await verifyReplay(of: log, by: Self.program(refusing: "no"))
      #expect(report == ReplayReport(position: head, rejected: 1, firstRejection: 3))
      #expect(try await log.head() == head)
      #expect(try await log.snapshots?.newest() == nil)
    }
  }

  @Test("the first entry with another result in another program is named", arguments: 1...6)
  func first(different: Int) async throws {
    let log = MemoryLog()
    try await Self.write((1...6).map { "\($0)" }, to: log)
    let report = try await verifyReplay(of: log, by: Self.program { Int($0) == different ? "!" : "" })
    #expect(report.stop == .diverged(position: UInt64(different)))
    #expect(report.reports.count == 1)
  }

  @Test("an undecodable entry is named, and an empty log has nothing to report")
  func undecodable() async throws {
    let log = MemoryLog()
    #expect(try await verifyReplay(of: log, by: Self.program()) == ReplayReport())
    try await Self.write(["a"], to: log)
    let position = try await log.head() + 1
    log.append(LogEntry.encode(.init(writer: 9, first: 1, seen: .init(), schema: 1), actions: [[1]])) { _ in }
    let report = try await verifyReplay(of: log, by: Self.program())
    #expect(report.stop == .undecodable(position: position))
    #expect(report.position == position - 1)
    try await log.skip(position: position, reason: "a test")
    #expect(try await verifyReplay(of: log, by: Self.program()).stop == nil)
  }

  @Test("a log that was truncated is replayed from its snapshot on")
  func truncated() async throws {
    let log = MemoryLog()
    try await Self.write(["a", "b"], to: log, truncating: true)
    let report = try await verifyReplay(of: log, by: Self.program())
    #expect(report == ReplayReport(start: 2, position: 4))
    #expect(try await verifyReplay(of: log, by: Self.program { _ in "!" }).stop == .diverged(position: 3))
    #expect(try await log.newest()?.position == 2)
  }

  @Test("in a process of its own, a replay finds entries that end it, and entries that never end")
  func apart() async throws {
    // The other process runs this test, too, and calls `verifyReplay` below. It reads the log that this process has
    // written.
    let isOther = ProcessInfo.processInfo.environment["PUREDUX_VERIFY_REPLAY"] != nil
    let path = FileManager.default.temporaryDirectory.path + "/puredux-apart-\(isOther ? getppid() : getpid())"
    let arguments = ["--testing-library", "swift-testing", "--filter", "PureduxLogTests.VerifyReplayTests/apart"]
    for (actions, stop) in [
      (["a", "trap", "b"], .poisoned(position: 2)), (["trap"], .poisoned(position: 1)), (["a", "b"], nil),
      (["a", "forever"], .poisoned(position: 2)),
    ] as [([String], LogStop?)] {
      if !isOther {
        let log = try FileLog(directory: path)
        let store = try await ledger(log["tree"], options: .once, fingerprint: Self.hash)
        for action in actions { try await store.send(action) }
        await store.shutdown()
        await log.close()
      }
      defer { if !isOther { try? FileManager.default.removeItem(atPath: path) } }
      let report = try await verifyReplay(
        opening: { try FileLog(directory: path)["tree"] }, by: { Self.program() },
        stallLimit: actions.contains("forever") ? .seconds(1) : .seconds(100),
        arguments: arguments)
      #expect(report.stop == stop, "\(actions)")
    }
  }

  private static func replay(
    in test: String, fileID: String = #fileID, line: Int = #line
  ) async throws -> ReplayReport {
    try await verifyReplay(
      opening: { MemoryLog() }, by: { program() },
      arguments: ["--testing-library", "swift-testing", "--filter", "PureduxLogTests.VerifyReplayTests/\(test)"],
      fileID: fileID, line: line)
  }

  @Test("the other process reaches a second call if the program catches the error of the first")
  func secondCall() async throws {
    let first = try? await Self.replay(in: "secondCall")
    let second = try await Self.replay(in: "secondCall")
    #expect([first, second] == [ReplayReport(), ReplayReport()])
  }

  @Test("if the error of a first call is not caught, the second call's error names the reason")
  func uncaughtCall() async throws {
    let first = try await Self.replay(in: "uncaughtCall")
    #expect(first == ReplayReport())
    let failure = await #expect(throws: ReplayFailure.self) { try await Self.replay(in: "uncaughtCall") }
    #expect(failure?.description.contains("has not reached the call at") == true)
  }
}
