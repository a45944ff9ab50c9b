import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// A position of one past is never mistaken for a position of another.
@Suite(.timeLimit(.minutes(15))) struct EpochTests {
  @Test("stores are in the latest epoch, whether by replay, by a snapshot or live", arguments: LogPlace.allCases)
  func begun(place: LogPlace) async throws {
    try await place.withLog { log in
      let store = try await ledger(log, options: .once)
      #expect(await store.statistics.log?.epoch == 0)
      try await store.send("a")
      try await store.saveSnapshot()
      #expect(try await log.snapshots?.newest()?.bytes.first == 1)
      var numbers: [UInt64] = []
      for reason in ["restored", "restored once more"] {
        let number = try await log.beginEpoch(reason: reason)
        #expect(number != 0 && !numbers.contains(number))
        numbers.append(number)
        try await store.send(reason)
        #expect(await store.statistics.log?.epoch == number)
      }
      #expect(await store.statistics.log?.skipped == 0)
      let replayed = try await ledger(log, options: .once)
      #expect(await replayed.statistics.log?.epoch == numbers[1])
      await replayed.shutdown()
      try await store.saveSnapshot()
      #expect(try await log.snapshots?.newest()?.bytes.first == 3)
      let begun = try await ledger(log, options: .once)
      #expect(await begun.statistics.log?.epoch == numbers[1])
      #expect(await begun.state.entries == ["a", "restored", "restored once more"])
      await begun.shutdown()
      await store.shutdown()
    }
  }

  @Test("an epoch that was begun by mistake is skipped as any entry")
  func skipped() async throws {
    let log = MemoryLog()
    await #expect(throws: LogError.refused("There is nothing in the log.")) {
      try await log.beginEpoch(reason: "early")
    }
    let writer = try await ledger(log, options: .once)
    try await writer.send("a")
    await writer.shutdown()
    let first = try await log.beginEpoch(reason: "restored")
    try await log.beginEpoch(reason: "a mistake")
    try await log.skip(position: 3, reason: "it was none")
    let store = try await ledger(log, options: .once)
    #expect(await store.statistics.log?.epoch == first)
    await store.shutdown()
  }

  @Test("entries of a store ahead of a restored log stop all stores, until a decision skips them")
  func ahead() async throws {
    let log = MemoryLog()
    let store = try await ledger(log, options: .once)
    try await store.send("a")
    await store.shutdown()
    let seen = LogEntry.Mark(position: 9, chain: 9)
    let header = LogEntry.Header(writer: 7, first: 5, seen: seen, schema: 1)
    log.append(LogEntry.encode(header, actions: [Array(#""lost""#.utf8)])) { _ in }
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    await #expect(throws: StoreError.stopped(.diverged(position: 9))) { try await ledger(log, options: options) }
    #expect(told.all == [.diverged(key: nil, position: 9, entry: 2, states: nil)])
    #expect(try await log.verifyEntries().problems == [.diverged(position: 2, seen: 9)])
    try await log.skip(position: 2, reason: "of one that was ahead of the backup")
    try await log.beginEpoch(reason: "restored")
    #expect(try await log.verifyEntries().problems == [])
    let next = try await ledger(log, options: options)
    try await next.send("b")
    #expect(await next.state.entries == ["a", "b"])
    await next.shutdown()
  }

  @Test("an epoch is read as it was written, and an incomplete one is not", arguments: ["", "caf\u{E9}"])
  func written(reason: String) {
    let epoch = LogEntry.Epoch(number: 7, time: 8, reason: reason)
    let bytes = LogEntry.encode(epoch)
    #expect(LogEntry.decode(bytes) == .epoch(epoch))
    #expect(bytes.starts(with: [0x50, 0x44, 0x58, 2, 4, 7, 0]))
    let standIn = LogEntry.standIn(for: 9, moment: 1)
    #expect(LogEntry.decode(standIn) == .standIn(9, moment: 1))
    for whole in [bytes, standIn] {
      for count in whole.indices { #expect(LogEntry.decode(Array(whole.prefix(count))) == .unreadable) }
      #expect(LogEntry.decode(whole + [0]) == .unreadable)
    }
    var newer = bytes
    newer[4] = 7
    #expect(LogEntry.decode(newer) == .newerFormat)
  }
}
