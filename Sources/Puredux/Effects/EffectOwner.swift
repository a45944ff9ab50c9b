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
  private var owners: [ID: EffectOwner] = [:]

  subscript(id: ID) -> EffectOwner {
    if let owner = owners[id] { return owner }
    let owner = EffectOwner()
    owners[id] = owner
    return owner
  }

  /// Cancels the effects of what is gone. Costs a look at each that has effects under way.
  func cancel(where isGone: (ID) -> Bool) {
    for (id, owner) in owners {
      if owner.isOver {
        owners[id] = nil
      } else if isGone(id) {
        owners[id] = nil
        owner.cancel()
      }
    }
  }
}
