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

  let owners: [EffectOwner]
  weak let slot: EffectSlots.Slot?
  let node: (any AnyStoreNode)?
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

/// The effects of one store that have ids.
///
/// SAFETY: the slots are reached only by `TreeEffects.perform`, `cancel` and `namedCounts`, which are called on the
/// tree's executor, where the reentrancy guard admits one caller at a time (`Tree.enter`); or by its release, when
/// nothing else can access them. Everything else that changes is behind the lock.
final class EffectSlots: @unchecked Sendable {
  final class Slot: Sendable {
    let scheduler = LockedValue(EffectScheduler<IdentifiedEffect>())
  }

  private var slots = SweptTable<EffectID, Slot>()
  /// Running effects of the state, by name.
  private let named = LockedValue<[String: Int]>([:])

  subscript(id: EffectID) -> Slot? { slots[id] }

  func makeSlot(of id: EffectID, at now: Duration) -> Slot {
    slots.value(of: id, orMake: Slot.init) { slot in slot.scheduler.withLock { $0.isOver(at: now) } }
  }

  /// Can be called from anywhere.
  func count(_ name: String?, by change: Int) {
    guard let name else { return }
    named.withLock { named in
      let count = named[name, default: 0] + change
      named[name] = count == 0 ? nil : count
    }
  }

  var taskCount: Int {
    slots.entries.reduce(0) { $0 + $1.value.scheduler.withLock { $0.taskCount } }
      + named.withLock { $0.values.reduce(0, +) }
  }

  var counts: [(name: String, count: Int)] {
    slots.entries.map { ($0.key, $0.value.scheduler.withLock { $0.count }) }.filter { $0.1 > 0 }.map {
      ($0.0.description, $0.1)
    }
      + named.withLock { named in named.map { ($0.key, $0.value) } }
  }
}

/// The effects of a part of a state, or of one element.
final class EffectOwner: Sendable {
  /// Weak, so that an effect that never begins is released.
  private struct Member: Sendable {
    weak let effect: IdentifiedEffect?
  }

  private struct Members: Sendable {
    var all: [ObjectIdentifier: Member] = [:]
    var room = 16
  }

  private let members = LockedValue(Members())

  init() {}

  var isOver: Bool { effects.isEmpty }

  // Outside the lock: a temporary reference may be the last one.
  private var effects: [IdentifiedEffect] { members.withLock { $0.all }.values.compactMap(\.effect) }

  /// Only on the tree's executor, like `cancel`.
  func add(_ effect: IdentifiedEffect) {
    let crowd = members.withLock { members -> [ObjectIdentifier: Member]? in
      members.all[ObjectIdentifier(effect)] = Member(effect: effect)
      return members.all.count > members.room ? members.all : nil
    }
    guard let crowd else { return }
    let gone = crowd.filter { $0.value.effect == nil }.keys
    members.withLock { members in
      for id in gone { members.all[id] = nil }
      members.room = max(16, 2 * members.all.count)
    }
  }

  func ended(_ effect: IdentifiedEffect) {
    members.withLock { $0.all[ObjectIdentifier(effect)] = nil }
  }

  static func cancel(_ owners: [EffectOwner]) { IdentifiedEffect.cancel(owners.flatMap(\.effects)) }
}
