import Synchronization

/// Whether the actions that an effect dispatches are refused. Set on the tree's executor, in commit order, or from any
/// thread when a subscription is cancelled.
///
/// SAFETY: the flags are atomic, and `awaitedWork` is set before this is shared; subclasses are responsible for their
/// own state. The compiler does not check a class that is not final.
@usableFromInline class Revocation: @unchecked Sendable {
  private let revoked = Atomic(false)
  private let dispatched = Atomic(false)
  private final let whole: Revocation?
  /// The awaited work that the effect and its actions belong to, if any. Set before this is shared.
  final var awaitedWork: AwaitedWork?

  init(within whole: Revocation? = nil) {
    self.whole = whole
    awaitedWork = whole?.awaitedWork
  }

  final var isRevoked: Bool { revoked.load(ordering: .acquiring) || whole?.isRevoked == true }
  final func revoke() { revoked.store(true, ordering: .releasing) }

  final var hasDispatched: Bool { dispatched.load(ordering: .relaxed) }
  final func noteDispatch() {
    dispatched.store(true, ordering: .relaxed)
    whole?.noteDispatch()
  }
}
