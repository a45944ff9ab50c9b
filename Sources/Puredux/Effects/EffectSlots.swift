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
  /// How many effects of the state run under each name.
  private let named = LockedValue<[String: Int]>([:])

  subscript(id: EffectID) -> Slot? { slots[id] }

  func makeSlot(of id: EffectID, at now: Duration) -> Slot {
    slots.value(of: id, orMake: Slot.init) { slot in slot.scheduler.withLock { $0.isOver(at: now) } }
  }

  /// An effect of the state has begun or ended. Can be called from anywhere.
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
