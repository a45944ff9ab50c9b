/// The requests that wait for their turn in a tree's order (G1): a pure state machine, under the requests' lock.
///
/// A request to an idle tree schedules one drain, which performs everything requested until it ends. A *visitor* is a
/// `send` or a read on its way to the executor. While one is expected, a drain that has used up its quantum does not
/// queue up again before the visitor arrives. So no flood can keep a visitor out (G10).
@usableFromInline struct Inbox<Waiter> {
  @usableFromInline enum Phase: Equatable, Sendable {
    case idle
    case draining
    case leftToVisitor
  }

  @usableFromInline var phase = Phase.idle
  @usableFromInline var idleWaiters = ContiguousArray<Waiter>()

  @inlinable init() {}

  /// Notes a request; true if the caller has to schedule a drain.
  @inlinable mutating func request() -> Bool {
    guard phase == .idle else { return false }
    phase = .draining
    return true
  }

  @usableFromInline enum DrainEnd {
    case again
    case leftToVisitor
    case idle(ContiguousArray<Waiter>)
  }

  @inlinable mutating func drainEnded(withRest rest: Bool, visitorExpected: Bool) -> DrainEnd {
    guard rest else { return becomeIdle() }
    phase = visitorExpected ? .leftToVisitor : .draining
    return visitorExpected ? .leftToVisitor : .again
  }

  /// A visitor has arrived; true if it has to schedule a drain for the rest left to it.
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

  /// Whether the inbox is idle; if not, the waiter is returned once it is.
  @inlinable mutating func isIdle(orTells waiter: Waiter) -> Bool {
    if phase != .idle { idleWaiters.append(waiter) }
    return phase == .idle
  }
}

extension Inbox: Sendable where Waiter: Sendable {}
