/// Reads each entry of a log once, up to a position.
struct RecordReader {
  private var batches: AsyncThrowingStream<[LogRecord], any Error>.Iterator
  private var batch: ArraySlice<LogRecord> = []
  private var last: UInt64
  private let end: UInt64

  /// - Parameter end: The position of an existing entry. If it is not after `position`, nothing is read.
  init(_ log: any OrderedLog, after position: UInt64, through end: UInt64) {
    batches = log.records(after: position).makeAsyncIterator()
    last = position
    self.end = end
  }

  mutating func next() async throws -> LogRecord? {
    while last < end {
      guard let record = batch.popFirst() else {
        guard let next = try await batches.next() else {
          try Task.checkCancellation()
          throw LogError.unavailable("The log's entries have come to an end.")
        }
        batch = next[...]
        continue
      }
      if record.position <= last { continue }
      last = record.position
      return record.position <= end ? record : nil
    }
    return nil
  }
}
