/// The effects of a part of a state, or of one element: cancelled when that is gone.
final class EffectOwner: Sendable {
  /// Kept alive by whoever runs it or has it wait: one that never begins must not be kept alive by this.
  private struct Member: Sendable {
    weak let effect: IdentifiedEffect?
  }

  private struct Members: Sendable {
    var all: [ObjectIdentifier: Member] = [:]
    /// How many there may be before those that are gone are looked for.
    var room = 16
  }

  private let members = LockedValue(Members())

  init() {}

  /// Whether none is in progress, or keeps another from beginning.
  var isOver: Bool { effects.isEmpty }

  // Looked at outside the lock, as whoever holds one for a moment may be the last to do so.
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

  /// Cancels the effects of several owners that are gone at the same time.
  static func cancel(_ owners: [EffectOwner]) { IdentifiedEffect.cancel(owners.flatMap(\.effects)) }
}
