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
    var next = 0
    var expected = 0
    for round in 1...200 {
      for _ in 0..<(round % 7) {
        queue.append(next)
        next += 1
      }
      for _ in 0..<(round % 5) where !queue.isEmpty {
        #expect(queue.popFirst() == expected)
        expected += 1
      }
    }
    #expect(Array(queue.popAll()) == Array(expected..<next))
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

@Suite struct BacklogTests {
  @Test(arguments: [1, 255, 256, 257, 10_000])
  func `states are found by their position, across segments`(count: Int) {
    var backlog = Backlog<Int>()
    for _ in 0..<7 { backlog.skip() }
    for state in 0..<count { backlog.append(state, holders: state % 3) }
    #expect(backlog.count == count)
    #expect(backlog.start == 7)
    #expect(backlog.end == 7 + count)
    for state in 0..<count { #expect(backlog.state(at: 7 + state) == state) }
    for state in 0..<count {
      #expect(backlog.holdersOfFirst == state % 3)
      #expect(backlog.popFirst() == state)
    }
    #expect(backlog.popFirst() == nil)
    #expect(backlog.isEmpty)
    backlog.skip()
    backlog.append(1, holders: 0)
    #expect(backlog.state(at: 8 + count) == 1)
  }

  @Test func `holders are counted at a position`() {
    var backlog = Backlog<Int>()
    for state in 0..<600 { backlog.append(state, holders: 0) }
    #expect(backlog.addHolders(2, at: 599) == 2)
    #expect(backlog.addHolders(-1, at: 599) == 1)
    for _ in 0..<599 { _ = backlog.popFirst() }
    #expect(backlog.holdersOfFirst == 1)
  }

  @Test func `filling and emptying in turns keeps positions`() {
    var backlog = Backlog<Int>()
    var next = 0
    for round in 1...300 {
      for _ in 0..<(round % 11) {
        if backlog.isEmpty, round.isMultiple(of: 4) { backlog.skip() } else { backlog.append(next, holders: 0) }
        next += 1
      }
      for _ in 0..<(round % 9) { if let state = backlog.popFirst() { #expect(state == backlog.start - 1) } }
      #expect(backlog.end == next)
    }
  }
}
