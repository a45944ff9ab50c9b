/// Decides which of an observer's subscriptions may call it, so that no two do so at a time: a pure state machine,
/// under its observer's lock.
///
/// A subscription arrives when its place in the order has come. It begins at once, or waits for a call in progress.
/// Returned values that are not used are released outside the lock.
struct ObserverScheduler<Subscription: AnyObject, Turn> {
  private(set) var current: Subscription?
  private(set) var isCalling = false
  private(set) var waiting: Turn?

  enum Arrival: Equatable {
    case begins
    case waits
    case refused
  }

  func isCurrent(_ subscription: Subscription) -> Bool { current === subscription }

  mutating func subscribe(_ new: Subscription) -> (Subscription?, Turn?) {
    let replaced = (current, waiting)
    current = new
    waiting = nil
    return replaced
  }

  mutating func arrive(_ subscription: Subscription, with turn: Turn) -> Arrival {
    guard isCurrent(subscription) else { return .refused }
    guard isCalling else { return .begins }
    waiting = turn
    return .waits
  }

  mutating func beginCall(by subscription: Subscription) -> Bool {
    guard isCurrent(subscription), !isCalling else { return false }
    isCalling = true
    return true
  }

  mutating func endCall() -> Turn? {
    isCalling = false
    return waiting.take()
  }

  mutating func end(_ subscription: Subscription) -> (Subscription?, Turn?) {
    guard isCurrent(subscription) else { return (nil, nil) }
    defer {
      current = nil
      waiting = nil
    }
    return (current, waiting)
  }
}

extension ObserverScheduler: Sendable where Subscription: Sendable, Turn: Sendable {}
