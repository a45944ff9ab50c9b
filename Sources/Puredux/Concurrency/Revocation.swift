import Synchronization

/// Whether the actions that an effect dispatches are no longer wanted. Set on the tree's executor, in commit order, or
/// from anywhere when a subscription is cancelled.
///
/// SAFETY: the flags are atomic, and `awaitedWork` is set before this is shared; subclasses are responsible for their
/// own state. The compiler does not check a class that is not final.
@usableFromInline class Revocation: @unchecked Sendable {
  private let revoked = Atomic(false)
  private let dispatched = Atomic(false)
  /// The revocation of the whole effect, if this one is of a part of its work.
  private final let whole: Revocation?
  /// What the effect and the actions that it dispatches are part of, if a caller waits for it. Set before this is
  /// shared.
  final var awaitedWork: AwaitedWork?

  init(within whole: Revocation? = nil) {
    self.whole = whole
    awaitedWork = whole?.awaitedWork
  }

  final var isRevoked: Bool { revoked.load(ordering: .acquiring) || whole?.isRevoked == true }
  final func revoke() { revoked.store(true, ordering: .releasing) }

  /// Whether there is anything to revoke.
  final var hasDispatched: Bool { dispatched.load(ordering: .relaxed) }
  final func noteDispatch() {
    dispatched.store(true, ordering: .relaxed)
    whole?.noteDispatch()
  }
}
