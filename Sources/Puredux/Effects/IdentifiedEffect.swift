final class IdentifiedEffect: Revocation, ScheduledWork, @unchecked Sendable {
  typealias Work = @Sendable (RunningEffect, IdentifiedEffect) async -> Void

  private struct Life: Sendable {
    /// Nil when it has begun, or was cancelled.
    var work: Work?
    var task: Task<Void, Never>?
  }

  // SAFETY: the lock protects all variables but the place, which the lock of its scheduler protects. The compiler does
  // not check subclasses of `Revocation`.
  private let life: LockedValue<Life>
  var place = 0

  /// In commit order; zero for timers and effects of the state.
  let number: Int
  let owners: [EffectOwner]
  weak let slot: EffectSlots.Slot?
  let node: (any AnyStoreNode)?
  let part: AwaitedWork.Part?

  init(
    number: Int = 0, owners: [EffectOwner] = [], in slot: EffectSlots.Slot? = nil, of node: (any AnyStoreNode)? = nil,
    part: AwaitedWork.Part? = nil, _ work: @escaping Work
  ) {
    self.number = number
    self.owners = owners
    self.slot = slot
    self.node = node
    self.part = part
    life = LockedValue(Life(work: work))
    super.init()
    awaitedWork = part?.awaitedWork
  }

  /// Does the work, unless cancelled before, in a task that `cancel` can cancel.
  func run(within running: RunningEffect) async {
    guard let work = life.withLock({ $0.work.take() }) else { return }
    // No rest before `cancel` can reach the task: a cancelled effect must not seem to rest.
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

  /// The opener of the current throttle window stays: the window closes when the effect's part of the state goes.
  func leaveOwners() {
    if owners.isEmpty || slot?.scheduler.withLock({ $0.isOpener(self) }) == true { return }
    for owner in owners { owner.ended(self) }
  }

  func cancel() {
    revoke()
    leaveOwners()
    let (work, task) = life.withLock { life in (life.work.take(), life.task) }
    task?.cancel()
    // If the effect has begun, its end ends the part.
    if work != nil { part?.end() }
    withExtendedLifetime(work) {}
  }
}
