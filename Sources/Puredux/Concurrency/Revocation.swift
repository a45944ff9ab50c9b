import Synchronization

/// Whether what an effect dispatches is not wanted any more. Set on the tree's executor, in commit order; or from
/// anywhere, by who cancels a subscription.
///
/// SAFETY: the flag is atomic; what inherits from it answers for its own. The compiler does not check a class that can
/// be inherited from.
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
