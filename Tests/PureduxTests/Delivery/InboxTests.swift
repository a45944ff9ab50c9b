import Testing

@testable import Puredux

@Suite struct InboxTests {
  private typealias TestInbox = Inbox<Int, String>

  private func taken(_ inbox: inout TestInbox) -> [Int] {
    var batch: ContiguousArray<Int> = []
    _ = inbox.take(into: &batch)
    return Array(batch)
  }

  @Test func `only the first entry of an idle inbox schedules a drain`() {
    var inbox = TestInbox()
    #expect(inbox.phase == .idle)
    #expect(inbox.append(1) == true)
    #expect(inbox.append(2) == false)
    #expect(inbox.phase == .draining)
    #expect(taken(&inbox) == [1, 2])
    #expect(inbox.append(3) == false, "the drain that has taken a batch is still under way")
    #expect(taken(&inbox) == [3])
    #expect(taken(&inbox) == [])
  }

  @Test func `a batch's storage is handed back and forth`() {
    var inbox = TestInbox()
    var batch: ContiguousArray<Int> = []
    batch.reserveCapacity(100)
    _ = inbox.append(1)
    #expect(inbox.take(into: &batch) == 0)
    #expect(Array(batch) == [1])
    #expect(inbox.entries.capacity >= 100)
    batch.removeAll(keepingCapacity: true)
    #expect(inbox.take(into: &batch) == 0)
    #expect(batch.isEmpty)
  }

  @Test func `a flood is taken in order, a segment at a time`() {
    let length = TestInbox.segmentLength
    var inbox = TestInbox()
    for entry in 0..<2 * length + 1 { _ = inbox.append(entry) }
    #expect(inbox.count == 2 * length + 1)
    var batch: ContiguousArray<Int> = []
    #expect(inbox.take(into: &batch) == 2)
    #expect(Array(batch) == Array(0..<length))
    #expect(inbox.count == length + 1)
    for entry in 1...length { _ = inbox.append(2 * length + entry) }
    batch.removeAll(keepingCapacity: true)
    #expect(inbox.take(into: &batch) == 2, "one more is full now")
    #expect(Array(batch) == Array(length..<2 * length))
    #expect(taken(&inbox) == Array(2 * length..<3 * length))
    #expect(!inbox.isEmpty)
    #expect(taken(&inbox) == [3 * length])
    #expect(inbox.isEmpty && inbox.count == 0)
  }

  @Test func `a segment that is just full is the last until the next entry comes`() {
    var inbox = TestInbox()
    for entry in 0..<TestInbox.segmentLength { _ = inbox.append(entry) }
    #expect(inbox.fullSegments.isEmpty)
    #expect(taken(&inbox).count == TestInbox.segmentLength)
    #expect(inbox.isEmpty)
  }

  @Test func `storage that grew is given back when the inbox is idle`() {
    var inbox = TestInbox()
    for entry in 0..<10_000 { _ = inbox.append(entry) }
    while !inbox.isEmpty { _ = taken(&inbox) }
    #expect(inbox.fullSegments.capacity == 0)
    var batch: ContiguousArray<Int> = []
    batch.reserveCapacity(TestInbox.keptCapacity + 1)
    _ = inbox.append(1)
    _ = inbox.take(into: &batch)
    #expect(inbox.entries.capacity > TestInbox.keptCapacity)
    _ = inbox.drainEnded(visitorExpected: false)
    #expect(inbox.entries.capacity == 0)
  }

  @Test func `a drain that leaves nothing ends, and the next entry schedules one`() {
    var inbox = TestInbox()
    _ = inbox.append(1)
    _ = taken(&inbox)
    guard case .idle(let waiters) = inbox.drainEnded(visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(waiters.isEmpty)
    #expect(inbox.phase == .idle)
    #expect(inbox.append(2) == true)
  }

  @Test(arguments: [false, true])
  func `a drain that leaves something is scheduled again, or leaves it to a visitor`(visitorExpected: Bool) {
    var inbox = TestInbox()
    for entry in 0...TestInbox.segmentLength { _ = inbox.append(entry) }
    _ = taken(&inbox)
    switch inbox.drainEnded(visitorExpected: visitorExpected) {
    case .again: #expect(!visitorExpected)
    case .leftToVisitor: #expect(visitorExpected)
    case .idle: Issue.record("idle with something left")
    }
    #expect(inbox.phase == (visitorExpected ? .leftToVisitor : .draining))
    #expect(inbox.append(2) == false, "whoever does the rest does this as well")
  }

  @Test func `a visitor that the rest was left to schedules a drain for what came since`() {
    var inbox = TestInbox()
    _ = inbox.append(1)
    _ = inbox.drainEnded(visitorExpected: true)
    _ = taken(&inbox)
    #expect(inbox.visitorLeft() == false)
    #expect(inbox.phase == .idle)
    _ = inbox.append(2)
    _ = inbox.drainEnded(visitorExpected: true)
    #expect(inbox.visitorLeft() == true)
    #expect(inbox.phase == .draining)
  }

  @Test func `a visitor leaves a drain that is on its way alone`() {
    var inbox = TestInbox()
    #expect(inbox.visitorLeft() == false)
    _ = inbox.append(1)
    #expect(inbox.visitorLeft() == false)
    #expect(inbox.phase == .draining)
  }

  @Test func `who waits for the end of a drain is told at its end`() {
    var inbox = TestInbox()
    #expect(inbox.isIdle(orTells: "nobody") == true)
    _ = inbox.append(1)
    #expect(inbox.isIdle(orTells: "a") == false)
    _ = taken(&inbox)
    #expect(inbox.isIdle(orTells: "b") == false)
    guard case .idle(let waiters) = inbox.drainEnded(visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(Array(waiters) == ["a", "b"])
  }
}
