import PureduxTestSupport
import Testing

@testable import Puredux

@Suite struct SegmentedQueueTests {
  private static let length = 256

  /// The number of elements whose segments are not shared with an earlier copy of the queue.
  private func copied<Element>(in queue: SegmentedQueue<Element>, since earlier: SegmentedQueue<Element>) -> Int {
    func place(of segment: ContiguousArray<Element?>) -> UInt {
      unsafe segment.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
    }
    let places = Set(earlier.segments.all.map(place))
    return queue.segments.all.filter { !places.contains(place(of: $0)) }.reduce(0) { $0 + $1.count }
  }

  @Test(arguments: [0, 1, 3, 4, 5, 1000])
  func `elements come out in the order in which they went in`(count: Int) {
    var queue = SegmentedQueue<Int>(segmentLength: 4)
    for number in 0..<count { queue.append(number) }
    #expect(queue.count == count)
    #expect(queue.all == Array(0..<count))
    for number in 0..<count { #expect(queue.popFirst() == number) }
    #expect(queue.popFirst() == nil)
    #expect(queue.count == 0)
  }

  @Test func `taking and adding in turns keeps the order, and no more segments than it needs`() {
    var queue = SegmentedQueue<Int>(segmentLength: 4)
    let left = addAndTakeInTurns {
      queue.append($0)
    } popFirst: {
      queue.popFirst()
    } check: { left in
      #expect(queue.count == left.count)
      #expect(queue.segments.count <= queue.count / 4 + 2)
    }
    #expect(queue.all == Array(left))
  }

  @Test(arguments: 0...13, [0, 1, 5])
  func `moving some of the first elements keeps the order of both`(number: Int, taken: Int) {
    for kept in 0...9 {
      var (queue, other) = (SegmentedQueue<Int>(segmentLength: 4), SegmentedQueue<Int>(segmentLength: 4))
      let count = taken + number + kept
      for element in 0..<count { queue.append(element) }
      for _ in 0..<taken { _ = queue.popFirst() }
      queue.move(number, to: &other)
      #expect(other.all == Array(taken..<taken + number))
      #expect(queue.all == Array(taken + number..<count))
      #expect((queue.count, other.count) == (kept, number))
      // Moves to a queue that is not empty, and then uses both.
      queue.append(count)
      queue.move(2, to: &other)
      other.append(-1)
      #expect(other.all == Array(taken..<taken + number + min(2, kept + 1)) + [-1])
      for element in taken..<taken + number { #expect(other.popFirst() == element) }
      #expect(queue.all == Array((taken + number + min(2, kept + 1))..<count + 1))
    }
  }

  @Test func `moving a million elements moves segments`() {
    var (queue, other) = (SegmentedQueue<Int>(), SegmentedQueue<Int>())
    for element in 0..<1_000_000 { queue.append(element) }
    _ = queue.popFirst()
    let before = queue
    queue.move(999_000, to: &other)
    #expect(copied(in: other, since: before) <= 2 * Self.length)
    #expect(other.count == 999_000)
    #expect(queue.popFirst() == 999_001)
  }

  @Test(arguments: [10, length, 100_000])
  func `once it is copied, a change costs a segment at the end that changes`(count: Int) {
    var queue = SegmentedQueue<Int>(segmentLength: Self.length)
    for number in 0..<count { queue.append(number) }
    var copy = queue
    queue.append(count)
    #expect(copied(in: queue, since: copy) <= Self.length)
    #expect(queue.popFirst() == 0)
    #expect(copied(in: queue, since: copy) <= 2 * Self.length)
    #expect(copy.all == Array(0..<count))
    let changed = queue
    #expect(copy.popFirst() == 0)
    #expect(copied(in: copy, since: changed) <= 2 * Self.length)
    #expect(queue.all == Array(1...count))
  }

  @Test func `a commit copies as little of a history that is being read`() async throws {
    let history = History<Int, Int>(limit: 10_000)
    let store = RootStore<Int, Int>(initialState: 0, history: history) { $0 += $1 }
    for action in 1...10_000 { store.dispatch(action) }
    _ = await store.state
    let (commits, snapshot) = (history.commits(), history.contents.withLock { $0.entries })
    try await store.send(10_001)
    #expect(copied(in: history.contents.withLock { $0.entries }, since: snapshot) <= 2 * Self.length)
    #expect(history.entries.map(\.action) == Array(2...10_001))
    await store.shutdown()
    #expect(await commits.collect().map(\.action) == Array(1...10_001))
  }
}
