import Testing

@testable import Puredux

@Suite struct QueueTests {
  @Test(arguments: [0, 1, 16, 17, 1000])
  func `elements come out in the order in which they went in`(count: Int) {
    var queue = Queue<Int>()
    for number in 0..<count { queue.append(number) }
    #expect(queue.count == count)
    for number in 0..<count {
      #expect(queue[0] == number)
      #expect(queue.popFirst() == number)
    }
    #expect(queue.popFirst() == nil)
    #expect(queue.isEmpty)
  }

  @Test func `taking and adding in turns keeps the order`() {
    var queue = Queue<Int>()
    let left = addAndTakeInTurns {
      queue.append($0)
    } popFirst: {
      queue.popFirst()
    } check: { left in
      #expect(queue.count == left.count)
    }
    #expect(Array(queue.popAll()) == Array(left))
    #expect(queue.isEmpty)
  }

  @Test func `an element can be changed in place`() {
    var queue = Queue<Int>()
    for number in 0..<50 { queue.append(number) }
    for _ in 0..<40 { _ = queue.popFirst() }
    queue.update(3) { $0 = 1000 }
    #expect(Array(queue.popAll()) == [40, 41, 42, 1000, 44, 45, 46, 47, 48, 49])
  }
}

/// Adds numbers to a queue, counted from zero, and takes them out, in turns of different lengths.
///
/// - Returns: The numbers that are left in the queue.
func addAndTakeInTurns(
  append: (Int) -> Void, popFirst: () -> Int?, check: (_ left: Range<Int>) -> Void
) -> Range<Int> {
  var left = 0..<0
  for round in 1...200 {
    for _ in 0..<(round % 7) {
      append(left.upperBound)
      left = left.lowerBound..<left.upperBound + 1
    }
    for _ in 0..<(round % 5) where !left.isEmpty {
      #expect(popFirst() == left.lowerBound)
      left = left.dropFirst()
    }
    check(left)
  }
  return left
}
