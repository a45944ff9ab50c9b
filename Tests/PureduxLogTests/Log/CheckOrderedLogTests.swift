import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

/// The violations that the suite for users' own logs finds.
@Suite(.timeLimit(.minutes(15))) struct CheckOrderedLogTests {
  @Test("a violation of the contract of logs is found, with the violated part", arguments: FaultyLog.Fault.allCases)
  func finds(fault: FaultyLog.Fault) async throws {
    let logs = LockedValue<[String: FaultyLog]>([:])
    let clock = ManualClock()
    let stalls = Gate()
    let timing = Task {
      await stalls.wait()
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(60))
    }
    defer { stalls.open() }
    let violation = await #expect(throws: LogViolation.self) {
      try await checkOrderedLog(clock: clock) { key in
        logs.withLock { logs in
          let log = logs[key] ?? FaultyLog(fault) { stalls.open() }
          logs[key] = log
          return log
        }
      }
    }
    timing.cancel()
    #expect(violation?.part == fault.part, "\(String(describing: violation))")
  }

  @Test("a store that does not receive another's last actions is a violation, after the limit")
  func missingActions() async throws {
    let (logs, clock, stalls) = (MemoryLogs(), ManualClock(), Gate())
    let timing = Task {
      await stalls.wait()
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(60))
    }
    let violation = await #expect(throws: LogViolation.self) {
      try await checkOrderedLog(clock: clock) { key in
        key == "stores" ? OneSidedLog(logs[key]) { stalls.open() } : logs[key]
      }
    }
    stalls.open()
    timing.cancel()
    #expect(violation?.part == "stores")
  }

  @Test("a task that is cancelled checks no more")
  func cancelled() async throws {
    let checking = Task {
      try await checkOrderedLog { _ in
        await untilCancelled()
        throw CancellationError()
      }
    }
    checking.cancel()
    await #expect(throws: CancellationError.self) { try await checking.value }
  }
}

/// A log whose first store receives its own actions and then nothing, although the other store's last action follows.
private final class OneSidedLog: LogAround {
  private struct Contents {
    var openedCount = 0
    var readerCount = 0
    /// Appends with the last action of the second store. Nil after the last action of the first.
    var held: [@Sendable () -> Void]? = []
  }

  private static let ownEnds = (0..<4).map { Array("\"0-\($0) 24\"".utf8) }
  private static let otherEnd = Array("\"1-3 24\"".utf8)

  let log: any OrderedLog
  private let contents = LockedValue(Contents())
  private let firstReads = Gate()
  /// Called when the second store has the last action.
  private let ends: @Sendable () -> Void

  init(_ log: any OrderedLog, ends: @escaping @Sendable () -> Void) {
    self.log = log
    self.ends = ends
  }

  func head() async throws(LogError) -> UInt64 {
    let isFirst = contents.withLock { contents in
      contents.openedCount += 1
      return contents.openedCount == 1
    }
    if !isFirst { await firstReads.wait() }
    return try await log.head()
  }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let append: @Sendable () -> Void = { [log] in log.append(entry, outcome: outcome) }
    let isLast = entry.contains(Self.otherEnd)
    let isHeld = contents.withLock { contents in
      guard isLast, contents.held != nil else { return false }
      contents.held?.append(append)
      return true
    }
    if !isHeld { append() }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let isFirst = contents.withLock { contents in
      contents.readerCount += 1
      return contents.readerCount == 1
    }
    firstReads.open()
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let reading = Task { [self] in
      var missing = Self.ownEnds
      do {
        for try await records in log.records(after: position) {
          if isFirst, missing.isEmpty { continue }
          continuation.yield(records)
          if !isFirst {
            if records.contains(where: { $0.bytes.contains(Self.otherEnd) }) { ends() }
            continue
          }
          missing.removeAll { end in records.contains { $0.bytes.contains(end) } }
          if missing.isEmpty { release() }
        }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in reading.cancel() }
    return stream
  }

  private func release() {
    let held = contents.withLock { contents in
      defer { contents.held = nil }
      return contents.held ?? []
    }
    for append in held { append() }
  }
}

/// A log in memory with one fault.
final class FaultyLog: OrderedLog, SnapshotStore, SummaryStore {
  enum Fault: CaseIterable {
    case leavesOut, swaps, tellsTwice, tellsWithin, tellsOfSummaryWithin, refuses, ignoresCancellation, neverAnswers
    case hidesTruncation, keepsFirstSnapshot

    /// The violated part of the contract.
    var part: String {
      switch self {
      case .leavesOut, .swaps, .neverAnswers: "order"
      case .refuses: "order"
      case .tellsTwice, .tellsWithin, .tellsOfSummaryWithin: "outcome"
      case .ignoresCancellation: "cancellation"
      case .hidesTruncation: "truncation"
      case .keepsFirstSnapshot: "snapshots"
      }
    }
  }

  private let fault: Fault
  private let log = MemoryLog()
  private let truncated = LockedValue<UInt64>(0)
  private let first = LockedValue<LogSnapshot?>(nil)
  private let count = LockedValue<UInt64>(0)

  /// Called when the suite waits for an event that will never happen.
  private let stalls: @Sendable () -> Void

  init(_ fault: Fault, stalls: @escaping @Sendable () -> Void) {
    self.fault = fault
    self.stalls = stalls
  }

  var snapshots: (any SnapshotStore)? { self }
  var summaries: (any SummaryStore)? { fault == .tellsOfSummaryWithin ? self : nil }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    switch fault {
    case .neverAnswers: stalls()
    case .refuses: Task { outcome(.failure(.refused("No."))) }
    case .tellsTwice:
      log.append(entry) { result in
        outcome(result)
        outcome(result)
      }
    case .tellsWithin:
      log.append(entry) { _ in }
      outcome(
        .success(
          count.withLock { count in
            count += 1
            return count
          }))
    default: log.append(entry, outcome: outcome)
    }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let start = fault == .hidesTruncation ? max(position, truncated.withLock { $0 }) : position
    let (records, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let reading = Task {
      do {
        for try await records in log.records(after: start) {
          switch fault {
          case .leavesOut: continuation.yield(records.filter { $0.position % 7 != 3 })
          case .swaps: continuation.yield(records.reversed())
          default: continuation.yield(records)
          }
        }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in reading.cancel() }
    guard fault == .ignoresCancellation else { return records }
    let come = Record<UInt64>()
    return AsyncThrowingStream { [log, stalls] in
      let after = come.all.last ?? position
      // The separate task is not cancelled.
      let reading = Task<[LogRecord]?, Never> { @Sendable in
        var iterator = log.records(after: after).makeAsyncIterator()
        return try? await iterator.next()
      }
      let next = await withTaskCancellationHandler {
        await reading.value
      } onCancel: {
        stalls()
      }
      if let last = next?.last { come.add(last.position) }
      return next
    }
  }

  func head() async throws(LogError) -> UInt64 { try await log.head() }

  func truncate(through position: UInt64) async throws(LogError) {
    truncated.withLock { $0 = position }
    try await log.truncate(through: position)
  }

  func newest() async throws(LogError) -> LogSnapshot? {
    fault == .keepsFirstSnapshot ? first.withLock { $0 } : try await log.newest()
  }

  func replace(with snapshot: LogSnapshot) async throws(LogError) { try await log.replace(with: snapshot) }

  func save(_ snapshot: LogSnapshot) async throws(LogError) {
    first.withLock { $0 = $0 ?? snapshot }
    try await log.save(snapshot)
  }

  func kept() async throws(LogError) -> LogSummary? { try await log.kept() }

  func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
    log.save(bytes, at: position) { _ in }
    outcome(.success(true))
  }
}
