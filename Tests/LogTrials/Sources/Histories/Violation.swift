/// A contradiction in a history.
public struct Violation: Sendable, Equatable, CustomStringConvertible {
  /// The kinds of violations.
  public enum Kind: String, Sendable, CaseIterable {
    /// An acknowledged action is not in the order.
    case lost
    /// An acknowledged action is in no record, but some positions were not recorded.
    case unrecorded
    /// An action was applied more than once.
    case doubled
    /// An action precedes one that was acknowledged before its call, or an earlier call of its writer.
    case reordered
    /// A read is older than it claims.
    case stale
    /// Two records have different actions or states at the same position.
    case diverged
    /// An action is in the order though its caller was told that it never will be.
    case refusedYetApplied
    /// A replica's entries are not a contiguous piece of the order.
    case notAPrefix
    /// A replica applied an action that nobody called. Or a read showed a position or state that does not exist, or an
    /// action that was called later.
    case ofNobody
    /// A replica's positions do not rise.
    case notRising
    /// A line other than a file's last one cannot be read, and its content is unknown.
    case unreadable
  }

  public var kind: Kind
  /// The actions in question.
  public var actions: [String] = []
  /// The positions in question.
  public var positions: [Int] = []
  /// The names of the files with the evidence.
  public var files: [String] = []
  /// The observation.
  public var text: String

  public var description: String { "\(kind): \(text) [\(files.joined(separator: ", "))]" }
}

/// Counts violations by kind, and collects the first ones of each.
final class Violations {
  let limit: Int
  private(set) var counts: [Violation.Kind: Int] = [:]
  private(set) var first: [Violation] = []

  init(limit: Int) { self.limit = limit }

  /// Counts a violation. `make` is called only if the violation is collected.
  func add(_ kind: Violation.Kind, _ make: () -> Violation) {
    counts[kind, default: 0] += 1
    if counts[kind, default: 0] <= limit { first.append(make()) }
  }
}
