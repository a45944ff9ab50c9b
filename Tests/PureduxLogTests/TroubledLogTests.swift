import Puredux
import PureduxLog
import PureduxLogTesting
import Testing

@testable import PureduxLog

/// What a store does whose log is away, refuses what it is given, or has lost something.
@Suite(.timeLimit(.minutes(4))) struct TroubledLogTests {
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
      // The watcher of what has been committed.
      clock.advance(by: .seconds(1))
      await log.hold()
    }
    let sending = Task { try await store.send("lost") }
    await log.untilHeld(hasEffects ? 2 : 1)
    let ending = Task { await store.shutdown(interceptors: .finish(within: .seconds(5)), clock: clock) }
    // The watcher, and the limit of the shutdown; then the watcher, and the limit of the end.
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(5))
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(10))
    await ending.value
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    #expect(await store.statistics.log?.phase == .ended)
  }

  @Test("a child's shutdown waits for the log, and ends with the root's")
  func childWithoutLog() async throws {
    let (log, clock) = (GatedLog(), ManualClock())
    let store = try await ledger(log, clock: clock)
    let child = store.childStore(initialState: 0) { count, _ in count += 1 }
    child.dispatch("a")
    await log.untilHeld(1)
    let ended = LockedValue(false)
    let ending = Task {
      await child.shutdown()
      ended.withLock { $0 = true }
    }
    await clock.untilAsleep(1)
    #expect(!ended.withLock { $0 })
    let closing = Task { await store.shutdown() }
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(100))
    await closing.value
    await ending.value
  }

  // MARK: Refused

  @Test("an action that the log refuses is rejected, and what comes behind it is committed once, in order")
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
    "whichever are refused, and whatever else the log does, the others are committed once, in order",
    arguments: (0..<8).map { _ in UInt64.random(in: 0 ... .max) })
  func refusedAmongOthers(seed: UInt64) async throws {
    let memory = MemoryLog()
    var rates = UnreliableLog.Rates()
    // What is said to have failed did fail, so that each refusal is certain.
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

  @Test("an action that may be in the log is not taken for refused")
  func doubted() {
    var outbox = Outbox(limits: Outbox.Limits(actions: 1, entries: 1))
    outbox.append([1], at: .zero)
    outbox.append([2], at: .zero)
    func isDropped(after errors: [LogError]) -> Bool {
      for error in errors {
        guard let entry = outbox.next(at: .zero) else { return false }
        outbox.ended(entry.id, error, at: .zero)
        _ = outbox.retry(at: .zero, patience: .seconds(1))
      }
      return outbox.dropRefused(at: .zero)
    }
    #expect(!isDropped(after: [.unavailable("")]))
    #expect(!isDropped(after: [.refused("")]))
    outbox.applied(at: .zero)
    #expect(isDropped(after: [.refused("")]))
    #expect(outbox.isEmpty && outbox.bytes == 0)
    // Nor one that is on its way once more, nor one whose attempt before was overdue.
    outbox.append([3], at: .zero)
    #expect(!isDropped(after: []))
    let first = outbox.next(at: .zero)
    outbox.ended(first?.id ?? 0, .refused(""), at: .zero)
    _ = outbox.retry(at: .zero, patience: .seconds(1))
    _ = outbox.next(at: .zero)
    #expect(!isDropped(after: []))
    _ = outbox.retry(at: .seconds(2), patience: .seconds(1))
    #expect(!isDropped(after: [.refused("")]))
  }

  // MARK: Snapshots

  @Test("a log that ends before its snapshot is tried for a while, and opened when that is left aside")
  func beyond() async throws {
    let (log, clock) = (MemoryLog(), ManualClock())
    let writer = try await ledger(log)
    for number in 0..<3 { try await writer.send("\(number)") }
    await writer.shutdown()
    let stored = StoredState(state: Ledger(entries: ["lost"]), fold: Fold.having(committed: 10))
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
    // The first action behind all that there was has a snapshot saved.
    try await store.send("3")
    await log.untilSaved(4)
    await store.shutdown()
    let again = try await ledger(log)
    #expect(await again.state.entries == ["0", "1", "2", "3"])
  }

  @Test("a replica that has stopped saves no snapshot")
  func stoppedSavesNothing() async throws {
    let log = MemoryLog()
    var options = LogOptions.quick
    options.snapshotBytes = 1
    let store = try await ledger(log, options: options)
    let newer = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(), actions: .json(schema: 2), states: nil
    ) { $0.entries.append($1) }
    try await newer.send("newer")
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    await store.shutdown()
    #expect(try await log.newest() == nil)
  }

  // MARK: Phases

  @Test("a log that can be asked and delivers nothing is not said to be followed")
  func flapping() async throws {
    let clock = ManualClock()
    let log = UndeliveringLog()
    let phases = Events<LogStatistics.Phase>()
    let (told, tell) = AsyncStream.makeStream(of: LogStatistics.Phase.self)
    let store = try await ledger(log, clock: clock, onPhase: { tell.yield($0) })
    log.fails.withLock { $0 = true }
    log.fail()
    for _ in 0..<10 {
      await clock.untilAsleep(1)
      clock.advance(by: .milliseconds(5))
    }
    log.fails.withLock { $0 = false }
    for await phase in told {
      await phases.add(phase)
      if phase == .waiting(.unavailable) { break }
    }
    await store.shutdown()
    tell.finish()
    for await phase in told { await phases.add(phase) }
    #expect(await phases.all == [.recovering(0, of: 0), .following, .waiting(.unavailable), .ended])
  }
}

extension Fold {
  /// A fold of so many actions of one writer, an entry each.
  fileprivate static func having(committed count: UInt64) -> Fold {
    var fold = Fold()
    for number in 1...count {
      _ = fold.take(number, of: 1, at: number)
      fold.ended(at: number, fingerprint: nil)
    }
    return fold
  }
}

extension MemoryLog {
  fileprivate func untilSaved(_ position: UInt64) async {
    while (try? await newest()?.position) != position { await Task.yield() }
  }
}

/// Takes no entry that is larger than it said.
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

/// A log that says how far it goes, and whose entries break off at once.
private final class UndeliveringLog: OrderedLog {
  let fails = LockedValue(false)
  private let first = LockedValue<AsyncThrowingStream<[LogRecord], any Error>.Continuation?>(nil)

  func fail() { first.withLock { $0 }?.finish(throwing: LogError.unavailable("It broke off.")) }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {}

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    AsyncThrowingStream { continuation in
      if fails.withLock({ $0 }) { return continuation.finish(throwing: LogError.unavailable("It breaks off.")) }
      first.withLock { $0 = continuation }
    }
  }

  func head() async throws(LogError) -> UInt64 { 0 }
  func truncate(through position: UInt64) async throws(LogError) {}
}
