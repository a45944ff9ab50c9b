/// Why a store could not do what it was asked to do.
public enum StoreError: Error, Sendable, Equatable {
  /// The store is shut down or released. What it was given changed nothing (G9).
  case terminated
  /// An optional scope has no state at present.
  case stateUnavailable
  /// A projection maps the action to nothing: no store was given it.
  case unmapped
  /// Middleware stopped the action: it changed nothing. The reason is the one that the middleware gave.
  case rejected(reason: RejectionReason?)
}

/// Why middleware stopped an action: a literal text, to be shown or compared.
///
///     extension RejectionReason {
///       static let roomClosed: Self = "The room is closed."
///     }
///
/// Literals only, so that a `StoreError` is a plain value: the compiler (6.3) crashes on code that catches some of a
/// typed error's cases if one of them holds something reference-counted.
public struct RejectionReason: Sendable, Hashable, ExpressibleByStringLiteral, CustomStringConvertible {
  private let text: StaticString

  public init(stringLiteral text: StaticString) {
    self.text = text
  }

  public var description: String { text.description }

  public static func == (lhs: RejectionReason, rhs: RejectionReason) -> Bool { lhs.description == rhs.description }

  public func hash(into hasher: inout Hasher) {
    hasher.combine(description)
  }
}
