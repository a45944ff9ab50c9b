/// The effects of a part of a state, or of one element: cancelled when that goes.
@usableFromInline final class EffectOwner: Sendable {
  /// What runs or waits keeps itself: one that is never begun is not to be kept by this.
  private struct Member: Sendable {
    weak var effect: IdentifiedEffect?
  }

  private let members = LockedValue<[ObjectIdentifier: Member]>([:])

  /// Whether none is under way.
  var isOver: Bool { effects.isEmpty }

  private var effects: [IdentifiedEffect] { members.withLock { $0.values.map(\.effect) }.compactMap { $0 } }

  func add(_ effect: IdentifiedEffect) {
    members.withLock { $0[ObjectIdentifier(effect)] = Member(effect: effect) }
  }

  func ended(_ effect: IdentifiedEffect) {
    members.withLock { $0[ObjectIdentifier(effect)] = nil }
  }

  func cancel() {
    for effect in effects { effect.cancel() }
  }
}

/// The owners of the effects of one interceptor's parts. On its tree's executor.
final class EffectOwners<ID: Hashable> {
  private(set) var owners: [ID: EffectOwner] = [:]
  /// How many there are when those that are over are looked for: twice as many as were left the last time.
  private var sweepCount = 64

  subscript(id: ID) -> EffectOwner {
    if let owner = owners[id] { return owner }
    if owners.count >= sweepCount {
      owners = owners.filter { !$0.value.isOver }
      sweepCount = max(64, owners.count * 2)
    }
    let owner = EffectOwner()
    owners[id] = owner
    return owner
  }

  /// Cancels the effects of what is gone.
  func cancel(_ gone: [ID]) {
    for id in gone { owners.removeValue(forKey: id)?.cancel() }
  }
}
