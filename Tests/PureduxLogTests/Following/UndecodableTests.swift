import Foundation
import Puredux
import PureduxLogTesting
import Testing

@testable import PureduxLog

/// Entries and snapshots that a program cannot decode, and the decisions about them (G11).
@Suite(.timeLimit(.minutes(15))) struct UndecodableTests {
  /// The first version of a program, and the next one, whose bids have one more member.
  private struct Bid: Codable, Sendable { var amount: Int }
  private struct NextBid: Codable, Sendable {
    var amount: Int
    var currency = "EUR"
  }
  private struct Auction: Codable, Equatable, Sendable { var amounts: [Int] = [] }
  private struct NextAuction: Codable, Equatable, Sendable {
    var amounts: [Int] = []
    var seller = "nobody"
  }

  private typealias First = RootStore<Auction, Bid>

  private static func first(
    _ log: any OrderedLog, _ options: LogOptions = .once, history: History<Auction, Bid>? = nil
  )
    async throws -> First
  {
    try await RootStore(
      following: log, initialState: Auction(),
      options: FollowingOptions(log: options, fingerprint: .unchecked, history: history)
    ) {
      $0.amounts.append($1.amount)
    }
  }

  private static func next(_ log: any OrderedLog, _ options: LogOptions = .once) async throws
    -> RootStore<Auction, NextBid>
  {
    try await RootStore(
      following: log, initialState: Auction(), options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      $0.amounts.append($1.amount)
    }
  }

  /// Writes bids, each an entry of its own.
  private static func bid(_ amounts: ClosedRange<Int>, in log: any OrderedLog) async throws {
    let store = try await first(log)
    for amount in amounts { try await store.send(Bid(amount: amount)) }
    await store.shutdown()
  }

  @Test(
    "a member that was added stops the next version at the first entry, and the version before has everything still",
    arguments: LogPlace.allCases)
  func memberAdded(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...3, in: log)
      let told = Told()
      var options = LogOptions.once
      options.reporting = { told.add($0) }
      (options.snapshotBytes, options.truncatesBehindSnapshots) = (1, true)
      await #expect(throws: StoreError.stopped(.undecodable(position: 1))) { try await Self.next(log, options) }
      let text = "no value for currency"
      #expect(told.all == [.undecodable(key: log.name, position: 1, isSnapshot: false, text)])
      #expect(told.all[0].description.contains("at position 1 cannot be decoded: \(text)"))
      #expect(try await log.snapshots?.newest() == nil)
      let before = try await Self.first(log)
      #expect(await before.state.amounts == [1, 2, 3])
      try await before.send(Bid(amount: 4))
      await before.shutdown()
    }
  }

  @Test("a store that stops while it is opened can be opened to be read up to there", arguments: LogPlace.allCases)
  func readUpToThere(place: LogPlace) async throws {
    try await place.withLog { log in
      let writer = try await Self.next(log)
      for amount in 1...2 { try await writer.send(NextBid(amount: amount)) }
      await writer.shutdown()
      try await Self.bid(3...4, in: log)
      var options = LogOptions.once
      (options.opensWhereStopped, options.snapshotBytes, options.truncatesBehindSnapshots) = (true, 1, true)
      let effects = Told()
      let store = try await RootStore<Auction, NextBid>(
        following: log, initialState: Auction(), options: FollowingOptions(log: options, fingerprint: .unchecked),
        interceptors: .effects(ofState: .while({ $0.amounts.count > 0 }) { .run { _ in effects.note() } })
      ) { $0.amounts.append($1.amount) }
      #expect(await store.state.amounts == [1, 2])
      #expect(await store.statistics.log?.phase == .stopped(.undecodable(position: 3)))
      #expect(store.dispatch(NextBid(amount: 5)) == .stopped)
      await #expect(throws: StoreError.stopped(.undecodable(position: 3))) { try await store.send(NextBid(amount: 5)) }
      await store.settled()
      await store.shutdown()
      #expect(effects.count == 0)
      #expect(try await log.snapshots?.newest()?.position ?? 0 <= 2)
      #expect(try await Self.first(log).state.amounts == [1, 2, 3, 4])
    }
  }

  @Test(
    "an entry with a decision to skip it is skipped by every opened store, even if the store can decode it",
    arguments: LogPlace.allCases)
  func skipped(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...1, in: log)
      try await Self.bid(2...3, in: log)
      let decision = try await log.skip(position: 2, reason: "a test")
      #expect(decision == 4)
      try await Self.bid(4...4, in: log)
      let history = History<Auction, Bid>(limit: 10)
      let store = try await Self.first(log, history: history)
      #expect(await store.state.amounts == [1, 3, 4])
      #expect(history.entries.map(\.action.amount) == [1, 3, 4])
      #expect(await store.statistics.log?.skipped == 1)
      try await store.send(Bid(amount: 5))
      await store.shutdown()
      for position in [1, 3, 5, 6] as [UInt64] { try await log.skip(position: position, reason: "the others, too") }
      let next = try await Self.next(log)
      #expect(await next.state.amounts == [])
      try await next.send(NextBid(amount: 6))
      await next.shutdown()
      // The first version reads the next version's writes.
      #expect(try await Self.first(log).state.amounts == [6])
    }
  }

  @Test("an entry with two decisions is skipped, also after a snapshot", arguments: LogPlace.allCases)
  func twice(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...3, in: log)
      try await log.skip(position: 2, reason: "a test")
      let store = try await Self.first(log)
      #expect(try await store.saveSnapshot() == 4)
      await store.shutdown()
      try await log.skip(position: 2, reason: "nobody had told")
      #expect(try await Self.first(log).state.amounts == [1, 3])
    }
  }

  @Test("a store that skips undecodable entries still stops at a decision about an applied entry")
  func both() async throws {
    let log = MemoryLog()
    try await Self.bid(1...1, in: log)
    let store = try await Self.first(log)
    let undecodable = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 1)
    log.append(LogEntry.encode(undecodable, actions: [[1, 2, 3]])) { _ in }
    for position in [1, 2] as [UInt64] {
      log.append(LogEntry.encode(LogEntry.Decision(skipped: position, time: 0, reason: "a test"))) { _ in }
    }
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    // The entries that the log had when the store looked determine which of the two comes first.
    let stop = await store.statistics.log?.phase
    #expect([.stopped(.diverged(position: 1)), .stopped(.undecodable(position: 2))].contains(stop))
    #expect(try await Self.first(log).state.amounts == [])
  }

  @Test("an entry of a newer schema is skipped by a decision, as for a return to the previous version")
  func newerSchema() async throws {
    let log = MemoryLog()
    try await Self.bid(1...1, in: log)
    let newer = try await RootStore<Auction, Bid>(
      following: log, initialState: Auction(), schema: 2, options: FollowingOptions(log: .once)
    ) {
      $0.amounts.append($1.amount)
    }
    for amount in 2...3 { try await newer.send(Bid(amount: amount)) }
    await newer.shutdown()
    await #expect(throws: StoreError.stopped(.newerSchema(position: 2))) { try await Self.first(log) }
    try await log.skip(position: 2, reason: "back to the first version")
    await #expect(throws: StoreError.stopped(.newerSchema(position: 3))) { try await Self.first(log) }
    try await log.skip(position: 3, reason: "back to the first version")
    try await Self.bid(4...4, in: log)
    #expect(try await Self.first(log).state.amounts == [1, 4])
  }

  @Test("an entry that the log repeats stops no store if it was skipped or has been applied")
  func repeated() async throws {
    let log = MemoryLog()
    try await Self.bid(1...1, in: log)
    try await Self.bid(2...2, in: log)
    var bytes: [[UInt8]] = []
    for try await records in log.records(after: 0) {
      bytes += records.map(\.bytes)
      if bytes.count == 2 { break }
    }
    for entry in bytes { log.append(entry) { _ in } }
    try await log.skip(position: 1, reason: "a mistake")
    try await log.skip(position: 2, reason: "a mistake")
    let store = try await Self.next(log)
    try await store.send(NextBid(amount: 3))
    #expect(await store.state.amounts == [3])
    #expect(await store.statistics.log?.skipped == 2)
    await store.shutdown()
  }

  @Test("a decision needs an entry at its position", arguments: LogPlace.allCases)
  func nothingToSkip(place: LogPlace) async throws {
    try await place.withLog { log in
      await #expect(throws: LogError.self) { try await log.skip(position: 1, reason: "") }
      try await Self.bid(1...2, in: log)
      for position in [0, 3, .max] as [UInt64] {
        await #expect(throws: LogError.refused("There is no entry at position \(position).")) {
          try await log.skip(position: position, reason: "")
        }
      }
      #expect(try await log.head() == 2)
    }
  }

  @Test(
    "a store that has applied a skipped entry stops; opened again it has not, and reports its history and phases once",
    arguments: LogPlace.allCases)
  func decidedLater(place: LogPlace) async throws {
    try await place.withLog { log in
      let told = Told()
      var options = LogOptions.once
      options.reporting = { told.add($0) }
      let store = try await Self.first(log, options)
      for amount in 1...3 { try await store.send(Bid(amount: amount)) }
      try await log.skip(position: 2, reason: "a mistake")
      for await phase in store.logPhases() { if case .stopped(.diverged(position: 2)) = phase { break } }
      #expect(told.all == [.skippedElsewhere(key: log.name, position: 2, by: 4)])
      #expect(await store.state.amounts == [1, 2, 3])
      await store.shutdown()
      let history = History<Auction, Bid>(limit: 10)
      let phases = Told()
      let again = try await RootStore<Auction, Bid>(
        following: log, initialState: Auction(),
        options: FollowingOptions(log: .once, onPhase: { if $0 == .ended { phases.note() } }, history: history)
      ) { $0.amounts.append($1.amount) }
      #expect(await again.state.amounts == [1, 3])
      #expect(history.entries.map(\.action.amount) == [1, 3])
      #expect(phases.count == 0)
      try await again.send(Bid(amount: 4))
      #expect(await again.state.amounts == [1, 3, 4])
      await again.shutdown()
      #expect(phases.count == 1)
    }
  }

  @Test(
    "a skipped entry in a snapshot stops the opening, until the snapshot is ignored",
    arguments: LogPlace.allCases)
  func decidedBehindSnapshot(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...3, in: log)
      var options = LogOptions.once
      options.ignoresSnapshots = true
      await (try Self.first(log, options)).shutdown()
      #expect(try await log.snapshots?.newest()?.position == 3)
      try await log.skip(position: 2, reason: "a mistake")
      await #expect(throws: StoreError.stopped(.diverged(position: 2))) { try await Self.first(log) }
      let store = try await Self.first(log, options)
      #expect(await store.state.amounts == [1, 3])
      await store.shutdown()
      #expect(try await Self.first(log).state.amounts == [1, 3])
    }
  }

  @Test(
    "a store that is behind continues past an undecodable entry with a later decision, without a snapshot in between")
  func behind() async throws {
    let log = StepwiseLog()
    var options = LogOptions.once
    options.snapshotBytes = 1
    let store = try await Self.next(log, options)
    log.holding.hold()
    try await Self.bid(2...2, in: log.memory)
    #expect(store.dispatch(NextBid(amount: 3)) == .enqueued)
    // The store has not seen the first entry when it writes the second.
    while try await log.head() < 2 { await Task.yield() }
    try await log.memory.skip(position: 1, reason: "a mistake")
    log.holding.release()
    for await auction in store.states() where auction.amounts == [3] { break }
    try await store.send(NextBid(amount: 4))
    #expect(await store.state.amounts == [3, 4])
    await store.shutdown()
    #expect(log.saved.allSatisfy { $0 >= 3 })
    let again = try await Self.next(log.memory)
    #expect(await again.state.amounts == [3, 4])
    await again.shutdown()
    // A store that is opened while the decision arrives learns of it, and saves no earlier snapshot, either.
    log.oldHead.withLock { $0 = 2 }
    options.ignoresSnapshots = true
    let opened = try await Self.next(log, options)
    #expect(await opened.state.amounts.first == 3)
    await opened.shutdown()
    #expect(log.saved.allSatisfy { $0 >= 3 })
    #expect(try await Self.next(log.memory).state.amounts == [3, 4])
  }

  @Test(
    "an undecodable snapshot stops the next version, and is kept; a newer one is reported as newer",
    arguments: LogPlace.allCases)
  func snapshot(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...3, in: log)
      var options = LogOptions.once
      options.ignoresSnapshots = true
      await (try Self.first(log, options)).shutdown()
      let kept = try await log.snapshots?.newest()
      let told = Told()
      func next(_ options: LogOptions) async throws -> RootStore<NextAuction, Bid> {
        try await RootStore(
          following: log, initialState: NextAuction(), options: FollowingOptions(log: options, fingerprint: .unchecked)
        ) {
          $0.amounts.append($1.amount)
        }
      }
      options.ignoresSnapshots = false
      options.reporting = { told.add($0) }
      await #expect(throws: StoreError.stopped(.undecodable(position: 3))) { try await next(options) }
      #expect(told.all == [.undecodable(key: log.name, position: 3, isSnapshot: true, "no value for seller")])
      #expect(try await log.snapshots?.newest() == kept)
      // The whole log still exists, and is replayed.
      options.ignoresSnapshots = true
      let store = try await next(options)
      #expect(await store.state == NextAuction(amounts: [1, 2, 3]))
      await store.shutdown()
      // The first version reads that snapshot, which has a member that it does not know.
      #expect(try await Self.first(log).state.amounts == [1, 2, 3])
      let newer = try await RootStore<Auction, Bid>(
        following: log, initialState: Auction(), schema: 2,
        options: FollowingOptions(log: options, fingerprint: .unchecked)
      ) {
        $0.amounts.append($1.amount)
      }
      await newer.shutdown()
      var first = LogOptions.once
      first.reporting = { told.add($0) }
      await #expect(throws: StoreError.stopped(.newerSchema(position: 3))) { try await Self.first(log, first) }
      #expect(told.all.last == .stoppedAs(key: log.name, .newerSchema(position: 3)))
    }
  }

  @Test(
    "an undecodable state in a truncated log is reported with that fact", arguments: LogPlace.allCases)
  func truncatedBehind(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...3, in: log)
      var options = LogOptions.once
      options.ignoresSnapshots = true
      await (try Self.first(log, options)).shutdown()
      try await log.truncate(through: 3)
      await #expect(throws: StoreError.stopped(.undecodable(position: 3))) {
        try await RootStore<NextAuction, Bid>(
          following: log, initialState: NextAuction(), options: FollowingOptions(log: .once)
        ) {
          $0.amounts.append($1.amount)
        }
      }
    }
  }

  @Test("bytes that are no entry stop a store, until they are skipped", arguments: LogPlace.allCases)
  func noEntry(place: LogPlace) async throws {
    try await place.withLog { log in
      try await Self.bid(1...1, in: log)
      let written = Told()
      log.append([1, 2, 3]) { _ in written.note() }
      await #expect(throws: StoreError.stopped(.undecodable(position: 2))) { try await Self.first(log) }
      try await log.skip(position: 2, reason: "none of ours")
      let store = try await Self.first(log)
      try await store.send(Bid(amount: 2))
      #expect(await store.state.amounts == [1, 2])
      #expect(await store.statistics.log?.skipped == 1)
      await store.shutdown()
    }
  }
}

private final class Told: Sendable {
  private let reports = LockedValue<[LogReport]>([])
  private let notes = LockedValue(0)

  var all: [LogReport] { reports.withLock { $0 } }
  var count: Int { notes.withLock { $0 } }
  func add(_ report: LogReport) { reports.withLock { $0.append(report) } }
  func note() { notes.withLock { $0 += 1 } }
}

/// A log that delivers one entry at a time, and none while it is held, and records the saved snapshots.
private final class StepwiseLog: LogAround, SnapshotStore {
  let memory = MemoryLog()
  var log: any OrderedLog { memory }
  let holding = RecordHold()
  private let positions = LockedValue<[UInt64]>([])
  /// The position that it returns once in place of its head.
  let oldHead = LockedValue<UInt64?>(nil)

  var saved: [UInt64] { positions.withLock { $0 } }
  var snapshots: (any SnapshotStore)? { self }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    holding.records(log, after: position, singly: true)
  }

  func head() async throws(LogError) -> UInt64 {
    if let old = oldHead.withLock({ $0.take() }) { return old }
    return try await log.head()
  }

  func newest() async throws(LogError) -> LogSnapshot? { try await memory.newest() }

  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    positions.withLock { $0.append(snapshot.position) }
    try await memory.save(snapshot)
  }

  func replace(with snapshot: LogSnapshot) async throws(LogError) {
    positions.withLock { $0.append(snapshot.position) }
    try await memory.replace(with: snapshot)
  }
}
