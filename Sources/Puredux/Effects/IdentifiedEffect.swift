/// An effect with an id, or a timer of such effects: can be cancelled on its own.
final class IdentifiedEffect: Revocation, @unchecked Sendable {
  typealias Work = @Sendable (RunningEffect, IdentifiedEffect) async -> Void

  private struct Life: Sendable {
    /// Nil once it has begun, or was cancelled.
    var work: Work?
    var task: Task<Void, Never>?
  }

  // SAFETY: what changes is behind the lock. The compiler does not check subclasses of `Revocation`.
  private let life: LockedValue<Life>

  let owners: [EffectOwner]
  /// Where it runs or waits under its id, if it has one, and in which store.
  weak let slot: EffectSlots.Slot?
  let node: (any AnyStoreNode)?

  init(
    owners: [EffectOwner] = [], in slot: EffectSlots.Slot? = nil, of node: (any AnyStoreNode)? = nil,
    _ work: @escaping Work
  ) {
    self.owners = owners
    self.slot = slot
    self.node = node
    life = LockedValue(Life(work: work))
    super.init()
  }

  /// Does the work, in a task of its own that `cancel` can cancel. Does nothing if it was cancelled before.
  func run(within running: RunningEffect) async {
    guard let work = life.withLock({ $0.work.take() }) else { return }
    // Not at rest before `cancel` can reach the task: else what is cancelled, but not yet over, would count as rest.
    running.holdPauses()
    let task = Task { await work(running, self) }
    life.withLock { $0.task = task }
    if isRevoked { task.cancel() }
    await withTaskCancellationHandler {
      running.releasePauses()
      await task.value
    } onCancel: {
      task.cancel()
    }
    life.withLock { $0.task = nil }
  }

  /// It is over: its owners forget it, unless others still wait for the time that it opened. Then it goes with its part
  /// all the same.
  func leaveOwners() {
    if owners.isEmpty || slot?.turns.withLock({ $0.isOpener(self) }) == true { return }
    for owner in owners { owner.ended(self) }
  }

  /// Nothing that it dispatches is committed any more; its running work is cancelled.
  func cancel() {
    revoke()
    leaveOwners()
    // Released outside the lock.
    let (work, task) = life.withLock { life in (life.work.take(), life.task) }
    task?.cancel()
    withExtendedLifetime(work) {}
  }
}
