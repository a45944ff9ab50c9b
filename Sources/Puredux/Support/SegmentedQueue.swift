/// A FIFO queue in segments: growing moves only the first segment's elements, and removal from the front moves none.
/// Copies share segments: a later change copies at most one segment and the list of segments.
@usableFromInline struct SegmentedQueue<Element> {
  @usableFromInline let shift: Int
  @usableFromInline var segments = Queue<ContiguousArray<Element?>>()
  @usableFromInline var head = 0
  @usableFromInline var count = 0

  @inlinable init(segmentLength: Int = 256) {
    shift = Int.bitWidth - (max(segmentLength, 1) - 1).leadingZeroBitCount
  }

  @inlinable var segmentLength: Int { 1 << shift }
  @inlinable var isEmpty: Bool { count == 0 }

  @inlinable mutating func append(_ element: Element) {
    let (segment, offset) = place(of: count)
    if offset == 0, segment == segments.count { appendSegment() }
    segments.update(segment) { $0?.append(element) }
    count += 1
  }

  /// The first segment grows with its elements: most queues have no other.
  @inline(never) @inlinable mutating func appendSegment() {
    var segment: ContiguousArray<Element?> = []
    if !segments.isEmpty { segment.reserveCapacity(segmentLength) }
    segments.append(segment)
  }

  @inlinable mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = segments.update(0) { [head] in $0?[head].take() }
    count -= 1
    head += 1
    if count == 0 {
      head = 0
      // A small segment keeps its capacity: a reader one element behind does not allocate each time.
      if segments.count == 1, (segments[0]?.capacity ?? 0) <= 16 {
        segments.update(0) { $0?.removeAll(keepingCapacity: true) }
      } else {
        segments = Queue()
      }
    } else if head == segmentLength {
      _ = segments.popFirst()
      head = 0
    }
    return element
  }

  mutating func move(_ number: Int, to other: inout SegmentedQueue) {
    var left = min(number, count)
    if other.isEmpty, other.shift == shift {
      other.segments = Queue()
      other.head = head
      while head + left >= segmentLength, let segment = segments.popFirst() {
        let moved = segmentLength - head
        other.segments.append(segment)
        other.count += moved
        count -= moved
        left -= moved
        head = 0
      }
      if other.isEmpty { other.head = 0 }
      if count == 0 { segments = Queue() }
    }
    for _ in 0..<left { if let element = popFirst() { other.append(element) } }
  }

  @inlinable mutating func replaceFirst(appending element: Element) -> Element? {
    guard count == 1 else {
      let first = popFirst()
      append(element)
      return first
    }
    var replaced = Optional(element)
    segments.update(0) { [head] segment in
      if segment != nil { swap(&segment![head], &replaced) }
    }
    return replaced
  }

  @inlinable subscript(offset: Int) -> Element? {
    let (segment, offset) = place(of: offset)
    // In place: the subscript of `Queue` would retain the segment.
    return segments.storage[segments.head + segment]?[offset]
  }

  @inlinable mutating func update<Result>(_ offset: Int, _ body: (inout Element?) -> Result) -> Result? {
    let (segment, offset) = place(of: offset)
    return segments.update(segment) { $0 == nil ? nil : body(&$0![offset]) }
  }

  @inlinable var all: [Element] {
    var all: [Element] = []
    all.reserveCapacity(count)
    for segment in segments.all {
      for case let element? in segment { all.append(element) }
    }
    return all
  }

  @inlinable func place(of offset: Int) -> (segment: Int, offset: Int) {
    let place = head + offset
    return (place >> shift, place & (segmentLength - 1))
  }
}

extension SegmentedQueue: Sendable where Element: Sendable {}
