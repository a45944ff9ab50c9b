import Foundation
import Puredux
public import PureduxLog
import Synchronization

/// A violation of a log's contract.
public struct LogViolation: Error, CustomStringConvertible, Sendable {
  /// The part of the contract, such as "order".
  public let part: String
  public let description: String

  init(_ part: String, _ text: String) {
    self.part = part
    description = "\(part): \(text)"
  }
}

/// Checks that a log fulfils the contract of `OrderedLog`: order, positions, following from any position, truncation,
/// erasure, snapshots and cancellation, that each outcome is reported once and not within its call, and that stores on
/// it commit every action once.
///
///     let log = try FileLog(directory: directory)
///     try await checkOrderedLog { key in log[key] }
///
/// - Parameters:
///   - limit: The time after which a part of the contract counts as violated.
///   - clock: Measures `limit`.
///   - open: Opens the log of an unused tree, and for a repeated key the same log again.
/// - Throws: `LogViolation`, also if the log throws; `CancellationError`.
public func checkOrderedLog(
  within limit: Duration = .seconds(60), clock: any Clock<Duration> = ContinuousClock(),
  _ open: @escaping @Sendable (_ key: String) async throws -> any OrderedLog
) async throws {
  let calls = OutcomeCalls()
  let open: @Sendable (String) async throws -> any OrderedLog = { WatchedLog(try await open($0), calls) }
  let parts: [(name: String, check: @Sendable () async throws -> Void)] = [
    ("empty", { try await checkEmpty(open("empty")) }),
    ("order", { try await checkOrder(open("order")) }),
    ("concurrent appends", { try await checkConcurrentAppends(open("concurrent")) }),
    ("following", { try await checkFollowing(open("following")) }),
    ("positions", { try await checkPositions(open("positions")) }),
    ("sizes", { try await checkSizes(open("sizes")) }),
    ("cancellation", { try await checkCancellation(open("cancellation")) }),
    ("truncation", { try await checkTruncation(open("truncation")) }),
    ("erasure", { try await checkErasure(open("erasure")) }),
    ("snapshots", { try await checkSnapshots(open("snapshots")) }),
    ("reopening", { try await checkReopening(open) }),
    ("separation", { try await checkSeparation(open("one"), open("another")) }),
    ("stores", { try await checkStores(open("stores")) }),
  ]
  for part in parts {
    try await run(part.check, part.name, within: limit, by: clock)
    if let violation = calls.violation.withLock({ $0 }) { throw violation }
  }
}

func run(
  _ check: @escaping @Sendable () async throws -> Void, _ part: String, within limit: Duration,
  by clock: any Clock<Duration>
) async throws {
  let (ends, end) = AsyncThrowingStream.makeStream(of: Void.self)
  let checking = Task {
    do {
      try await check()
      end.finish()
    } catch {
      let isTold = error is LogViolation || error is CancellationError
      end.finish(throwing: isTold ? error : LogViolation(part, "it throws \(error)"))
    }
  }
  let timing = Task {
    try await clock.sleep(for: limit.clamped)
    end.finish(throwing: LogViolation(part, "it has not ended within \(limit)"))
  }
  defer {
    checking.cancel()
    timing.cancel()
  }
  for try await _ in ends {}
  try Task.checkCancellation()
}

extension OrderedLog {
  package func append(_ entries: [[UInt8]]) async throws -> [UInt64] {
    let (outcomes, continuation) = AsyncStream.makeStream(of: (Int, Result<UInt64, LogError>).self)
    for (index, entry) in entries.enumerated() { append(entry) { continuation.yield((index, $0)) } }
    var positions = [UInt64](repeating: 0, count: entries.count)
    var missing = entries.count
    if missing == 0 { return [] }
    for await (index, outcome) in outcomes {
      positions[index] = try outcome.get()
      missing -= 1
      if missing == 0 { break }
    }
    return positions
  }

  package func read(after position: UInt64, through end: UInt64) async throws -> [LogRecord] {
    var all: [LogRecord] = []
    var last = position
    if end <= position { return [] }
    for try await records in records(after: position) {
      for record in records where record.position > last {
        all.append(record)
        last = record.position
      }
      if last >= end { return all }
    }
    throw LogViolation("following", "the entries end before position \(end)")
  }
}

private func entries(_ range: Range<Int>, of writer: Int = 0) -> [[UInt8]] {
  range.map { Array("\(writer) \($0)".utf8) }
}

private func checkEmpty(_ log: any OrderedLog) async throws {
  let head = try await log.head()
  guard head == 0 else { throw LogViolation("positions", "the head of an empty log is \(head)") }
  guard try await log.snapshots?.newest() == nil else { throw LogViolation("snapshots", "an empty log has a snapshot") }
}

private func checkOrder(_ log: any OrderedLog) async throws {
  let written = entries(0..<300)
  let positions = try await log.append(written)
  guard zip(positions, positions.dropFirst()).allSatisfy({ $0 < $1 }), positions.first ?? 1 > 0 else {
    throw LogViolation("order", "the positions do not rise in the order of the calls: \(positions)")
  }
  let head = try await log.head()
  guard head == positions.last else { throw LogViolation("positions", "the head is \(head), not \(positions.last!)") }
  let read = try await log.read(after: 0, through: head)
  guard read.map(\.bytes) == written, read.map(\.position) == positions else {
    throw LogViolation("order", "the entries read are not the entries appended")
  }
}

private func checkConcurrentAppends(_ log: any OrderedLog) async throws {
  let positions = try await withThrowingTaskGroup { tasks in
    for writer in 0..<8 {
      tasks.addTask {
        var positions: [UInt64: [UInt8]] = [:]
        for entry in entries(0..<40, of: writer) { positions[try await log.append(entry)] = entry }
        return positions
      }
    }
    return try await tasks.reduce(into: [UInt64: [UInt8]]()) { all, some in all.merge(some) { $1 } }
  }
  guard positions.count == 320 else { throw LogViolation("positions", "two entries have the same position") }
  let read = try await log.read(after: 0, through: try await log.head())
  for record in read where positions[record.position] != record.bytes {
    throw LogViolation("order", "the entry at \(record.position) is not the one acknowledged there")
  }
  guard read.count == 320 else {
    throw LogViolation("order", "of 320 acknowledged entries \(read.count) can be read")
  }
}

private func checkFollowing(_ log: any OrderedLog) async throws {
  let written = entries(0..<500)
  try await withThrowingTaskGroup { tasks in
    for _ in 0..<3 {
      tasks.addTask {
        var (read, last) = ([[UInt8]](), UInt64(0))
        for try await records in log.records(after: 0) {
          for record in records where record.position > last {
            read.append(record.bytes)
            last = record.position
          }
          if read.count >= written.count { break }
        }
        guard read == written else { throw LogViolation("following", "a reader has not got all entries in order") }
      }
    }
    for entry in written { _ = try await log.append(entry) }
    try await tasks.waitForAll()
  }
}

private func checkPositions(_ log: any OrderedLog) async throws {
  let positions = try await log.append(entries(0..<60))
  for start in stride(from: 0, to: 60, by: 7) {
    let read = try await log.read(after: positions[start], through: positions[59])
    guard read.map(\.position) == Array(positions[(start + 1)...]) else {
      throw LogViolation("following", "after \(positions[start]) came \(read.map(\.position))")
    }
  }
}

private func checkSizes(_ log: any OrderedLog) async throws {
  let largest = [UInt8](repeating: 7, count: min(log.entryLimit, 1 << 20))
  let written = [[0], [UInt8](repeating: 0, count: 5000), largest, [1]]
  let positions = try await log.append(written)
  guard try await log.read(after: 0, through: positions[3]).map(\.bytes) == written else {
    throw LogViolation("sizes", "entries of 1, 5,000 and \(largest.count) bytes are not read as appended")
  }
}

private func checkCancellation(_ log: any OrderedLog) async throws {
  let position = try await log.append([1])
  for waits in [false, true] {
    let (reads, read) = AsyncStream.makeStream(of: Void.self)
    let reading = Task {
      var last: UInt64 = 0
      for try await records in log.records(after: waits ? 0 : position) {
        last = max(last, records.last?.position ?? 0)
        if last >= position { read.yield() }
      }
      return last
    }
    if waits { for await _ in reads { break } }
    reading.cancel()
    if let last = try? await reading.value, last > (waits ? position : 0) {
      throw LogViolation("cancellation", "entries are delivered from after the head")
    }
  }
}

private func checkTruncation(_ log: any OrderedLog) async throws {
  let positions = try await log.append(entries(0..<100))
  try await log.truncate(through: positions[49])
  let read = try await log.read(after: positions[49], through: positions[99])
  guard read.count == 50 else { throw LogViolation("truncation", "entries after the truncated ones are gone") }
  let head = try await log.head()
  guard head == positions[99] else { throw LogViolation("truncation", "the head has changed") }
  do {
    let all = try await log.read(after: 0, through: positions[99])
    guard all.count == 100 else {
      throw LogViolation("truncation", "a reader from before the first entry left gets no error")
    }
  } catch LogError.truncated(let first) {
    guard first <= positions[50] else { throw LogViolation("truncation", "entries after the position are gone") }
  }
  let last = try await log.append([1])
  guard last > positions[99] else { throw LogViolation("truncation", "positions are reused") }
}

private func checkErasure(_ log: any OrderedLog) async throws {
  let positions = try await log.append(entries(0..<100))
  try await log.snapshots?.save(LogSnapshot(position: positions[20], bytes: [1]))
  _ = try await log.summaries?.save([1], at: positions[48])
  // Untyped: catching some cases of a typed error crashes the compiler (6.3).
  let erase: (UInt64) async throws -> Void = { try await log.erase(through: $0) }
  do {
    try await erase(positions[49])
  } catch LogError.refused {
    guard try await log.read(after: 0, through: positions[99]).count == 100 else {
      throw LogViolation("erasure", "a refused erasure has removed entries")
    }
    return
  }
  try await erase(positions[49])
  guard try await log.snapshots?.newest() == nil else {
    throw LogViolation("erasure", "a snapshot of erased entries is left")
  }
  guard try await log.summaries?.kept() == nil else {
    throw LogViolation("erasure", "a summary of erased entries is left")
  }
  do {
    _ = try await log.read(after: positions[48], through: positions[99])
    throw LogViolation("erasure", "the last erased entry can be read, or its reader gets no error")
  } catch LogError.truncated(let first) {
    guard first == positions[50] else { throw LogViolation("erasure", "the first entry left is reported as \(first)") }
  }
  guard try await log.read(after: positions[49], through: positions[99]).map(\.bytes) == entries(50..<100) else {
    throw LogViolation("erasure", "entries after the erased ones are gone")
  }
  for position in [0, positions[99], positions[99] + 1_000_000] {
    do {
      try await erase(position)
    } catch LogError.refused {
      continue
    }
    throw LogViolation("erasure", "a position without an entry, or the last one, can be erased: \(position)")
  }
  let last = try await log.append([1])
  guard last > positions[99], try await log.read(after: positions[99], through: last).map(\.bytes) == [[1]] else {
    throw LogViolation("erasure", "an entry appended after the erasure is missing")
  }
}

private func checkSnapshots(_ log: any OrderedLog) async throws {
  guard let snapshots = log.snapshots else { return }
  let positions = try await log.append(entries(0..<40))
  let large = LogSnapshot(position: positions[20], bytes: [UInt8](repeating: 3, count: 3 << 19))
  try await snapshots.save(LogSnapshot(position: positions[10], bytes: [1]))
  try await snapshots.save(large)
  try await snapshots.save(LogSnapshot(position: positions[15], bytes: [2]))
  guard try await snapshots.newest() == large else { throw LogViolation("snapshots", "the newest is not returned") }
  let newer = LogSnapshot(position: positions[30], bytes: [])
  try await snapshots.save(newer)
  guard try await snapshots.newest() == newer else {
    throw LogViolation("snapshots", "a newer snapshot has not replaced an older one")
  }
  try await snapshots.replace(with: large)
  guard try await snapshots.newest() == newer else {
    throw LogViolation("snapshots", "`replace(with:)` has replaced a newer snapshot")
  }
  let other = LogSnapshot(position: newer.position, bytes: [1])
  try await snapshots.replace(with: other)
  guard try await snapshots.newest() == other else {
    throw LogViolation("snapshots", "`replace(with:)` has not replaced a snapshot of the same position")
  }
  // A position past the head, as after a loss of entries.
  try await snapshots.save(LogSnapshot(position: positions[positions.count - 1] + 1000, bytes: [2]))
  try await snapshots.replace(with: large)
  guard try await snapshots.newest() == large else {
    throw LogViolation("snapshots", "`replace(with:)` has not replaced a snapshot past the head")
  }
}

private func checkReopening(_ open: (String) async throws -> any OrderedLog) async throws {
  let positions = try await open("reopened").append(entries(0..<20))
  let again = try await open("reopened")
  let next = try await again.append([9])
  guard next > positions[19], try await again.read(after: 0, through: next).count == 21 else {
    throw LogViolation("reopening", "entries appended before the log was opened again are missing")
  }
}

private func checkSeparation(_ one: any OrderedLog, _ other: any OrderedLog) async throws {
  let first = try await one.append([1])
  let second = try await other.append([2])
  guard try await one.read(after: 0, through: first).map(\.bytes) == [[1]],
    try await other.read(after: 0, through: second).map(\.bytes) == [[2]], try await one.head() == first
  else { throw LogViolation("separation", "the logs of two trees share entries") }
}

private func checkStores(_ log: any OrderedLog) async throws {
  let (one, other) = (try await list(log), try await list(log))
  try await withThrowingTaskGroup { tasks in
    for (replica, store) in [one, other].enumerated() {
      for writer in 0..<4 {
        tasks.addTask {
          for number in 0..<25 { try await store.send("\(replica)-\(writer) \(number)") }
        }
      }
    }
    try await tasks.waitForAll()
  }
  var lists: [[String]] = []
  for store in [one, other] {
    for await list in store.states() where list.count >= 200 { lists.append(list); break }
  }
  // The sequences of a cancelled task end.
  try Task.checkCancellation()
  guard lists.count == 2, lists[0] == lists[1], Set(lists[0]).count == 200, lists[0].count == 200 else {
    throw LogViolation("stores", "two replicas do not have the same state, with every action once")
  }
  await one.shutdown()
  await other.shutdown()
}

private func list(_ log: any OrderedLog) async throws -> RootStore<[String], String> {
  try await RootStore(following: log, initialState: [], options: FollowingOptions(fingerprint: .unchecked)) {
    $0.append($1)
  }
}

private final class OutcomeCalls: Sendable {
  let violation = LockedValue<LogViolation?>(nil)

  func found(_ text: String) {
    let found = LogViolation("outcome", text)
    violation.withLock { $0 = $0 ?? found }
  }

  /// Makes a request, and watches the calls of its outcome.
  func watch<Value: Sendable>(
    _ outcome: @escaping @Sendable (Result<Value, LogError>) -> Void,
    in request: (@escaping @Sendable (Result<Value, LogError>) -> Void) -> Void
  ) {
    // The thread while the request has not returned. A task-local value would be inherited by the engine's tasks.
    let call = LockedValue((isTold: false, thread: ObjectIdentifier?.some(ObjectIdentifier(Thread.current))))
    request { [self] result in
      let current = ObjectIdentifier(Thread.current)
      let (isFirst, isWithin) = call.withLock { call in
        defer { call.isTold = true }
        return (!call.isTold, call.thread == current)
      }
      guard isFirst else { return found("an outcome is reported twice") }
      guard isWithin else { return outcome(result) }
      found("an outcome is reported within the call that it belongs to")
      // The caller may hold a lock.
      Task { outcome(result) }
    }
    call.withLock { $0.thread = nil }
  }
}

private struct WatchedLog: OrderedLog {
  private let log: any OrderedLog
  private let calls: OutcomeCalls

  init(_ log: any OrderedLog, _ calls: OutcomeCalls) {
    self.log = log
    self.calls = calls
  }

  var entryLimit: Int { log.entryLimit }
  var snapshots: (any SnapshotStore)? { log.snapshots }
  var summaries: (any SummaryStore)? { log.summaries.map { WatchedSummaries(summaries: $0, calls: calls) } }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    calls.watch(outcome) { log.append(entry, outcome: $0) }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { log.records(after: position) }
  func head() async throws(LogError) -> UInt64 { try await log.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
  func erase(through position: UInt64) async throws(LogError) { try await log.erase(through: position) }
}

private struct WatchedSummaries: SummaryStore {
  let summaries: any SummaryStore
  let calls: OutcomeCalls

  func kept() async throws(LogError) -> LogSummary? { try await summaries.kept() }

  func save(_ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void) {
    calls.watch(outcome) { summaries.save(bytes, at: position, outcome: $0) }
  }
}
