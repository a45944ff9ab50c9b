/// The effects of a part of a state, or of one element: cancelled when that is gone.
final class EffectOwner: Sendable {
  /// An effect that runs or waits keeps itself alive: one that never begins must not be kept alive by this.
  private struct Member: Sendable {
    weak var effect: IdentifiedEffect?
  }

  private let members = LockedValue<[ObjectIdentifier: Member]>([:])

  init() {}

  /// Whether none is in progress.
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

extension EffectOwner {
  /// The owners of the effects of one interceptor's parts. Lives on its tree's executor.
  final class Table<ID: Hashable> {
    private var owners = SweptTable<ID, EffectOwner>()

    subscript(id: ID) -> EffectOwner { owners.value(of: id, orMake: EffectOwner.init, isOver: \.isOver) }

    /// The ids of the owners that may have effects in progress.
    var ids: Dictionary<ID, EffectOwner>.Keys { owners.keys }

    /// Cancels the effects of parts or elements that are gone.
    func cancel(_ gone: [ID]) {
      for id in gone { owners.remove(id)?.cancel() }
    }
  }
}
