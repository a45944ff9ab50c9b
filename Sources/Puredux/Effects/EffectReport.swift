/// What a store reports about its effects, besides what they dispatch: passed to the `reporting` closure that the store
/// is made with, or printed on standard error if there is none.
public struct EffectReport: Sendable, CustomStringConvertible {
  /// What became of an effect.
  public enum Reason: Sendable {
    /// The work threw on its last attempt, and the error was not turned into an action.
    case failed(any Error)
    /// The work was not begun, as too many wait (`EffectPolicy.inTurn`).
    case turnedAway
  }

  /// What became of the effect.
  public let reason: Reason
  /// The store that the effect belongs to.
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
    }
  }

  /// Used if no closure is given.
  @usableFromInline static func print(_ report: EffectReport) {
    var errors = StandardError()
    Swift.print(report, to: &errors)
  }
}
