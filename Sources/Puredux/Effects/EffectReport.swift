/// What a store has to tell of its effects beside what they dispatch: handed to the `reporting` closure that the store
/// is made with, and printed on standard error where there is none.
public struct EffectReport: Sendable, CustomStringConvertible {
  public enum Reason: Sendable {
    /// The work threw, for the last time that it was to be begun, and nothing makes an action of the error.
    case failed(any Error)
    /// It was not begun, as too many wait (`EffectPolicy.inTurn`).
    case turnedAway
  }

  public let reason: Reason
  /// The store that the effect belongs to.
  public let store: StoreID
  /// The effect's id, as it describes itself; none where it has none.
  public let effect: String?

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

  /// Where no closure is given.
  @usableFromInline static func print(_ report: EffectReport) {
    var errors = StandardError()
    Swift.print(report, to: &errors)
  }
}
