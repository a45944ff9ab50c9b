import Puredux
public import PureduxLog

/// A log in memory, for tests of stores that follow it, and of several replicas in one process.
///
///     let log = MemoryLog()
///     let first = try await RootStore(following: log, initialState: 0) { $0 += $1 }
///     let second = try await RootStore(following: log, initialState: 0) { $0 += $1 }
///     try await first.send(2)
public final class MemoryLog: OrderedLog, SnapshotStore, SummaryStore {
  private struct Contents {
    var records: [LogRecord] = []
    var truncated: UInt64 = 0
    var snapshot: LogSnapshot?
    var summary: LogSummary?
    var end: LogError?

    var head: UInt64 { truncated + UInt64(records.count) }
  }

  private let contents = LockedValue(Contents())
  private let arrivals = Arrivals()

  public let name: String?

  /// Makes an empty log.
  public init() { name = nil }

  fileprivate init(name: String) { self.name = name }

  public var snapshots: (any SnapshotStore)? { self }
  public var summaries: (any SummaryStore)? { self }

  public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let result = contents.withLock { contents -> Result<UInt64, LogError> in
      if let end = contents.end { return .failure(end) }
      let position = contents.head + 1
      contents.records.append(LogRecord(position: position, bytes: entry))
      return .success(position)
    }
    arrivals.notify()
    Task { outcome(result) }
  }

  public func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    let last = LockedValue(position)
    return AsyncThrowingStream {
      while !Task.isCancelled {
        let count = self.arrivals.count
        let after = last.withLock { $0 }
        if let records = try self.next(after: after) {
          last.withLock { $0 = records.last?.position ?? after }
          return records
        }
        await self.arrivals.wait(after: count)
      }
      return nil
    }
  }

  private func next(after position: UInt64) throws(LogError) -> [LogRecord]? {
    let (records, truncated) = try contents.withLock { contents throws(LogError) -> ([LogRecord], UInt64) in
      if let end = contents.end { throw end }
      let start = position > contents.truncated ? Int(min(position - contents.truncated, UInt64(Int.max))) : 0
      return (Array(contents.records.dropFirst(start).prefix(512)), contents.truncated)
    }
    if position < truncated { throw .truncated(first: truncated + 1) }
    return records.isEmpty ? nil : records
  }

  private func withContents<Result>(_ body: (inout Contents) -> Result) throws(LogError) -> Result {
    try contents.withLock { contents throws(LogError) in
      if let end = contents.end { throw end }
      return body(&contents)
    }
  }

  public func head() async throws(LogError) -> UInt64 { try withContents { $0.head } }

  public func truncate(through position: UInt64) async throws(LogError) {
    try withContents { contents in
      guard position > contents.truncated else { return }
      let count = min(UInt64(contents.records.count), position - contents.truncated)
      contents.records.removeFirst(Int(count))
      contents.truncated += count
    }
  }

  public func erase(through position: UInt64) async throws(LogError) {
    let isThere = try withContents { contents in
      guard position > 0, position < contents.head else { return false }
      if let snapshot = contents.snapshot, snapshot.position < position { contents.snapshot = nil }
      if let summary = contents.summary, summary.position < position { contents.summary = nil }
      return true
    }
    guard isThere else { throw .notErasable(position) }
    try await truncate(through: position)
  }

  public func newest() async throws(LogError) -> LogSnapshot? { try withContents { $0.snapshot } }

  public func save(_ snapshot: LogSnapshot) async throws(LogError) {
    try withContents { contents in
      if let kept = contents.snapshot, kept.position >= snapshot.position { return }
      contents.snapshot = snapshot
    }
  }

  public func replace(with snapshot: LogSnapshot) async throws(LogError) {
    try withContents { contents in
      if let kept = contents.snapshot, kept.position > snapshot.position, kept.position <= contents.head { return }
      contents.snapshot = snapshot
    }
  }

  public func kept() async throws(LogError) -> LogSummary? { try withContents { $0.summary } }

  public func save(
    _ bytes: [UInt8], at position: UInt64, outcome: @escaping @Sendable (Result<Bool, LogError>) -> Void
  ) {
    let result = contents.withLock { contents -> Result<Bool, LogError> in
      if let end = contents.end { return .failure(end) }
      if let kept = contents.summary, kept.position > position, kept.position <= contents.head {
        return .success(false)
      }
      contents.summary = LogSummary(key: name ?? "", position: position, bytes: bytes)
      return .success(true)
    }
    Task { outcome(result) }
  }

  // MARK: In a directory

  fileprivate var summary: LogSummary? { contents.withLock { $0.summary } }

  fileprivate var isUsed: Bool { contents.withLock { $0.head > 0 || $0.snapshot != nil || $0.summary != nil } }

  fileprivate func end(_ error: LogError) {
    contents.withLock { $0 = Contents(end: error) }
    arrivals.notify()
  }
}

/// A directory of logs in memory, for tests of code that uses a `LogDirectory`.
///
///     let logs = MemoryLogs()
///     let board = try await RootStore(following: logs["boards/17"], initialState: Board()) { $0.apply($1) }
///     try await logs.remove("boards/17")  // The store stops.
public final class MemoryLogs: LogDirectory {
  private struct Contents {
    var logs: [String: MemoryLog] = [:]
    var isClosed = false
  }

  private static let closed = LogError.unavailable("The logs are closed.")
  private let contents = LockedValue(Contents())

  /// Makes an empty directory.
  public init() {}

  public subscript(key: String) -> any OrderedLog {
    contents.withLock { contents in
      if let log = contents.logs[key] { return log }
      let log = MemoryLog(name: key)
      if contents.isClosed { log.end(Self.closed) } else { contents.logs[key] = log }
      return log
    }
  }

  /// The keys in ascending order, as of the stream's first read.
  public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> {
    let keys = LockedValue<[String]?>(nil)
    return AsyncThrowingStream { [self] in
      if keys.withLock({ $0 == nil }) {
        let found = try found(prefix).map(\.key)
        keys.withLock { $0 = found }
      }
      return keys.withLock { $0?.popLast() }
    }
  }

  private func found(_ prefix: String) throws(LogError) -> [(key: String, log: MemoryLog)] {
    let logs = try contents.withLock { contents throws(LogError) in
      if contents.isClosed { throw Self.closed }
      return contents.logs
    }
    return logs.filter { $0.value.isUsed && $0.key.isKey(beginningWith: prefix) }.sorted { $0.key > $1.key }
      .map { ($0.key, $0.value) }
  }

  /// The summaries in ascending order of keys, as of the stream's first read.
  public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
    let summaries = LockedValue<[LogSummary]?>(nil)
    return AsyncThrowingStream { [self] in
      if summaries.withLock({ $0 == nil }) {
        let found = try found(prefix).compactMap { _, log in log.summary }
        summaries.withLock { $0 = found }
      }
      return summaries.withLock { $0?.popLast() }
    }
  }

  public func remove(_ key: String) async throws(LogError) {
    let log = try contents.withLock { contents throws(LogError) -> MemoryLog? in
      if contents.isClosed { throw Self.closed }
      // Even an empty log may have followers.
      return contents.logs.removeValue(forKey: key)
    }
    log?.end(.removed)
  }

  public func close() async {
    let logs = contents.withLock { contents in
      contents.isClosed = true
      return contents.logs
    }
    for (_, log) in logs.sorted(by: { $0.key < $1.key }) { log.end(Self.closed) }
  }
}
