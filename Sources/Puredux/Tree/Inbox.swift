/// The requests' state machine (G1), under the requests' lock.
///
/// A *visitor* is a `send` or a read on its way to the executor. While one is expected, a drain that has used up its
/// quantum does not queue up again, so no flood keeps the visitor out (G10).
@usableFromInline struct Inbox<Waiter> {
  @usableFromInline enum Phase: Equatable, Sendable {
    case idle
    case draining
    case leftToVisitor
  }

  @usableFromInline var phase = Phase.idle
  @usableFromInline var idleWaiters = ContiguousArray<Waiter>()

  @inlinable init() {}

  /// Returns whether the caller has to schedule a drain.
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

  /// Returns whether the visitor has to schedule a drain.
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

  @inlinable mutating func isIdle(orTells waiter: Waiter) -> Bool {
    if phase != .idle { idleWaiters.append(waiter) }
    return phase == .idle
  }
}

extension Inbox: Sendable where Waiter: Sendable {}
