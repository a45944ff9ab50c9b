/// An effect, or a timer of effects with an id, that can be cancelled on its own.
final class IdentifiedEffect: Revocation, ScheduledWork, @unchecked Sendable {
  typealias Work = @Sendable (RunningEffect, IdentifiedEffect) async -> Void

  private struct Life: Sendable {
    /// Nil once it has begun, or was cancelled.
    var work: Work?
    var task: Task<Void, Never>?
  }

  // SAFETY: the lock protects all variables but the place, which the slot's lock protects. The compiler does not check
  // subclasses of `Revocation`.
  private let life: LockedValue<Life>
  var place = 0

  let owners: [EffectOwner]
  weak let slot: EffectSlots.Slot?
  let node: (any AnyStoreNode)?
  /// Its part of the work that a caller waits for, if any. The part ends when nothing counts the effect.
  let part: AwaitedWork.Part?

  init(
    owners: [EffectOwner] = [], in slot: EffectSlots.Slot? = nil, of node: (any AnyStoreNode)? = nil,
    part: AwaitedWork.Part? = nil, _ work: @escaping Work
  ) {
    self.owners = owners
    self.slot = slot
    self.node = node
    self.part = part
    life = LockedValue(Life(work: work))
    super.init()
    awaitedWork = part?.awaitedWork
  }

  /// Does the work, in a task of its own that `cancel` can cancel. Does nothing if it was cancelled before.
  func run(within running: RunningEffect) async {
    guard let work = life.withLock({ $0.work.take() }) else { return }
    // The effect does not rest before `cancel` can reach the task: otherwise a cancelled effect that is not over yet
    // would count as resting.
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

  /// The effect is over: its owners forget it, unless it opened a throttle window that others still wait for. Then the
  /// window closes when the effect's part of the state goes.
  func leaveOwners() {
    if owners.isEmpty || slot?.scheduler.withLock({ $0.isOpener(self) }) == true { return }
    for owner in owners { owner.ended(self) }
  }

  func cancel() {
    revoke()
    leaveOwners()
    let (work, task) = life.withLock { life in (life.work.take(), life.task) }
    task?.cancel()
    // An effect that has begun is awaited until its end.
    if work != nil { part?.end() }
    withExtendedLifetime(work) {}
  }
}
