/// First in, first out, in segments that copies of it share.
///
/// A copy costs nothing, and a change after it no more than the segment at the end that changes and the list of segments, however much there is.
@usableFromInline
struct SegmentedQueue<Element> {
  @usableFromInline
  let segmentLength: Int
  @usableFromInline
  var segments = Queue<ContiguousArray<Element?>>()
  /// How many elements of the first segment have been taken out.
  @usableFromInline
  var head = 0
  @usableFromInline
  var count = 0

  @inlinable
  init(segmentLength: Int) {
    self.segmentLength = segmentLength
  }

  @inlinable
  mutating func append(_ element: Element) {
    if head + count == segments.count * segmentLength { segments.append([]) }
    segments.update(segments.count - 1) { $0?.append(element) }
    count += 1
  }

  @inlinable
  mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = segments.update(0) { [head] in $0?[head].take() }
    count -= 1
    head += 1
    if head == segmentLength {
      _ = segments.popFirst()
      head = 0
    }
    return element
  }

  /// Everything, in order.
  @inlinable
  var all: [Element] {
    var all: [Element] = []
    all.reserveCapacity(count)
    for segment in segments.all {
      for case let element? in segment { all.append(element) }
    }
    return all
  }
}

extension SegmentedQueue: Sendable where Element: Sendable {}
