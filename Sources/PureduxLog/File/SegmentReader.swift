struct SegmentReader: Sendable {
  private(set) var position: UInt64
  /// The last segment read; the next record's offset in it, or 0 before the header; and that record's position.
  private(set) var segment: UInt64?
  private(set) var offset = 0
  private(set) var next: UInt64 = 0

  init(after position: UInt64) { self.position = position }

  mutating func begin(_ first: UInt64) {
    segment = first
    offset = 0
    next = first
  }

  mutating func pass(_ header: RecordFormat.Header) { offset = header.size }

  mutating func advance(by size: Int) {
    position = max(position, next)
    next += 1
    offset += size
  }
}
