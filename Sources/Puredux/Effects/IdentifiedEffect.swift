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

  init(owners: [EffectOwner] = [], _ work: @escaping Work) {
    self.owners = owners
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

  /// Nothing that it dispatches is committed any more; its running work is cancelled.
  func cancel() {
    revoke()
    for owner in owners { owner.ended(self) }
    // Released outside the lock.
    let (work, task) = life.withLock { life in (life.work.take(), life.task) }
    task?.cancel()
    withExtendedLifetime(work) {}
  }
}

/// The effects of one store that have ids.
///
/// SAFETY: the slots are reached only by `TreeEffects.perform`, `cancel` and `namedCounts`, which are called on the
/// tree's executor, where one section is entered at a time (`Tree.enter`); or by its release, when nothing else can
/// access them. Everything else that changes is behind the lock.
final class EffectSlots: @unchecked Sendable {
  /// What runs and waits under one id.
  final class Slot: Sendable {
    let turns = LockedValue(EffectTurns<IdentifiedEffect>())
  }

  private var slots = SweptTable<EffectID, Slot>()
  /// How many effects of the state run under each name.
  private let named = LockedValue<[String: Int]>([:])

  subscript(id: EffectID) -> Slot? { slots[id] }

  func makeSlot(of id: EffectID, at now: Duration) -> Slot {
    slots.value(of: id, orMake: Slot.init) { slot in slot.turns.withLock { $0.isOver(at: now) } }
  }

  /// An effect of the state has begun or ended. Can be called from anywhere.
  func count(_ name: String?, by change: Int) {
    guard let name else { return }
    named.withLock { named in
      let count = named[name, default: 0] + change
      named[name] = count == 0 ? nil : count
    }
  }

  /// How many tasks run under an id.
  var taskCount: Int {
    slots.entries.reduce(0) { $0 + $1.value.turns.withLock { $0.taskCount } }
      + named.withLock { $0.values.reduce(0, +) }
  }

  /// How many run or wait under each id.
  var counts: [(name: String, count: Int)] {
    slots.entries.map { ($0.key, $0.value.turns.withLock { $0.count }) }.filter { $0.1 > 0 }.map {
      ($0.0.description, $0.1)
    }
      + named.withLock { named in named.map { ($0.key, $0.value) } }
  }
}
