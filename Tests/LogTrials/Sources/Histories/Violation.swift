/// What is wrong with a history.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
  /// The names of what can be wrong.
  public enum Kind: String, Sendable, CaseIterable {
    /// An action was acknowledged, and is not in the order.
    case lost
    /// An action was acknowledged, and is in nothing that was recorded; but there are positions that nobody recorded.
    case unrecorded
    /// An action was applied more than once.
    case doubled
    /// An action comes before one that had been acknowledged before it was called, or that its writer had given before.
    case reordered
    /// A read has not shown what it claims to.
    case stale
    /// Two have different actions, or different states, at the same position.
    case diverged
    /// An action is in the order though its caller was told that it certainly is not.
    case refusedYetApplied
    /// What a replica applied is not a contiguous piece of the order.
    case notAPrefix
    /// A replica applied an action that nobody has called, or a read showed a position, or a state, that there is not,
    /// or what was called only later.
    case ofNobody
    /// The positions that a replica applied do not rise.
    case notRising
    /// A line cannot be read, and it is not the last one of its file. What it said is not known.
    case unreadable
  }

  public var kind: Kind
  /// The actions that it is about.
  public var actions: [String] = []
  /// The positions that it is about.
  public var positions: [Int] = []
  /// The names of the files that show it.
  public var files: [String] = []
  /// What was seen.
  public var text: String

  public var description: String { "\(kind): \(text) [\(files.joined(separator: ", "))]" }
}

/// Collects violations: of each kind how many there are, and the first ones of them.
final class Violations {
  let limit: Int
  private(set) var counts: [Violation.Kind: Int] = [:]
  private(set) var first: [Violation] = []

  init(limit: Int) { self.limit = limit }

  /// The violation is only made where it is kept.
  func add(_ kind: Violation.Kind, _ make: () -> Violation) {
    counts[kind, default: 0] += 1
    if counts[kind, default: 0] <= limit { first.append(make()) }
  }
}
