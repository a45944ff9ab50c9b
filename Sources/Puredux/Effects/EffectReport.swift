/// A failure that no caller is told of: an effect failed, or a store, scope or projection was made below the 100th
/// level. The report is passed to the `reporting` closure of the store, or printed on standard error if there is none.
public struct EffectReport: Sendable, CustomStringConvertible {
  /// The failure.
  public enum Reason: Sendable {
    /// The work threw on its last attempt, and the error was not turned into an action.
    case failed(any Error)
    /// The work was not begun, as too many wait (`EffectPolicy.inTurn`).
    case turnedAway
    /// A store, scope or projection was made below the 100th level. It is closed from the start: its sequences are
    /// empty, and its observers, interceptors and effects are never called. The call that makes it reports this once. A
    /// store or proxy that is made of it is not reported.
    case tooDeep
  }

  /// The failure.
  public let reason: Reason
  /// The store that the effect belongs to, or that the store, scope or projection was made of.
  public let store: StoreID
  /// The effect's id, as it describes itself; nil if it has none.
  public let effect: String?

  /// For the tests of a `reporting` closure: stores make their own.
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

  /// Used if no closure is given.
  @usableFromInline static func print(_ report: EffectReport) {
    var errors = StandardError()
    Swift.print(report, to: &errors)
  }
}
