/// A failure without a caller to throw to: an effect failed or was not begun, or a store, scope or projection was made
/// below the 100th level. It goes to the store's `reporting` closure, or to standard error if there is none.
public struct EffectReport: Sendable, CustomStringConvertible {
  /// The failure.
  public enum Reason: Sendable {
    /// The work threw on its last attempt, and the error was not made into an action.
    case failed(any Error)
    /// The work was not begun, because too many wait (`EffectPolicy.inTurn`).
    case turnedAway
    /// A store, scope or projection was made below the 100th level. It is closed from the start: its sequences are
    /// empty, and its observers, interceptors and effects are never called. Reported once, by the call that makes it. A
    /// store or proxy made of the closed one is not reported.
    case tooDeep
  }

  /// The failure.
  public let reason: Reason
  /// The store that the effect belongs to, or that the store, scope or projection was made of.
  public let store: StoreID
  /// The description of the effect's id; nil if it has none.
  public let effect: String?

  /// For tests of a `reporting` closure.
  public init(_ reason: Reason, store: StoreID, effect: String? = nil) {
    self.reason = reason
    self.store = store
    self.effect = effect
  }

  public var description: String {
    let effect = effect.map { "effect \"\($0)\"" } ?? "an effect"
    return switch reason {
    case .failed(let error): "Puredux: \(effect) of store \(store) failed: \(error)"
    case .turnedAway: "Puredux: \(effect) of store \(store) was not begun, as too many wait."
    case .tooDeep:
      "Puredux: a store, scope or projection made of store \(store) lies below the \(AnySource.greatestLevel)th level: "
        + "it is closed from the start."
    }
  }

  @usableFromInline static func print(_ report: EffectReport) {
    var errors = StandardError()
    Swift.print(report, to: &errors)
  }
}
