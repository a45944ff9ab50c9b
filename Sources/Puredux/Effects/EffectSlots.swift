/// The effects of one store that have ids.
///
/// SAFETY: the slots are reached only by `TreeEffects.perform`, `cancel`, `namedCounts` and `unnamedCount`, which are
/// called on the tree's executor, where the reentrancy guard admits one caller at a time (`Tree.enter`); or by its
/// release, when nothing else can access them. Everything else that changes is behind the lock.
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
