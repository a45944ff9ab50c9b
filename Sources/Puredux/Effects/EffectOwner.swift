/// The effects of a part of a state, or of one element: cancelled when it is gone.
final class EffectOwner: Sendable {
  /// Weak: the runner or the scheduler holds the effect, and an effect that never begins must not be kept alive.
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

  // Read outside the lock: a temporary reference may be the last one, which releases the effect.
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
