/// The requests that wait for their turn in a tree's one order (G1): a pure state machine, run under the requests'
/// lock.
///
/// The caller that requests something of an idle tree schedules one drain; everything requested until that drain has
/// ended is part of its work. A *visitor* is a `send` or a read on its way to the executor: while one is expected, a
/// drain that has used up its quantum does not queue up again before the visitor has arrived, so that no flood can keep
/// a visitor out (G10).
@usableFromInline struct Inbox<Waiter> {
  @usableFromInline enum Phase: Equatable, Sendable {
    /// Nothing waits, and no drain is scheduled or running.
    case idle
    /// A drain is scheduled or running.
    case draining
    /// The rest is left to a visitor that is on its way.
    case leftToVisitor
  }

  @usableFromInline var phase = Phase.idle
  @usableFromInline var idleWaiters = ContiguousArray<Waiter>()

  @inlinable init() {}

  /// Something has been requested; true if the caller has to schedule a drain.
  @inlinable mutating func request() -> Bool {
    guard phase == .idle else { return false }
    phase = .draining
    return true
  }

  /// What to do at the end of a drain.
  @usableFromInline enum DrainEnd {
    /// There is more: schedule a drain.
    case again
    /// There is more, and a visitor on its way will schedule a drain for it.
    case leftToVisitor
    /// Nothing is left; these waiters waited for that.
    case idle(ContiguousArray<Waiter>)
  }

  /// A drain has ended, with or without requests left over.
  @inlinable mutating func drainEnded(withRest rest: Bool, visitorExpected: Bool) -> DrainEnd {
    guard rest else { return becomeIdle() }
    phase = visitorExpected ? .leftToVisitor : .draining
    return visitorExpected ? .leftToVisitor : .again
  }

  /// A visitor has arrived; true if it has to schedule a drain, as the rest was left to it.
  @inlinable mutating func visitorCame() -> Bool {
    guard phase == .leftToVisitor else { return false }
    phase = .draining
    return true
  }

  @inlinable mutating func becomeIdle() -> DrainEnd {
    phase = .idle
    defer { idleWaiters = [] }
    return .idle(idleWaiters)
  }

  /// Whether the inbox is idle; if it is not, the waiter is handed out once it is.
  @inlinable mutating func isIdle(orTells waiter: Waiter) -> Bool {
    if phase != .idle { idleWaiters.append(waiter) }
    return phase == .idle
  }
}

extension Inbox: Sendable where Waiter: Sendable {}
