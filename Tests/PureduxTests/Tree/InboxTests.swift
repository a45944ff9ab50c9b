import Testing

@testable import Puredux

@Suite struct InboxTests {
  private typealias TestInbox = Inbox<Int, String>

  private func taken(_ inbox: inout TestInbox) -> [Int] {
    var batch: ContiguousArray<Int> = []
    inbox.takeAll(into: &batch)
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
    inbox.takeAll(into: &batch)
    #expect(Array(batch) == [1])
    batch.removeAll(keepingCapacity: true)
    inbox.takeAll(into: &batch)
    #expect(batch.isEmpty)
  }

  @Test func `storage that grew in a flood is given back when the inbox is idle`() {
    var inbox = TestInbox()
    for entry in 0..<10_000 { _ = inbox.append(entry) }
    var batch: ContiguousArray<Int> = []
    inbox.takeAll(into: &batch)
    batch.removeAll(keepingCapacity: true)
    _ = inbox.append(1)
    inbox.takeAll(into: &batch)
    #expect(inbox.entries.capacity >= 10_000)
    _ = inbox.drainEnded(withRest: false, visitorExpected: false)
    #expect(inbox.entries.capacity < TestInbox.greatestKept)
  }

  @Test func `a drain that leaves nothing ends, and the next entry schedules one`() {
    var inbox = TestInbox()
    _ = inbox.append(1)
    _ = taken(&inbox)
    guard case .idle(let waiters) = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(waiters.isEmpty)
    #expect(inbox.phase == .idle)
    #expect(inbox.append(2) == true)
  }

  @Test(arguments: [false, true])
  func `a drain with a rest is scheduled again, or left to a visitor`(visitorExpected: Bool) {
    var inbox = TestInbox()
    _ = inbox.append(1)
    _ = taken(&inbox)
    switch inbox.drainEnded(withRest: true, visitorExpected: visitorExpected) {
    case .again: #expect(!visitorExpected)
    case .leftToVisitor: #expect(visitorExpected)
    case .idle: Issue.record("idle with a rest")
    }
    #expect(inbox.phase == (visitorExpected ? .leftToVisitor : .draining))
    #expect(inbox.append(2) == false, "whoever does the rest does this as well")
  }

  @Test func `a drain after which entries have come is scheduled again, a visitor or not`() {
    var inbox = TestInbox()
    _ = inbox.append(1)
    guard case .again = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not again")
      return
    }
    guard case .leftToVisitor = inbox.drainEnded(withRest: false, visitorExpected: true) else {
      Issue.record("not left")
      return
    }
  }

  @Test func `a visitor that the rest was left to schedules a drain, once`() {
    var inbox = TestInbox()
    _ = inbox.append(1)
    _ = inbox.drainEnded(withRest: true, visitorExpected: true)
    #expect(inbox.visitorCame() == true)
    #expect(inbox.phase == .draining)
    #expect(inbox.visitorCame() == false)
    #expect(inbox.append(2) == false)
  }

  @Test func `a visitor leaves a drain that is on its way alone, and an idle inbox`() {
    var inbox = TestInbox()
    #expect(inbox.visitorCame() == false)
    #expect(inbox.phase == .idle)
    _ = inbox.append(1)
    #expect(inbox.visitorCame() == false)
    #expect(inbox.phase == .draining)
  }

  @Test func `who waits for the end of a drain is told at its end`() {
    var inbox = TestInbox()
    #expect(inbox.isIdle(orTells: "nobody") == true)
    _ = inbox.append(1)
    #expect(inbox.isIdle(orTells: "a") == false)
    _ = taken(&inbox)
    #expect(inbox.isIdle(orTells: "b") == false)
    guard case .idle(let waiters) = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(Array(waiters) == ["a", "b"])
  }

  @Test func `who waits is not told while the rest is left to a visitor`() {
    var inbox = TestInbox()
    _ = inbox.append(1)
    #expect(inbox.isIdle(orTells: "before") == false)
    _ = inbox.drainEnded(withRest: true, visitorExpected: true)
    #expect(inbox.isIdle(orTells: "after") == false)
    _ = inbox.visitorCame()
    _ = taken(&inbox)
    guard case .idle(let waiters) = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(Array(waiters) == ["before", "after"])
  }
}
