/// The effects of a part of a state, or of one element: cancelled when that goes.
final class EffectOwner: Sendable {
  /// What runs or waits keeps itself: one that is never begun is not to be kept by this.
  private struct Member: Sendable {
    weak var effect: IdentifiedEffect?
  }

  private let members = LockedValue<[ObjectIdentifier: Member]>([:])

  init() {}

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
  private var owners = SweptTable<ID, EffectOwner>()

  subscript(id: ID) -> EffectOwner { owners.value(of: id, orMake: EffectOwner.init, isOver: \.isOver) }

  /// The ids of those that may have effects under way.
  var ids: Dictionary<ID, EffectOwner>.Keys { owners.keys }

  /// Cancels the effects of what is gone.
  func cancel(_ gone: [ID]) {
    for id in gone { owners.remove(id)?.cancel() }
  }
}
