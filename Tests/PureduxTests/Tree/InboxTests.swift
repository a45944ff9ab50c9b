import Testing

@testable import Puredux

@Suite struct InboxTests {
  private typealias TestInbox = Inbox<String>

  @Test func `only the first request of an idle inbox schedules a drain`() {
    var inbox = TestInbox()
    #expect(inbox.phase == .idle)
    #expect(inbox.request() == true)
    #expect(inbox.request() == false)
    #expect(inbox.phase == .draining)
    #expect(inbox.request() == false, "the drain that has taken a batch is still under way")
  }

  @Test func `a drain that leaves nothing ends, and the next request schedules one`() {
    var inbox = TestInbox()
    _ = inbox.request()
    guard case .idle(let waiters) = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(waiters.isEmpty)
    #expect(inbox.phase == .idle)
    #expect(inbox.request() == true)
  }

  @Test(arguments: [false, true])
  func `a drain with a rest is scheduled again, or left to a visitor`(visitorExpected: Bool) {
    var inbox = TestInbox()
    _ = inbox.request()
    switch inbox.drainEnded(withRest: true, visitorExpected: visitorExpected) {
    case .again: #expect(!visitorExpected)
    case .leftToVisitor: #expect(visitorExpected)
    case .idle: Issue.record("idle with a rest")
    }
    #expect(inbox.phase == (visitorExpected ? .leftToVisitor : .draining))
    #expect(inbox.request() == false, "whoever does the rest does this as well")
  }

  @Test func `a visitor that the rest was left to schedules a drain, once`() {
    var inbox = TestInbox()
    _ = inbox.request()
    _ = inbox.drainEnded(withRest: true, visitorExpected: true)
    #expect(inbox.visitorCame() == true)
    #expect(inbox.phase == .draining)
    #expect(inbox.visitorCame() == false)
    #expect(inbox.request() == false)
  }

  @Test func `a visitor does not affect a scheduled drain or an idle inbox`() {
    var inbox = TestInbox()
    #expect(inbox.visitorCame() == false)
    #expect(inbox.phase == .idle)
    _ = inbox.request()
    #expect(inbox.visitorCame() == false)
    #expect(inbox.phase == .draining)
  }

  @Test func `a waiter for the end of a drain is told at its end`() {
    var inbox = TestInbox()
    #expect(inbox.isIdle(orTells: "nobody") == true)
    _ = inbox.request()
    #expect(inbox.isIdle(orTells: "a") == false)
    #expect(inbox.isIdle(orTells: "b") == false)
    guard case .idle(let waiters) = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(Array(waiters) == ["a", "b"])
  }

  @Test func `a waiter is not told while the rest is left to a visitor`() {
    var inbox = TestInbox()
    _ = inbox.request()
    #expect(inbox.isIdle(orTells: "before") == false)
    _ = inbox.drainEnded(withRest: true, visitorExpected: true)
    #expect(inbox.isIdle(orTells: "after") == false)
    _ = inbox.visitorCame()
    guard case .idle(let waiters) = inbox.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not idle")
      return
    }
    #expect(Array(waiters) == ["before", "after"])
  }
}
