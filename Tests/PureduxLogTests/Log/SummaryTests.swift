import Foundation
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Summaries of states, for lists of trees.
@Suite(.timeLimit(.minutes(15))) struct SummaryTests {
  private struct Brief: Codable, Equatable, Sendable {
    /// The number of entries that do not begin with "-".
    var count: Int
    var last: String?

    init(_ ledger: Ledger) {
      let entries = ledger.entries.filter { !$0.hasPrefix("-") }
      (count, last) = (entries.count, entries.last)
    }
  }

  private func store(
    _ log: any OrderedLog, options: LogOptions = .once, clock: any Clock<Duration> = ManualClock(),
    calls: Record<Brief> = Record()
  ) async throws -> LedgerStore {
    try await LedgerStore(
      following: log, initialState: Ledger(),
      options: FollowingOptions(
        log: options, store: StoreOptions(clock: clock), fingerprint: .unchecked,
        summary: { ledger in
          let brief = Brief(ledger)
          calls.add(brief)
          return brief
        })
    ) { ledger, action in
      ledger.entries.append(action)
      if action == "forget" { ledger.entries.removeAll { $0.hasPrefix("secret") } }
    }
  }

  private func kept(_ log: any OrderedLog) async throws -> DecodedSummary<Brief>? {
    guard let kept = try await log.summaries?.kept() else { return nil }
    let value = try JSONDecoder().decode(Brief.self, from: Data(kept.bytes))
    return DecodedSummary(key: kept.key, position: kept.position, value: value)
  }

  private func advance(_ clock: ManualClock, until isReached: () async throws -> Bool) async throws {
    while try await !isReached() {
      clock.advance(by: .seconds(1))
      await Task.yield()
    }
  }

  // MARK: Times of writing

  @Test("after the end of the store and the log's closing, it is that of the last state", arguments: LogPlace.allCases)
  func atTheEnd(place: LogPlace) async throws {
    try await place.withDirectory { open in
      for round in 0..<2 {
        let logs = try await open()
        let store = try await store(logs["tree"])
        for action in ["a", "b", "c"] { try await store.send(action) }
        if round == 0 { await store.shutdown() } else { await store.shutdown(interceptors: .finish(within: .zero)) }
        await logs.close()
        let list = try await all(try await open().summaries(of: Brief.self, prefix: ""))
        #expect(list.map(\.key) == ["tree"] && list.map(\.value.count) == [3 * (round + 1)])
        #expect(list.map(\.position) == [UInt64(3 * (round + 1))])
      }
    }
  }

  @Test("it includes actions on their way at the store's end", arguments: LogPlace.allCases)
  func underWayAtTheEnd(place: LogPlace) async throws {
    try await place.withDirectory { open in
      let logs = try await open()
      let store = try await store(logs["tree"])
      try await store.send("a")
      try await store.saveSnapshot()
      store.dispatch("b")
      await store.shutdown()
      await logs.close()
      let list = try await all(try await open().summaries(of: Brief.self, prefix: ""))
      #expect(list.map(\.value.count) == [2] && list.map(\.position) == [2])
    }
  }

  @Test("another replica's summary of an intermediate state is replaced", arguments: LogPlace.allCases)
  func between(place: LogPlace) async throws {
    try await place.withLog { log in
      let clock = ManualClock()
      let store = try await store(log, clock: clock)
      try await store.send("a")
      try await advance(clock) { try await kept(log)?.position == 1 }
      let bytes = try #require(try await log.summaries?.kept()?.bytes)
      // The store's own summary is the same at 3 as at 1, and another replica's summary of 2 is stored.
      try await store.send("-")
      _ = try await log.summaries?.save([0x30], at: 2)
      try await store.send("-")
      try await advance(clock) { try await log.summaries?.kept()?.position == 3 }
      #expect(try await log.summaries?.kept()?.bytes == bytes)
      await store.shutdown()
    }
  }

  @Test("a store that is released, and not shut down, writes it as well")
  func released() async throws {
    let log = MemoryLog()
    try await store(log).send("a")
    while try await kept(log)?.value.count != 1 { await Task.yield() }
  }

  @Test("a changed summary is written after the interval, and not before", arguments: LogPlace.allCases)
  func afterInterval(place: LogPlace) async throws {
    try await place.withLog { log in
      let clock = ManualClock()
      let calls = Record<Brief>()
      let store = try await store(log, clock: clock, calls: calls)
      for round in 1...3 {
        try await store.send("\(round)")
        #expect(calls.all.count == round - 1)
        #expect(try await kept(log)?.value.count ?? 0 == round - 1)
        try await advance(clock) { try await kept(log)?.value.count == round }
        #expect(try await kept(log)?.position == UInt64(round))
      }
      await store.shutdown()
    }
  }

  @Test("a flood of actions has one summary, computed once", arguments: LogPlace.allCases)
  func flood(place: LogPlace) async throws {
    try await place.withLog { log in
      let (clock, calls) = (ManualClock(), Record<Brief>())
      let store = try await store(log, clock: clock, calls: calls)
      try await withThrowingTaskGroup { tasks in
        for number in 0..<300 { tasks.addTask { try await store.send("\(number)") } }
        try await tasks.waitForAll()
      }
      #expect(calls.all == [])
      try await advance(clock) { try await kept(log)?.value.count == 300 }
      #expect(calls.all.map(\.count) == [300])
      await store.shutdown()
    }
  }

  @Test("an unchanged summary is not written before the store ends, and not then if nothing was applied")
  func unchanged() async throws {
    let (log, clock, calls) = (WatchedSummaries(), ManualClock(), Record<Brief>())
    let first = try await store(log, clock: clock, calls: calls)
    try await first.send("a")
    try await advance(clock) { log.saves.all.count == 1 }
    try await first.send("- not counted")
    try await advance(clock) { calls.all.count == 2 }
    try await first.send("b")
    try await advance(clock) { log.saves.all.count == 2 }
    #expect(log.saves.all == [1, 3])
    try await first.send("- not counted")
    await first.shutdown()
    // The stored position tells how far the summary holds.
    #expect(log.saves.all == [1, 3, 4])
    let asked = calls.all.count
    let second = try await store(log, calls: calls)
    await calls.untilCount(asked + 1)
    await second.shutdown()
    #expect(log.saves.all == [1, 3, 4])
    #expect(try await kept(log)?.value == Brief(Ledger(entries: ["a", "b"])))
  }

  @Test("a requested snapshot writes it at once", arguments: LogPlace.allCases)
  func withSnapshot(place: LogPlace) async throws {
    try await place.withLog { log in
      let store = try await store(log)
      try await store.send("a")
      try await store.saveSnapshot()
      #expect(try await kept(log)?.value.count == 1)
      await store.shutdown()
    }
  }

  @Test("a different stored summary is replaced when the tree is opened", arguments: LogPlace.allCases)
  func opened(place: LogPlace) async throws {
    try await place.withLog { log in
      let without = try await ledger(log)
      for action in ["a", "b"] { try await without.send(action) }
      await without.shutdown()
      #expect(try await kept(log) == nil)
      let store = try await store(log)
      while try await kept(log)?.value.count != 2 { await Task.yield() }
      await store.shutdown()
      // Another version of the program summarizes the same state differently. If snapshots are ignored, the summarized
      // state may have been wrong.
      for ignoring in [false, true] {
        var options = LogOptions.once
        options.ignoresSnapshots = ignoring
        let next = try await LedgerStore(
          following: log, initialState: Ledger(),
          options: FollowingOptions(
            log: options, store: StoreOptions(clock: ManualClock()), fingerprint: .unchecked,
            summary: { _ in "ignoring: \(ignoring)" })
        ) { $0.entries.append($1) }
        let expected = Array("\"ignoring: \(ignoring)\"".utf8)
        while try await log.summaries?.kept()?.bytes != expected { await Task.yield() }
        await next.shutdown()
      }
    }
  }

  @Test("a store that has been given nothing writes nothing, and makes no tree", arguments: LogPlace.allCases)
  func empty(place: LogPlace) async throws {
    try await place.withDirectory { open in
      let logs = try await open()
      let (clock, calls) = (ManualClock(), Record<Brief>())
      let store = try await store(logs["tree"], clock: clock, calls: calls)
      clock.advance(by: .seconds(10))
      await store.shutdown()
      #expect(calls.all == [])
      await logs.close()
      let again = try await open()
      #expect(try await all(again.keys(prefix: "")) == [])
      #expect(try await all(again.summaries(prefix: "")) == [])
    }
  }

  @Test("every duration is one", arguments: DurationTests.extremes)
  func interval(duration: Duration) async throws {
    let (log, clock) = (MemoryLog(), ManualClock())
    var options = LogOptions.once
    options.summaryInterval = duration
    let store = try await store(log, options: options, clock: clock)
    try await store.send("a")
    #expect(try await kept(log) == nil)
    if duration < .seconds(1) { try await advance(clock) { try await kept(log) != nil } }
    await store.shutdown()
    #expect(try await kept(log)?.value.count == 1)
  }

  // MARK: Precedence

  @Test("a lagging replica's summary does not replace a newer one")
  func lag() async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let late = try await store(log)
    try await late.send("a")
    log.cut(.deliveries)
    let store = try await store(memory)
    for action in ["b", "c"] { try await store.send(action) }
    try await store.saveSnapshot()
    #expect(try await kept(memory)?.value.count == 3)
    try await late.saveSnapshot()
    await late.shutdown()
    #expect(try await kept(memory)?.value.count == 3)
    await store.shutdown()
  }

  @Test("a process that has died writes none")
  func died() async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let store = try await store(log)
    try await store.send("a")
    await log.kill(store)
    #expect(try await kept(memory) == nil)
    let next = try await self.store(memory)
    while try await kept(memory)?.value.count != 1 { await Task.yield() }
    await next.shutdown()
  }

  @Test("a store that has stopped writes none", arguments: LogPlace.allCases)
  func stopped(place: LogPlace) async throws {
    try await place.withDirectory { open in
      let logs = try await open()
      let (log, clock) = (logs["tree"], ManualClock())
      let store = try await store(log, clock: clock)
      try await store.send("a")
      try await advance(clock) { try await kept(log)?.value.count == 1 }
      try await store.send("b")
      _ = try await log.append([1, 2, 3])
      for await phase in store.logPhases() { if case .stopped = phase { break } }
      clock.advance(by: .seconds(10))
      await store.shutdown()
      await logs.close()
      let again = try await open()
      #expect(try await kept(again["tree"])?.value.count == 1)
      var options = LogOptions.once
      options.opensWhereStopped = true
      let opened = try await self.store(again["tree"], options: options)
      #expect(await opened.state.entries == ["a", "b"])
      await opened.shutdown()
      await again.close()
      #expect(try await kept(try await open()["tree"])?.value.count == 1)
    }
  }

  @Test("that of a removed tree is deleted, even if its store has more to write", arguments: LogPlace.allCases)
  func removed(place: LogPlace) async throws {
    try await place.withDirectory { open in
      let logs = try await open()
      let (clock, calls) = (ManualClock(), Record<Brief>())
      let store = try await store(logs["tree"], clock: clock, calls: calls)
      try await store.send("a")
      try await store.saveSnapshot()
      try await store.send("b")
      try await logs.remove("tree")
      #expect(try await all(logs.summaries(prefix: "")) == [])
      clock.advance(by: .seconds(10))
      await store.shutdown()
      await logs.close()
      let again = try await open()
      #expect(try await all(again.summaries(prefix: "")) == [])
      #expect(try await all(again.keys(prefix: "")) == [])
    }
  }

  @Test("after an erasure it is at once that of the state without the erased data", arguments: LogPlace.allCases)
  func erased(place: LogPlace) async throws {
    try await place.withLog { log in
      let store = try await store(log)
      for action in ["a", "secret"] { try await store.send(action) }
      try await store.saveSnapshot()
      #expect(try await kept(log)?.value.last == "secret")
      try await store.send("forget")
      #expect(try await store.eraseLog() == 3)
      #expect(try await kept(log)?.value == Brief(Ledger(entries: ["a", "forget"])))
      // An unchanged summary stays.
      #expect(try await store.eraseLog() >= 3)
      #expect(try await kept(log)?.value == Brief(Ledger(entries: ["a", "forget"])))
      #expect(try await kept(log)?.position ?? 0 >= 3)
      await store.shutdown()
    }
  }

  @Test(
    "no byte of an older one is left in the files, whether the store that erases has one or not", arguments: [0, 1])
  func erasedFiles(round: Int) async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let first = try await RootStore<String, String>(
      following: log["tree"], initialState: "",
      options: FollowingOptions(log: .once, store: StoreOptions(clock: ManualClock()), summary: { $0 })
    ) { $0 = $1 }
    try await first.send("secret")
    try await first.saveSnapshot()
    let kept = try await log["tree"].summaries?.kept()
    #expect(kept.map { String(decoding: $0.bytes, as: UTF8.self) } == "\"secret\"")
    try Data("secret".utf8).write(to: URL(fileURLWithPath: directory.path + "/=tree/summary.new"))
    try await first.send("harmless")
    let second = try await RootStore<String, String>(
      following: log["tree"], initialState: "", options: FollowingOptions(log: .once)
    ) {
      $0 = $1
    }
    try await (round == 0 ? first : second).eraseLog()
    #expect(try !holds(directory.path, "secret"))
    let left = try await log["tree"].summaries?.kept()
    #expect(left.map { String(decoding: $0.bytes, as: UTF8.self) } == (round == 0 ? "\"harmless\"" : nil))
    await first.shutdown()
    await second.shutdown()
    await log.close()
  }

  // MARK: Failures

  @Test("a temporary failure is retried, and a permanent one is reported once")
  func failing() async throws {
    let (log, clock, told) = (WatchedSummaries(), ManualClock(), Record<LogReport>())
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let store = try await store(log, options: options, clock: clock)
    log.failure.withLock { $0 = .unavailable("Away.") }
    try await store.send("a")
    try await advance(clock) { log.saves.all.count == 3 }
    #expect(told.all == [])
    log.failure.withLock { $0 = nil }
    try await advance(clock) { try await kept(log)?.value.count == 1 }
    log.failure.withLock { $0 = .refused("No.") }
    for _ in 0..<2 {
      let before = log.saves.all.count
      try await store.send("b")
      try await advance(clock) { log.saves.all.count > before }
    }
    await store.shutdown()
    #expect(told.all == [.summariesFail(key: nil, .refused("No."))])
    #expect(
      told.all.map(\.description) == [
        "The summary of a log cannot be written, so that lists show an older one, or none: No."
      ])
  }

  @Test("a summary that cannot be encoded or is too large is reported, and so is a log without summaries")
  func refused() async throws {
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let summaries: [@Sendable (Int) -> any Encodable & Sendable] = [
      { _ in Double.nan }, { _ in String(repeating: "a", count: LogSummary.byteLimit) }, { $0 },
    ]
    for (number, summary) in summaries.enumerated() {
      let (log, clock) = (WatchedSummaries(keepsSummaries: number < 2), ManualClock())
      let store = try await RootStore<Int, Int>(
        following: log, initialState: 0,
        options: FollowingOptions(
          log: options, store: StoreOptions(clock: clock), fingerprint: .unchecked, summary: summary)
      ) { $0 += $1 }
      try await store.send(1)
      try await advance(clock) { told.all.count == number + 1 }
      try await store.saveSnapshot()
      await store.shutdown()
      #expect(try await log.kept() == nil)
    }
    let texts = told.all.map(\.description)
    #expect(texts.count == 3 && texts[0].contains("It cannot be encoded"))
    #expect(texts[1].hasSuffix("It has 65538 bytes.") && texts[2].hasSuffix("The log keeps no summaries."))
  }

  // MARK: Lists

  @Test("they are listed by their keys' prefix, as values, and an undecodable one is named")
  func list() async throws {
    let logs = MemoryLogs()
    for key in ["boards/1", "boards/2", "others/1"] {
      let store = try await store(logs[key])
      try await store.send(key)
      await store.shutdown()
    }
    let boards = try await all(logs.summaries(of: Brief.self, prefix: "boards/"))
    #expect(boards.map(\.key) == ["boards/1", "boards/2"] && boards.map(\.value.last) == ["boards/1", "boards/2"])
    #expect(boards.map(\.position) == [1, 1])
    var found: [String] = []
    _ = try await logs["boards/2"].summaries?.save(Array("{}".utf8), at: 1)
    let error = await #expect(throws: UndecodableSummary.self) {
      for try await board in logs.summaries(of: Brief.self, prefix: "") { found.append(board.key) }
    }
    #expect(found == ["boards/1"] && error?.summary.key == "boards/2")
    #expect(
      error?.description
        == "The summary of the log \"boards/2\" at position 1 cannot be decoded: no value for count.")
    // Callers that want to continue take the bytes.
    #expect(try await all(logs.summaries(prefix: "")).map(\.bytes.count).filter { $0 == 2 } == [2])
  }

  @Test("summaries of files are listed in order, however few are read at a time", arguments: [1, 2, 7, 40])
  func batches(batch: Int) async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let keys = (0..<20).map { "tree \($0)" }.sorted()
    for (number, key) in keys.enumerated() {
      _ = try await log[key].append([1])
      if number % 3 != 1 { _ = try await log[key].summaries?.save(Array(key.utf8), at: 1) }
    }
    let expected = keys.enumerated().filter { $0.offset % 3 != 1 }.map(\.element)
    let listed = try await all(log.summaries(prefix: "", batch: batch))
    #expect(listed.map(\.key) == expected && listed.map(\.bytes) == expected.map { Array($0.utf8) })
    await log.close()
  }

  @Test("a file that cannot be read is none, and written over; one of a newer version is left as it is")
  func files() async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let path = URL(fileURLWithPath: directory.path + "/=tree/summary")
    for key in ["tree", "beside"] {
      let store = try await store(log[key])
      try await store.send(key)
      try await store.saveSnapshot()
      await store.shutdown()
    }
    let whole = try Data(contentsOf: path)
    for count in [0, 7, whole.count - 1] {
      try whole.prefix(count).write(to: path)
      #expect(try await all(log.summaries(prefix: "")).map(\.key) == ["beside"])
      let store = try await store(log["tree"])
      while try await kept(log["tree"]) == nil { await Task.yield() }
      await store.shutdown()
    }
    // Another tree's summary is not accepted.
    try Data(contentsOf: URL(fileURLWithPath: directory.path + "/=beside/summary")).write(to: path)
    #expect(try await all(log.summaries(prefix: "")).map(\.key) == ["beside"])
    #expect(try await kept(log["tree"]) == nil)
    var newer = whole
    newer[7] += 1
    try newer.write(to: path)
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let store = try await store(log["tree"], options: options)
    await told.untilCount(1)
    await store.shutdown()
    await #expect(throws: LogError.self) { try await all(log.summaries(prefix: "")) }
    await log.close()
    #expect(try Data(contentsOf: path) == newer)
    guard case .summariesFail("tree"?, .damaged(_, let text)) = told.all[0] else {
      Issue.record("\(told.all)")
      return
    }
    #expect(text.hasSuffix("was written by a newer version of this library, which is to read it."))
  }

  @Test("logs that keep none say so")
  func none() async throws {
    await #expect(throws: LogError.refused("The logs keep no summaries.")) {
      try await all(ListlessLogs().summaries(prefix: ""))
    }
  }
}

/// Logs without lists of summaries.
private struct ListlessLogs: LogDirectory {
  subscript(key: String) -> any OrderedLog { WatchedSummaries(keepsSummaries: false) }
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { AsyncThrowingStream { nil } }
  func remove(_ key: String) async throws(LogError) {}
  func close() async {}
}

/// A log in memory that records saved summaries, and can refuse them.
private final class WatchedSummaries: OrderedLog, SummaryStore {
  let memory = MemoryLog()
  let saves = Record<UInt64>()
  let failure = LockedValue<LogError?>(nil)
  private let keepsSummaries: Bool

  init(keepsSummaries: Bool = true) { self.keepsSummaries = keepsSummaries }

  var snapshots: (any SnapshotStore)? { memory.snapshots }
  var summaries: (any SummaryStore)? { keepsSummaries ? self : nil }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    memory.append(entry, outcome: outcome)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    memory.records(after: position)
  }

  func head() async throws(LogError) -> UInt64 { try await memory.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await memory.truncate(through: position) }
  func kept() async throws(LogError) -> LogSummary? { try await memory.kept() }

  func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
    saves.add(position)
    if let failure = failure.withLock({ $0 }) { return _ = Task { outcome(.failure(failure)) } }
    memory.save(bytes, at: position, outcome: outcome)
  }
}
