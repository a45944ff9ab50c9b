import Synchronization

/// Whether the actions that an effect dispatches are no longer wanted. Set on the tree's executor, in commit order, or
/// from anywhere when a subscription is cancelled.
///
/// SAFETY: the flags are atomic; subclasses are responsible for their own state. The compiler does not check a class
/// that is not final.
@usableFromInline class Revocation: @unchecked Sendable {
  private let revoked = Atomic(false)
  private let dispatched = Atomic(false)

  init() {}

  final var isRevoked: Bool { revoked.load(ordering: .acquiring) }
  final func revoke() { revoked.store(true, ordering: .releasing) }

  /// Whether there is anything to revoke.
  final var hasDispatched: Bool { dispatched.load(ordering: .relaxed) }
  final func noteDispatch() { dispatched.store(true, ordering: .relaxed) }
}
