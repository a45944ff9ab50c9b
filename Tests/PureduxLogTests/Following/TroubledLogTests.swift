import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// A store whose log is away, refuses entries, or has lost some.
@Suite(.timeLimit(.minutes(15))) struct TroubledLogTests {
  // MARK: Ends while the log is away

  @Test("a shutdown that lets effects finish keeps its limit while the log is away", arguments: [false, true])
  func finishWithoutLog(hasEffects: Bool) async throws {
    let (log, clock) = (GatedLog(), ManualClock())
    var options = LogOptions.quick
    options.endingLimit = .seconds(10)
    let store = try await ledger(log, options: options, clock: clock)
    if hasEffects {
      let started = Gate()
      store.interceptActions { action, _ in
        started.open()
        await untilCancelled()
      }
      await log.open()
      try await store.send("working")
      await started.wait()
      // Wakes the watcher of the committed action.
      clock.advance(by: .seconds(1))
      await log.hold()
    }
    let sending = Task { try await store.send("lost") }
    await log.untilHeld(hasEffects ? 2 : 1)
    let ending = Task { await store.shutdown(interceptors: .finish(within: .seconds(5)), clock: clock) }
    // The sleepers are the watcher and the limit of the shutdown, and then the watcher and the limit of the end.
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(5))
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(10))
    await ending.value
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    #expect(await store.statistics.log?.phase == .ended)
  }

  @Test("a repeated shutdown does not restart the limit, and leaves nothing behind")
  func shutdownTwice() async throws {
    let (log, clock) = (GatedLog(), ManualClock())
    let store = try await ledger(log, clock: clock)
    store.dispatch("a")
    await log.untilHeld(1)
    let ending = Task { await store.shutdown() }
    // The sleepers are the watcher and the limit.
    await clock.untilAsleep(2)
    let others = (0..<3).map { _ in Task { await store.shutdown() } }
    for _ in 0..<10 { _ = await store.statistics }
    let sleeps = clock.sleepCount
    await log.open()
    await ending.value
    for other in others { await other.value }
    #expect(sleeps == 2)
    // The sleepers are cancelled.
    while clock.nextDeadline != nil { await Task.yield() }
  }

  @Test("an opening whose log becomes unavailable during the reading fails after its limit")
  func goneWhileOpening() async throws {
    let (log, clock) = (UndeliveringLog(headPosition: 3), ManualClock())
    log.breaksOff.withLock { $0 = true }
    var options = LogOptions.quick
    options.openingLimit = .milliseconds(12)
    let phases = Record<LogStatistics.Phase>()
    let opening = Task { [options] in
      try await ledger(log, options: options, clock: clock, onPhase: { phases.add($0) })
    }
    // Each attempt regularly asks whether the log is back.
    while phases.all.last != .ended {
      clock.advance(by: .milliseconds(5))
      await Task.yield()
    }
    await #expect(throws: LogError.unavailable("It broke off.")) { _ = try await opening.value }
    #expect(log.followed.all.count > 1)
    #expect(phases.all.prefix(2) == [.recovering(0, of: 3), .waiting(.unavailable)])
  }

  @Test("a child's shutdown waits for the log, and ends with the root's")
  func childWithoutLog() async throws {
    let (log, clock) = (GatedLog(), ManualClock())
    let store = try await ledger(log, clock: clock)
    let child = store.childStore(initialState: 0) { count, _ in count += 1 }
    child.dispatch("a")
    await log.untilHeld(1)
    let order = Record<String>()
    let ending = Task {
      await child.shutdown()
      order.add("child")
    }
    while child.dispatch("late") != .terminated { await Task.yield() }
    // Waits until the tree has performed the requests that follow the child's end.
    _ = await store.statistics
    order.add("closed")
    let closing = Task { await store.shutdown() }
    await clock.untilAsleep(2)
    clock.advance(by: LogOptions.quick.endingLimit)
    await closing.value
    await ending.value
    #expect(order.all == ["closed", "child"])
  }

  @Test("after its end, a store gives the log none of the actions that waited")
  func nothingAfterTheEnd() async throws {
    let (gate, clock) = (GatedLog(), ManualClock())
    let log = AnsweringLog(gate)
    var options = LogOptions.once
    options.actionsPerEntry = 1
    let store = try await ledger(log, options: options, clock: clock)
    for number in 0..<10 { store.dispatch("\(number)") }
    await gate.untilHeld(options.entriesUnderWay)
    let ending = Task { await store.shutdown() }
    // The sleepers are the watcher and the limit.
    await clock.untilAsleep(2)
    clock.advance(by: options.endingLimit)
    await ending.value
    await gate.open()
    await log.answered.untilCount(options.entriesUnderWay)
    #expect(try await gate.head() == UInt64(options.entriesUnderWay))
  }

  // MARK: Refused

  @Test("an action that the log refuses is rejected, and later actions are committed once, in order")
  func refused() async throws {
    let memory = MemoryLog()
    let log = RefusingLog(memory)
    let store = try await ledger(log)
    let other = try await ledger(memory)
    for number in 0..<10 { store.dispatch("\(number)") }
    let sending = Task { try await store.send(String(repeating: "x", count: 500)) }
    await #expect(throws: StoreError.rejected(reason: "The log does not take the action.")) { try await sending.value }
    for number in 10..<20 { store.dispatch("\(number)") }
    try await store.send("20")
    #expect(await store.state.entries == (0...20).map { "\($0)" })
    #expect(await other.state { $0.entries.count == 21 }.entries == (0...20).map { "\($0)" })
    #expect(await store.statistics.log?.pendingBytes == 0)
    #expect(await store.statistics.log?.phase == .following)
  }

  @Test(
    "with random refusals and other faults of the log, the other actions are committed once, in order",
    arguments: (0..<8).map { _ in UInt64.random(in: 0 ... .max) })
  func refusedAmongOthers(seed: UInt64) async throws {
    let memory = MemoryLog()
    var rates = UnreliableLog.Rates()
    // Every reported failure is a real one, so that each refusal is certain.
    (rates.unacknowledged, rates.overtaken) = (0, 0)
    let store = try await ledger(RefusingLog(UnreliableLog(memory, seed: seed, rates: rates)))
    var random = SeededGenerator(seed: seed)
    var kept: [String] = []
    var refused = 0
    for number in 0..<80 {
      let isLarge = Int.random(in: 0..<8, using: &random) == 0
      let action = "\(number)" + (isLarge ? String(repeating: "x", count: 500) : "")
      if Bool.random(using: &random) {
        store.dispatch(action)
      } else {
        do {
          try await store.send(action)
          #expect(!isLarge, "seed \(seed)")
        } catch StoreError.rejected {
          #expect(isLarge, "seed \(seed)")
        }
      }
      if isLarge { refused += 1 } else { kept.append(action) }
    }
    try await store.send("last")
    #expect(await store.state.entries == kept + ["last"], "seed \(seed)")
    await store.shutdown()
    #expect(await (try ledger(memory)).state.entries == kept + ["last"], "seed \(seed)")
  }

  @Test("an action that may be in the log does not count as refused")
  func notRefused() {
    var outbox = Outbox(limits: Outbox.Limits(actions: 1, entries: 1))
    /// Whether an entry is dropped after these outcomes of its attempts; nil is no outcome.
    func isDropped(after outcomes: [Result<UInt64, LogError>?], patience: Duration = .seconds(1)) -> Bool {
      for outcome in outcomes {
        guard let entry = outbox.next(at: .zero) else { return false }
        switch outcome {
        case .success?: outbox.ended(entry.id, nil, at: .zero)
        case .failure(let error)?: outbox.ended(entry.id, error, at: .zero)
        case nil: break
        }
        outbox.rewind()
        _ = outbox.retry(at: .zero, patience: patience)
      }
      return outbox.dropRefused(at: .zero) != nil
    }
    let (refused, unavailable) = (
      Result<UInt64, LogError>.failure(.refused("")), Result<UInt64, LogError>.failure(.unavailable(""))
    )
    for before in [[.success(1)], [unavailable], [nil], [refused, .success(1)], [refused, nil]]
      as [[Result<UInt64, LogError>?]]
    {
      outbox.append([1], at: .zero)
      #expect(!isDropped(after: before + [refused]), "\(before)")
      outbox.applied(at: .zero)
    }
    // An entry that was refused before, and is on its way again.
    outbox.append([1], at: .zero)
    let first = outbox.next(at: .zero)
    outbox.ended(first?.id ?? 0, .refused(""), at: .zero)
    _ = outbox.retry(at: .zero, patience: .seconds(1))
    _ = outbox.next(at: .zero)
    #expect(!isDropped(after: []))
    outbox.applied(at: .zero)
    // An entry without an earlier attempt.
    outbox.append([1], at: .zero)
    #expect(isDropped(after: [refused]))
    #expect(outbox.isEmpty && outbox.bytes == 0)
  }

  @Test("an entry that the log has stored and delivers late is not rejected if the log refuses its repetition")
  func refusedRepetition() async throws {
    let clock = ManualClock()
    let log = LateLog()
    var options = LogOptions.quick
    options.endingLimit = .seconds(1_000_000)
    let store = try await ledger(log, options: options, clock: clock)
    for number in 0..<4 { store.dispatch("\(number)") }
    let sending = Task { try await store.send("sent") }
    while await store.statistics.log?.pendingActions != 5 { await Task.yield() }
    log.refuses.withLock { $0 = true }
    for _ in 0..<50 {
      await clock.untilAsleep(1)
      clock.advance(by: .milliseconds(50))
      _ = await store.statistics
    }
    log.deliver()
    try await sending.value
    #expect(await store.state.entries == ["0", "1", "2", "3", "sent"])
    #expect(await store.statistics.log?.rejected == 0)
    await store.shutdown()
  }

  // MARK: Snapshots

  @Test("a log that ends before its snapshot is retried for a while, and opened if the snapshot is ignored")
  func beyond() async throws {
    let (log, clock) = (MemoryLog(), ManualClock())
    let writer = try await ledger(log)
    for number in 0..<3 { try await writer.send("\(number)") }
    await writer.shutdown()
    let stored = SnapshotContent(state: Ledger(entries: ["lost"]), fold: Fold.having(committed: 10))
    try await log.save(LogSnapshot(position: 10, bytes: stored.encode(by: .json())))
    var options = LogOptions.quick
    options.openingLimit = .milliseconds(7)
    let opening = Task { [options] in try await ledger(log, options: options, clock: clock) }
    for _ in 0..<2 {
      await clock.untilAsleep(1)
      clock.advance(by: .milliseconds(5))
    }
    await #expect(throws: LogError.self) { try await opening.value }
    options.ignoresSnapshots = true
    let store = try await ledger(log, options: options)
    #expect(await store.state.entries == ["0", "1", "2"])
    // The lost entries may have been as many as the new ones.
    for number in 3..<12 { try await store.send("\(number)") }
    await store.shutdown()
    let again = try await ledger(log)
    #expect(await again.state.entries == (0..<12).map { "\($0)" })
    await again.shutdown()
  }

  /// Calls a closure once while a store is being opened, when the store has read the newest snapshot.
  final class OvertakingLog: LogAround {
    enum Moment: CaseIterable { case head, records }

    let log: any OrderedLog
    private let moment: Moment
    private let overtake: LockedValue<(@Sendable () async throws -> Void)?>

    init(_ log: any OrderedLog, before moment: Moment, _ overtake: @escaping @Sendable () async throws -> Void) {
      self.log = log
      self.moment = moment
      self.overtake = LockedValue(overtake)
    }

    private func pass(_ moment: Moment) async {
      if moment == self.moment, let overtake = overtake.withLock({ $0.take() }) { try? await overtake() }
    }

    func head() async throws(LogError) -> UInt64 {
      await pass(.head)
      return try await log.head()
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      log.records(after: position) { [self] in await pass(.records) }
    }
  }

  @Test(
    "an opening that a truncation overtakes begins again, with the newer snapshot", arguments: LogPlace.allCases,
    OvertakingLog.Moment.allCases)
  func overtaken(place: LogPlace, moment: OvertakingLog.Moment) async throws {
    try await place.withLog { log in
      let writer = try await ledger(log)
      for number in 0..<3 { try await writer.send("\(number)") }
      let (reports, phases) = (Record<LogReport>(), Record<LogStatistics.Phase>())
      var options = LogOptions.quick
      options.openingLimit = .zero
      options.reporting = { reports.add($0) }
      let overtaken = OvertakingLog(log, before: moment) {
        try await writer.send("3")
        try await writer.eraseLog()
        try await writer.send("4")
      }
      let store = try await ledger(overtaken, options: options, onPhase: { phases.add($0) })
      #expect(await store.state.entries == (0..<5).map { "\($0)" })
      #expect(reports.all.isEmpty)
      #expect(!phases.all.contains { if case .stopped = $0 { true } else { false } })
      let again = phases.all.drop { $0 != .ended }.dropFirst()
      #expect(again.last == .following)
      #expect(again.dropLast().allSatisfy { if case .recovering = $0 { true } else { false } })
      await store.shutdown()
      await writer.shutdown()
    }
  }

  @Test("an opening that ignores snapshots replaces the stored one, however new", arguments: [2, 3, 4])
  func replaced(position: UInt64) async throws {
    let log = MemoryLog()
    let writer = try await ledger(log)
    for number in 0..<3 { try await writer.send("\(number)") }
    await writer.shutdown()
    let wrong = SnapshotContent(state: Ledger(entries: ["wrong"]), fold: Fold.having(committed: position))
    try await log.save(LogSnapshot(position: position, bytes: wrong.encode(by: .json())))
    var options = LogOptions.quick
    (options.ignoresSnapshots, options.snapshotBytes) = (true, nil)
    await (try ledger(log, options: options)).shutdown()
    #expect(await (try ledger(log)).state.entries == ["0", "1", "2"])
    // The same holds for an empty log.
    let empty = MemoryLog()
    try await empty.save(LogSnapshot(position: position, bytes: wrong.encode(by: .json())))
    await (try ledger(empty, options: options)).shutdown()
    #expect(await (try ledger(empty)).state.entries == [])
  }

  /// Another replica gets ahead when an opening has replayed the log and looks for a snapshot to replace. From then on,
  /// the opening's entries are held back.
  private final class AheadLog: LogAround, SnapshotStore {
    private let memory: MemoryLog
    let hold = RecordHold()
    let isAhead = Gate()
    let isAway = Flag()
    let refusals = Record<Int>()
    private let getAhead: LockedValue<(@Sendable () async throws -> Void)?>

    init(_ memory: MemoryLog, _ getAhead: @escaping @Sendable () async throws -> Void) {
      self.memory = memory
      self.getAhead = LockedValue(getAhead)
    }

    var log: any OrderedLog { memory }
    var snapshots: (any SnapshotStore)? { self }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      hold.records(memory, after: position)
    }

    func newest() async throws(LogError) -> LogSnapshot? {
      if let getAhead = getAhead.withLock({ $0.take() }) {
        hold.hold()
        try? await getAhead()
        isAhead.open()
      }
      if isAway.isRaised {
        refusals.add(1)
        throw .unavailable("The log is away.")
      }
      return try await memory.newest()
    }

    func save(_ snapshot: LogSnapshot) async throws(LogError) { try await memory.save(snapshot) }
    func replace(with snapshot: LogSnapshot) async throws(LogError) { try await memory.replace(with: snapshot) }
  }

  enum Outcome: CaseIterable, Sendable { case delivered, away, cancelled, limited }

  @Test(
    "an opening that ignores snapshots waits for the entries of a newer one, until its limit or a cancellation",
    arguments: Outcome.allCases)
  func newerThanReplayed(outcome: Outcome) async throws {
    let memory = MemoryLog()
    let writer = try await ledger(memory, options: .once)
    for number in 0..<3 { try await writer.send("\(number)") }
    let wrong = SnapshotContent(state: Ledger(entries: ["wrong"]), fold: Fold.having(committed: 4))
    let newer = LogSnapshot(position: 4, bytes: try wrong.encode(by: .json()))
    let log = AheadLog(memory) {
      try await writer.send("3")
      try await memory.save(newer)
    }
    var options = LogOptions.once
    options.ignoresSnapshots = true
    if outcome == .limited { options.openingLimit = .zero }
    if outcome == .away { log.isAway.raise() }
    let opening = Task { [options] in try await ledger(log, options: options) }
    await log.isAhead.wait()
    switch outcome {
    case .delivered, .away:
      if outcome == .away { await log.refusals.untilCount(3) }
      log.isAway.lower()
      log.hold.release()
      await (try opening.value).shutdown()
      #expect(await (try ledger(memory)).state.entries == ["0", "1", "2", "3"])
    case .cancelled:
      opening.cancel()
      await #expect(throws: CancellationError.self) { _ = try await opening.value }
    case .limited: await #expect(throws: LogError.self) { _ = try await opening.value }
    }
    await writer.shutdown()
  }

  @Test("a stopped replica saves no more snapshots")
  func stoppedSavesNothing() async throws {
    let log = SlowSnapshots()
    var options = LogOptions.once
    options.snapshotBytes = 1
    let store = try await ledger(log, options: options)
    try await store.send("a")
    await log.saving.untilCount(1)
    try await store.send("b")
    let newer = try await RootStore<Ledger, String>(
      following: log.memory, initialState: Ledger(), codings: LogCodings(actions: .json(schema: 2), states: nil),
      options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.entries.append($1) }
    try await newer.send("newer")
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    // The snapshot in progress ends, and "b" has been committed since.
    log.gate.open()
    await log.saved.untilCount(1)
    for _ in 0..<3 { _ = await store.statistics }
    await store.shutdown()
    #expect(log.saving.all == [1])
  }

  /// A state that cannot be encoded while it is NaN.
  private func average(_ log: any OrderedLog, _ options: LogOptions) async throws -> RootStore<Double, Int> {
    try await RootStore(
      following: log, initialState: 0, options: FollowingOptions(log: options, fingerprint: .unchecked)
    ) {
      $0 = $1 == 0 ? .nan : Double($1)
    }
  }

  @Test(
    "a state that cannot be encoded is reported once, counted at each attempt, and saved when it can be encoded again")
  func unencodable() async throws {
    let (log, told) = (MemoryLog(), Record<LogReport>())
    // A late entry is not appended again, because the test counts positions and attempts.
    var options = LogOptions.once
    (options.snapshotBytes, options.truncatesBehindSnapshots) = (1, true)
    options.reporting = { told.add($0) }
    let store = try await average(log, options)
    for round in 1...2 as ClosedRange<UInt64> {
      let before = await store.statistics.log?.failedSnapshots ?? 0
      for count in 1...3 as ClosedRange<UInt64> {
        try await store.send(0)
        while await store.statistics.log?.failedSnapshots ?? 0 < before + count { await Task.yield() }
      }
      #expect(await store.statistics.log?.failedSnapshots == before + 3)
      #expect(told.all.count == Int(round))
      #expect(told.all.last?.description.contains("The state cannot be encoded") == true)
      #expect(try await log.newest().map { $0.position } == (round == 1 ? nil : 4))
      try await store.send(7)
      while try await log.newest()?.position != round * 4 { await Task.yield() }
    }
    await store.shutdown()
    #expect(await (try average(log, options)).state == 7)
  }

  @Test("a permanently refused snapshot is reported and counted, and a temporarily refused one is counted")
  func refusedSnapshots() async throws {
    let (log, told) = (FailingSnapshots(), Record<LogReport>())
    var options = LogOptions.once
    options.snapshotBytes = 1
    options.reporting = { told.add($0) }
    let store = try await ledger(log, options: options)
    for (count, error) in [LogError.unavailable("Away."), .full("Full."), .refused("Too large."), .refused("Again.")]
      .enumerated()
    {
      log.error.withLock { $0 = error }
      try await store.send("a")
      while await store.statistics.log?.failedSnapshots != UInt64(count + 1) { await Task.yield() }
    }
    #expect(told.all == [.snapshotsFail(.refused("Too large."))])
    #expect(
      told.all.map(\.description) == [
        "The snapshots of a store that follows a log fail, and its log grows: Too large."
      ])
    await store.shutdown()
  }

  @Test("a requested snapshot that fails is counted, and reported with the key of its tree")
  func refusedOnRequest() async throws {
    let told = Record<LogReport>()
    var options = LogOptions.once
    options.reporting = { told.add($0) }
    let store = try await average(MemoryLogs()["averages/1"], options)
    try await store.send(0)
    for count in 1...2 as ClosedRange<UInt64> {
      await #expect(throws: LogError.self) { try await store.saveSnapshot() }
      #expect(await store.statistics.log?.failedSnapshots == count)
    }
    #expect(told.all.count == 1)
    #expect(told.all[0].description.contains("The log \"averages/1\": The state cannot be encoded"))
    await store.shutdown()
  }

  @Test("an opening that ignores snapshots reports in words that no other can be saved")
  func unencodableReplacement() async throws {
    let log = MemoryLog()
    var options = LogOptions.quick
    options.snapshotBytes = nil
    let store = try await average(log, options)
    try await store.send(0)
    await store.shutdown()
    options.ignoresSnapshots = true
    do {
      _ = try await average(log, options)
      Issue.record("It was opened.")
    } catch LogError.refused(let text) {
      #expect(text.contains("The state cannot be encoded"))
    }
  }

  // MARK: Phases

  @Test("a log that answers but delivers nothing does not count as followed")
  func flapping() async throws {
    let clock = ManualClock()
    let log = UndeliveringLog()
    let phases = Record<LogStatistics.Phase>()
    let store = try await ledger(log, clock: clock, onPhase: { phases.add($0) })
    await log.followed.untilCount(1)
    log.breakOff()
    await clock.untilAsleep(1)
    for round in 1...10 {
      // Followed again, the log breaks off before time has passed. One sleep, which is cancelled, would report that the
      // log is back, and one waits for the next attempt.
      log.breaksOff.withLock { $0 = true }
      clock.advance(by: .milliseconds(5))
      while clock.sleepCount < 1 + 2 * round { await Task.yield() }
      await clock.untilAsleep(1)
    }
    #expect(phases.all == [.recovering(0, of: 0), .following, .waiting(.unavailable)])
    // The log takes the entry at the second attempt, which proves nothing about deliveries.
    store.dispatch("a")
    await log.appended.untilCount(1)
    await clock.untilAsleep(2)
    clock.advance(by: .milliseconds(5))
    await log.told.wait()
    for _ in 0..<3 { _ = await store.statistics }
    #expect(phases.all.count == 3)
    log.breaksOff.withLock { $0 = false }
    let ending = Task { await store.shutdown() }
    while phases.all.last != .ended {
      clock.advance(by: LogOptions.quick.endingLimit)
      await Task.yield()
    }
    await ending.value
  }

  @Test("a log that has more entries than it delivers does not count as followed")
  func silent() async throws {
    let clock = ManualClock()
    let log = SilentAfterwardsLog()
    let phases = Record<LogStatistics.Phase>()
    let store = try await ledger(log, clock: clock, onPhase: { phases.add($0) })
    await log.followed.untilCount(1)
    log.breakOff()
    await clock.untilAsleep(1)
    // The store follows the log again, but receives none of another replica's entries.
    let other = try await ledger(log.memory)
    try await other.send("there")
    clock.advance(by: .milliseconds(5))
    await log.followed.untilCount(2)
    for asked in 1...5 {
      await clock.untilAsleep(1)
      clock.advance(by: .milliseconds(5))
      await log.asked.untilCount(1 + asked)
      _ = await store.statistics
    }
    #expect(phases.all == [.recovering(0, of: 0), .following, .waiting(.unavailable)])
    #expect(await store.statistics.log?.behind == 1)
    log.deliver()
    for await phase in store.logPhases() where phase == .following { break }
    #expect(await store.state.entries == ["there"])
    await store.shutdown()
  }
}

extension Fold {
  /// A fold of `count` actions of one writer, one per entry.
  fileprivate static func having(committed count: UInt64) -> Fold {
    var fold = Fold()
    for number in 1...count {
      _ = fold.take(number, of: 1, at: number)
      fold.ended(at: number, fingerprint: nil)
    }
    return fold
  }
}

/// Records the outcomes of appends once their closures have returned.
private final class AnsweringLog: LogAround {
  let log: any OrderedLog
  let answered = Record<Void>()

  init(_ log: any OrderedLog) { self.log = log }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    log.append(entry) { [answered] result in
      outcome(result)
      answered.add(())
    }
  }
}

/// Refuses entries larger than its limit.
private final class RefusingLog: OrderedLog {
  private let log: any OrderedLog

  init(_ log: any OrderedLog) { self.log = log }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    if entry.count <= 300 { return log.append(entry, outcome: outcome) }
    Task { outcome(.failure(.refused("It is too large."))) }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { log.records(after: position) }
  func head() async throws(LogError) -> UInt64 { try await log.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
}

/// Stores entries and delivers them on request; refuses entries from a certain moment on.
private final class LateLog: OrderedLog {
  let refuses = LockedValue(false)
  private let memory = MemoryLog()
  private let delivers = Gate()

  func deliver() { delivers.open() }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    if !refuses.withLock({ $0 }) { return memory.append(entry, outcome: outcome) }
    Task { outcome(.failure(.refused("Nothing more."))) }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    memory.records(after: position) { [delivers] in await delivers.wait() }
  }

  func head() async throws(LogError) -> UInt64 { 0 }
  func truncate(through position: UInt64) async throws(LogError) {}
}

/// A log in memory that saves snapshots only once a gate is open.
private final class SlowSnapshots: OrderedLog, SnapshotStore {
  let memory = MemoryLog()
  let gate = Gate()
  let saving = Record<UInt64>()
  let saved = Record<UInt64>()

  var snapshots: (any SnapshotStore)? { self }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    memory.append(entry, outcome: outcome)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    memory.records(after: position)
  }

  func head() async throws(LogError) -> UInt64 { try await memory.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await memory.truncate(through: position) }
  func newest() async throws(LogError) -> LogSnapshot? { try await memory.newest() }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { try await memory.replace(with: snapshot) }

  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    saving.add(snapshot.position)
    await gate.wait()
    try await memory.save(snapshot)
    saved.add(snapshot.position)
  }
}

/// A log that answers, takes an entry at the second attempt, and delivers nothing. Its entries break off on request, or
/// at once.
private final class UndeliveringLog: OrderedLog {
  let followed = Record<Void>()
  let appended = Record<Void>()
  let told = Gate()
  let breaksOff = LockedValue(false)
  private let stream = LockedValue<AsyncThrowingStream<[LogRecord], any Error>.Continuation?>(nil)
  private let headPosition: UInt64

  init(headPosition: UInt64 = 0) { self.headPosition = headPosition }

  func breakOff() { stream.withLock { $0 }?.finish(throwing: LogError.unavailable("It broke off.")) }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    appended.add(())
    let isFirst = appended.all.count == 1
    Task {
      outcome(isFirst ? .failure(.unavailable("Not yet.")) : .success(1))
      if !isFirst { told.open() }
    }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    AsyncThrowingStream { continuation in
      stream.withLock { $0 = continuation }
      if breaksOff.withLock({ $0 }) { continuation.finish(throwing: LogError.unavailable("It broke off.")) }
      followed.add(())
    }
  }

  func head() async throws(LogError) -> UInt64 { headPosition }
  func truncate(through position: UInt64) async throws(LogError) {}
}

/// A log in memory whose entries break off once, and are then held back until they are released.
private final class SilentAfterwardsLog: OrderedLog {
  let memory = MemoryLog()
  let followed = Record<Void>()
  let asked = Record<Void>()
  private let delivers = Gate()
  private let stream = LockedValue<AsyncThrowingStream<[LogRecord], any Error>.Continuation?>(nil)

  func breakOff() { stream.withLock { $0 }?.finish(throwing: LogError.unavailable("It broke off.")) }
  func deliver() { delivers.open() }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    memory.append(entry, outcome: outcome)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let (records, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    stream.withLock { $0 = continuation }
    let reading = Task {
      await delivers.wait()
      do {
        for try await batch in memory.records(after: position) { continuation.yield(batch) }
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in reading.cancel() }
    followed.add(())
    return records
  }

  func head() async throws(LogError) -> UInt64 {
    defer { asked.add(()) }
    return try await memory.head()
  }

  func truncate(through position: UInt64) async throws(LogError) {}
}

/// A log in memory that saves no snapshots.
private final class FailingSnapshots: OrderedLog, SnapshotStore {
  let memory = MemoryLog()
  let error = LockedValue(LogError.unavailable(""))

  var snapshots: (any SnapshotStore)? { self }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    memory.append(entry, outcome: outcome)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    memory.records(after: position)
  }

  func head() async throws(LogError) -> UInt64 { try await memory.head() }
  func truncate(through position: UInt64) async throws(LogError) {}
  func newest() async throws(LogError) -> LogSnapshot? { nil }
  func save(_ snapshot: LogSnapshot) async throws(LogError) { throw error.withLock { $0 } }
  func replace(with snapshot: LogSnapshot) async throws(LogError) { throw error.withLock { $0 } }
}
