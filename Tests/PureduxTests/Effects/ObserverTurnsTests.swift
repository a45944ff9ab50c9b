import Testing

@testable import Puredux

@Suite struct ObserverTurnsTests {
  private final class Name: Sendable {}
  private typealias Turns = ObserverTurns<Name, String>
  private let first = Name()
  private let second = Name()
  private let third = Name()

  /// An observer that its first subscription calls.
  private func calling() -> Turns {
    var turns = Turns()
    expect(turns.subscribe(first), (nil, nil))
    #expect(turns.arrive(first, with: "first") == .begins)
    #expect(turns.beginCall(by: first) == true)
    return turns
  }

  private func expect(
    _ left: (Name?, String?), _ right: (Name?, String?), at location: SourceLocation = #_sourceLocation
  ) {
    #expect(left.0 === right.0, sourceLocation: location)
    #expect(left.1 == right.1, sourceLocation: location)
  }

  @Test func `a subscription calls again and again, one call at a time`() {
    var turns = calling()
    #expect(turns.beginCall(by: first) == false)
    #expect(turns.endCall() == nil)
    #expect(turns.beginCall(by: first) == true)
  }

  @Test func `while no call is under way a new one begins at once, and the one before calls no more`() {
    var turns = calling()
    _ = turns.endCall()
    expect(turns.subscribe(second), (first, nil))
    #expect(turns.beginCall(by: first) == false, "though it had taken a state already")
    #expect(turns.arrive(second, with: "second") == .begins)
    #expect(turns.beginCall(by: first) == false)
    #expect(turns.beginCall(by: second) == true)
  }

  @Test func `while a call is under way a new one waits for its return`() {
    var turns = calling()
    expect(turns.subscribe(second), (first, nil))
    #expect(turns.arrive(second, with: "second") == .waits)
    #expect(turns.beginCall(by: second) == false)
    #expect(turns.endCall() == "second")
    #expect(turns.waiting == nil)
    #expect(turns.beginCall(by: first) == false)
    #expect(turns.beginCall(by: second) == true)
  }

  @Test func `one whose place comes after the return begins by itself`() {
    var turns = calling()
    _ = turns.subscribe(second)
    #expect(turns.endCall() == nil)
    #expect(turns.arrive(second, with: "second") == .begins)
  }

  @Test func `of several only the last waits`() {
    var turns = calling()
    _ = turns.subscribe(second)
    _ = turns.arrive(second, with: "second")
    expect(turns.subscribe(third), (second, "second"))
    #expect(turns.waiting == nil)
    #expect(turns.arrive(second, with: "second") == .refused)
    #expect(turns.arrive(third, with: "third") == .waits)
    #expect(turns.endCall() == "third")
  }

  @Test func `one that is cancelled neither waits nor calls, and leaves nothing`() {
    var turns = calling()
    _ = turns.subscribe(second)
    _ = turns.arrive(second, with: "second")
    expect(turns.end(second), (second, "second"))
    expect(turns.end(second), (nil, nil))
    #expect(turns.current == nil)
    #expect(turns.endCall() == nil)
    #expect(turns.beginCall(by: second) == false)
    _ = turns.subscribe(third)
    expect(turns.end(third), (third, nil))
    #expect(turns.arrive(third, with: "third") == .refused)
  }

  @Test func `the end of one that was replaced is nothing to the others`() {
    var turns = calling()
    _ = turns.subscribe(second)
    _ = turns.arrive(second, with: "second")
    expect(turns.end(first), (nil, nil))
    #expect(turns.isCurrent(second))
    #expect(turns.endCall() == "second")
  }

  @Test func `one whose call is under way may be cancelled: the next one waits all the same`() {
    var turns = calling()
    expect(turns.end(first), (first, nil))
    expect(turns.subscribe(second), (nil, nil))
    #expect(turns.arrive(second, with: "second") == .waits)
    #expect(turns.endCall() == "second")
  }
}
