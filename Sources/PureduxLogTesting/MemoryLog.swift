import Puredux
public import PureduxLog

/// A log in memory: for tests, of stores that follow one, and of several replicas in one process. It loses everything
/// with the process.
///
///     let log = MemoryLog()
///     let first = try await RootStore(following: log, initialState: 0) { $0 += $1 }
///     let second = try await RootStore(following: log, initialState: 0) { $0 += $1 }
///     try await first.send(2)
public final class MemoryLog: OrderedLog, SnapshotStore {
  private struct Contents {
    var records: [LogRecord] = []
    /// The position of the last entry that was removed.
    var truncated: UInt64 = 0
    var snapshot: LogSnapshot?

    var head: UInt64 { truncated + UInt64(records.count) }
  }

  private let contents = LockedValue(Contents())
  private let arrivals = Arrivals()

  public init() {}

  public var snapshots: (any SnapshotStore)? { self }

  public func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let position = contents.withLock { contents in
      let position = contents.head + 1
      contents.records.append(LogRecord(position: position, bytes: entry))
      return position
    }
    arrivals.notify()
    Task { outcome(.success(position)) }
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
    let (records, truncated) = contents.withLock { contents -> ([LogRecord], UInt64) in
      let start = position > contents.truncated ? Int(min(position - contents.truncated, UInt64(Int.max))) : 0
      return (Array(contents.records.dropFirst(start).prefix(512)), contents.truncated)
    }
    if position < truncated { throw .truncated(first: truncated + 1) }
    return records.isEmpty ? nil : records
  }

  public func head() async throws(LogError) -> UInt64 { contents.withLock { $0.head } }

  public func truncate(through position: UInt64) async throws(LogError) {
    contents.withLock { contents in
      guard position > contents.truncated else { return }
      let count = min(UInt64(contents.records.count), position - contents.truncated)
      contents.records.removeFirst(Int(count))
      contents.truncated += count
    }
  }

  public func newest() async throws(LogError) -> LogSnapshot? { contents.withLock { $0.snapshot } }

  public func save(_ snapshot: LogSnapshot) async throws(LogError) {
    contents.withLock { contents in
      if let kept = contents.snapshot, kept.position >= snapshot.position { return }
      contents.snapshot = snapshot
    }
  }

  public func replace(with snapshot: LogSnapshot) async throws(LogError) {
    contents.withLock { $0.snapshot = snapshot }
  }
}
