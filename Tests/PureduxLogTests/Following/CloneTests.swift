import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Two processes that write under one number, as after a copy of a running machine (G11).
@Suite(.timeLimit(.minutes(15))) struct CloneTests {
  private let told = Record<LogReport>()

  private var options: LogOptions {
    var options = LogOptions.once
    options.writer = 7
    options.reporting = { [told] in told.add($0) }
    return options
  }

  private static func headers(of log: any OrderedLog) async throws -> [LogEntry.Header] {
    let head = try await log.head()
    var headers: [LogEntry.Header] = []
    for try await records in log.records(after: 0) {
      for record in records {
        if case .entry(let header, _) = LogEntry.decode(record.bytes) { headers.append(header) }
      }
      if records.last?.position ?? 0 >= head { break }
    }
    return headers
  }

  @Test("a process without pending entries takes another number, and loses nothing", arguments: LogPlace.allCases)
  func idle(place: LogPlace) async throws {
    try await place.withLog { log in
      let first = try await ledger(log, options: options)
      let second = try await ledger(log, options: options)
      try await first.send("a")
      #expect(await second.state { $0.entries.count == 1 }.entries == ["a"])
      try await second.send("b")
      #expect(await first.state { $0.entries.count == 2 }.entries == ["a", "b"])
      // The number stays with the process that first wrote under it.
      try await first.send("c")
      try await second.send("d")
      #expect(await first.state { $0.entries.count == 4 }.entries == ["a", "b", "c", "d"])
      let headers = try await Self.headers(of: log)
      #expect(headers.map { $0.writer == 7 } == [true, false, true, false])
      #expect(headers.map(\.first) == [1, 1, 2, 2])
      #expect(told.all == [])
      await first.shutdown()
      await second.shutdown()
    }
  }

  @Test("a process with pending entries stops at the other's, and their outcome is unknown")
  func underWay() async throws {
    let log = MemoryLog()
    let gate = GatedLog(log)
    let first = try await ledger(log, options: options)
    let second = try await ledger(gate, options: options)
    let sending = Task { try await second.send("b") }
    await gate.untilHeld(1)
    #expect(second.dispatch("c") == .enqueued)
    await gate.untilHeld(2)
    try await first.send("a")
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    await #expect(throws: StoreError.stopped(.cloned(position: 1))) { try await second.send("d") }
    #expect(second.dispatch("d") == .stopped)
    #expect(await second.state.entries == [])
    #expect(told.all == [.cloned(key: nil, position: 1)])
    // Of its pending entries, the first counts as a repetition because of its number; the other does not.
    await gate.open()
    #expect(await first.state { $0.entries.count == 2 }.entries == ["a", "c"])
    // The first process has not written the other's entry either, and has no pending entries.
    try await first.send("e")
    let again = try await ledger(log)
    try await again.send("f")
    #expect(await again.state.entries == ["a", "c", "e", "f"])
    #expect(await first.state { $0.entries.count == 4 }.entries == ["a", "c", "e", "f"])
    for store in [first, second, again] { await store.shutdown() }
  }

  @Test(
    "a store whose forgotten first entry is repeated takes another number, or stops if actions are on their way",
    arguments: [false, true])
  func setBack(isUnderWay: Bool) async throws {
    let log = MemoryLog()
    let gate = GatedLog(log)
    await gate.open()
    let store = try await ledger(gate, options: options)
    for action in ["a", "b"] { try await store.send(action) }
    let first = try await log.read(after: 0, through: 1)[0].bytes
    if isUnderWay {
      await gate.hold()
      store.dispatch("c")
      await gate.untilHeld(3)
    }
    let others = 2 * Fold.writerLimit
    for writer in 1...UInt64(others) {
      let header = LogEntry.Header(writer: 7 + writer, first: 1, seen: .init(), schema: 1)
      _ = try await log.append(LogEntry.encode(header, actions: [Array("\"other\"".utf8)]))
    }
    let position = try await log.append(first)
    if isUnderWay {
      for await phase in store.logPhases() where phase == .stopped(.cloned(position: position)) { break }
      #expect(told.all == [.cloned(key: nil, position: position)])
    } else {
      _ = await store.state { $0.entries.count == 2 + others + 1 }
      try await store.send("c")
      #expect(await store.state.entries.suffix(2) == ["a", "c"])
      #expect(told.all == [])
    }
    await store.shutdown()
  }

  @Test("a store recognizes its own entries, also if they are repeated, early, or after a decision")
  func own() async throws {
    let log = MemoryLog()
    let store = try await ledger(UnreliableLog(log, seed: 7), options: .quick)
    for number in 0..<100 { store.dispatch("\(number)") }
    try await store.send("last")
    #expect(await store.state.entries == (0..<100).map { "\($0)" } + ["last"])
    await store.shutdown()
  }
}
