import Testing

@testable import Puredux

@Suite struct ObserverSchedulerTests {
  private final class Name: Sendable {}
  private typealias Scheduler = ObserverScheduler<Name, String>
  private let first = Name()
  private let second = Name()
  private let third = Name()

  /// A scheduler with a call under way, by the first subscription.
  private func calling() -> Scheduler {
    var scheduler = Scheduler()
    expect(scheduler.subscribe(first), (nil, nil))
    #expect(scheduler.arrive(first, with: "first") == .begins)
    #expect(scheduler.beginCall(by: first) == true)
    return scheduler
  }

  private func expect(
    _ left: (Name?, String?), _ right: (Name?, String?), at location: SourceLocation = #_sourceLocation
  ) {
    #expect(left.0 === right.0, sourceLocation: location)
    #expect(left.1 == right.1, sourceLocation: location)
  }

  @Test func `a subscription calls again and again, one call at a time`() {
    var scheduler = calling()
    #expect(scheduler.beginCall(by: first) == false)
    #expect(scheduler.endCall() == nil)
    #expect(scheduler.beginCall(by: first) == true)
  }

  @Test func `while no call is running, a new subscription begins at once, and the previous one makes no more calls`() {
    var scheduler = calling()
    _ = scheduler.endCall()
    expect(scheduler.subscribe(second), (first, nil))
    #expect(scheduler.beginCall(by: first) == false, "though it had taken a state already")
    #expect(scheduler.arrive(second, with: "second") == .begins)
    #expect(scheduler.beginCall(by: first) == false)
    #expect(scheduler.beginCall(by: second) == true)
  }

  @Test func `while a call is running, a new subscription waits for its return`() {
    var scheduler = calling()
    expect(scheduler.subscribe(second), (first, nil))
    #expect(scheduler.arrive(second, with: "second") == .waits)
    #expect(scheduler.beginCall(by: second) == false)
    #expect(scheduler.endCall() == "second")
    #expect(scheduler.waiting == nil)
    #expect(scheduler.beginCall(by: first) == false)
    #expect(scheduler.beginCall(by: second) == true)
  }

  @Test func `a subscription whose place is after the return begins by itself`() {
    var scheduler = calling()
    _ = scheduler.subscribe(second)
    #expect(scheduler.endCall() == nil)
    #expect(scheduler.arrive(second, with: "second") == .begins)
  }

  @Test func `of several subscriptions only the last waits`() {
    var scheduler = calling()
    _ = scheduler.subscribe(second)
    _ = scheduler.arrive(second, with: "second")
    expect(scheduler.subscribe(third), (second, "second"))
    #expect(scheduler.waiting == nil)
    #expect(scheduler.arrive(second, with: "second") == .refused)
    #expect(scheduler.arrive(third, with: "third") == .waits)
    #expect(scheduler.endCall() == "third")
  }

  @Test func `a cancelled subscription neither waits nor calls, and leaves nothing`() {
    var scheduler = calling()
    _ = scheduler.subscribe(second)
    _ = scheduler.arrive(second, with: "second")
    expect(scheduler.end(second), (second, "second"))
    expect(scheduler.end(second), (nil, nil))
    #expect(scheduler.current == nil)
    #expect(scheduler.endCall() == nil)
    #expect(scheduler.beginCall(by: second) == false)
    _ = scheduler.subscribe(third)
    expect(scheduler.end(third), (third, nil))
    #expect(scheduler.arrive(third, with: "third") == .refused)
  }

  @Test func `the end of a replaced subscription does not affect the others`() {
    var scheduler = calling()
    _ = scheduler.subscribe(second)
    _ = scheduler.arrive(second, with: "second")
    expect(scheduler.end(first), (nil, nil))
    #expect(scheduler.isCurrent(second))
    #expect(scheduler.endCall() == "second")
  }

  @Test func `a subscription may be cancelled during its call: the next one still waits`() {
    var scheduler = calling()
    expect(scheduler.end(first), (first, nil))
    expect(scheduler.subscribe(second), (nil, nil))
    #expect(scheduler.arrive(second, with: "second") == .waits)
    #expect(scheduler.endCall() == "second")
  }
}
