/// The result of a check.
public struct Verdict: Sendable, CustomStringConvertible {
  /// The numbers of a history.
  public struct Figures: Sendable, Equatable {
    public var files = 0
    public var torn = 0
    /// Acknowledged actions, each counted once.
    public var acknowledged = 0
    /// Acknowledged actions that are not in the order.
    public var missing = 0
    /// Actions that are in the order, or in one replica's entries, more than once.
    public var twice = 0
    /// Actions that certainly were not taken.
    public var failed = 0
    /// Actions whose outcome no caller was told.
    public var unknown = 0
    /// Unknown actions that are in the order.
    public var unknownTaken = 0
    /// Reads that returned.
    public var reads = 0
    public var incarnations = 0
    /// Positions of the order.
    public var positions = 0
    /// The longest time between two acknowledgements in one process, in nanoseconds.
    public var longestStall = 0
    /// The name of that process' file.
    public var longestStallFile = ""

    public init() {}
  }

  public var figures = Figures()
  /// The number of violations by kind, without zeros.
  public var counts: [Violation.Kind: Int] = [:]
  /// The first violations of each kind.
  public var violations: [Violation] = []
  /// Remarks that are no violations.
  public var notes: [String] = []

  /// Whether one order explains the history.
  public var isCorrect: Bool { counts.isEmpty }

  /// The longest time between two acknowledgements in one process.
  public var longestStall: Duration { .nanoseconds(figures.longestStall) }

  public var description: String {
    var lines = violations.map(\.description)
    for (kind, count) in counts.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let shown = violations.count { $0.kind == kind }
      if count > shown { lines.append("\(kind): \(count - shown) more") }
    }
    lines += notes.map { "note: \($0)" }
    lines.append(
      """
      \(figures.files) files, \(figures.torn) torn: \(figures.incarnations) incarnations of replicas, \
      \(figures.positions) positions, \(figures.reads) reads
      \(figures.acknowledged) acknowledged, \(figures.missing) missing, \(figures.twice) twice, \
      \(figures.failed) refused, \(figures.unknown) unknown (\(figures.unknownTaken) of them taken), \
      longest stall \(longestStall)\(figures.longestStallFile.isEmpty ? "" : " in \(figures.longestStallFile)")
      """)
    lines.append(
      isCorrect
        ? "One order explains it."
        : "No order explains it: "
          + counts.sorted { $0.key.rawValue < $1.key.rawValue }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
    return lines.joined(separator: "\n")
  }
}
