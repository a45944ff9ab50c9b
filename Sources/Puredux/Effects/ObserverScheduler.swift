/// Which of an observer's subscriptions may call it, so that no two do so at a time: a pure state machine, run under
/// its observer's lock.
///
/// A subscription arrives when its place in the order has come. It begins at once, or waits for a call in progress.
/// What is returned and not used is released outside the lock.
struct ObserverScheduler<Subscription: AnyObject, Turn> {
  /// The most recent subscription, until it is over.
  private(set) var current: Subscription?
  private(set) var isCalling = false
  /// What the current subscription starts when the call in progress returns.
  private(set) var waiting: Turn?

  enum Arrival: Equatable {
    case begins
    case waits
    /// There is a newer one by now, or it was cancelled.
    case refused
  }

  func isCurrent(_ subscription: Subscription) -> Bool { current === subscription }

  /// Makes a subscription the current one. Returns what it replaces.
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

  /// Whether a subscription may call the observer now.
  mutating func beginCall(by subscription: Subscription) -> Bool {
    guard isCurrent(subscription), !isCalling else { return false }
    isCalling = true
    return true
  }

  /// Returns the turn that waited for that.
  mutating func endCall() -> Turn? {
    isCalling = false
    return waiting.take()
  }

  /// A subscription is over or cancelled. Returns what was stored of it.
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
