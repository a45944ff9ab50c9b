import Puredux

@testable import PureduxLog

/// A log that forwards all calls to another log, except for the members that a test's type implements.
protocol LogAround: OrderedLog {
  var log: any OrderedLog { get }
}

extension LogAround {
  var name: String? { log.name }
  var entryLimit: Int { log.entryLimit }
  var snapshots: (any SnapshotStore)? { log.snapshots }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    log.append(entry, outcome: outcome)
  }
  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { log.records(after: position) }
  func head() async throws(LogError) -> UInt64 { try await log.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
  func erase(through position: UInt64) async throws(LogError) { try await log.erase(through: position) }
}

extension OrderedLog {
  /// The entries of this log, read when a closure has returned.
  func records(
    after position: UInt64, when isReady: @escaping @Sendable () async throws -> Void
  ) -> AsyncThrowingStream<[LogRecord], any Error> {
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let task = Task {
      do {
        try await isReady()
        for try await records in records(after: position) { continuation.yield(records) }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in task.cancel() }
    return stream
  }
}

/// Holds entries back on their way from a log to a store.
final class RecordHold: Sendable {
  private let isHolding = LockedValue(false)
  private let releases = Arrivals()

  var isHeld: Bool { isHolding.withLock { $0 } }

  func hold() { isHolding.withLock { $0 = true } }

  func release() {
    isHolding.withLock { $0 = false }
    releases.notify()
  }

  /// The entries of a log, none of them while they are held back.
  ///
  /// - Parameter singly: Whether the entries are delivered one at a time.
  func records(
    _ log: any OrderedLog, after position: UInt64, singly: Bool = false
  ) -> AsyncThrowingStream<[LogRecord], any Error> {
    let (stream, continuation) = AsyncThrowingStream.makeStream(of: [LogRecord].self)
    let task = Task { [self] in
      do {
        for try await records in log.records(after: position) {
          for batch in singly ? records.map({ [$0] }) : [records] {
            while isHolding.withLock({ $0 }), !Task.isCancelled {
              let count = releases.count
              if isHolding.withLock({ $0 }) { await releases.wait(after: count) }
            }
            continuation.yield(batch)
          }
        }
        continuation.finish()
      } catch {
        continuation.finish(throwing: error)
      }
    }
    continuation.onTermination = { _ in task.cancel() }
    return stream
  }
}
