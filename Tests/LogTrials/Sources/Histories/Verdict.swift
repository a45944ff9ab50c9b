/// What a checker found.
public struct Verdict: Sendable, CustomStringConvertible {
  /// What a history has, in numbers.
  public struct Figures: Sendable, Equatable {
    public var files = 0
    public var torn = 0
    /// Actions that were acknowledged; each counts once, however often it was tried.
    public var acknowledged = 0
    /// Of these, those that are not in the order.
    public var missing = 0
    /// Actions that are in the order, or in what one replica applied, more than once.
    public var twice = 0
    /// Actions that certainly were not taken.
    public var failed = 0
    /// Actions of which nobody was told whether they were taken.
    public var unknown = 0
    /// Of these, those that are in the order.
    public var unknownTaken = 0
    /// Reads that returned.
    public var reads = 0
    public var incarnations = 0
    /// Positions of the order.
    public var positions = 0
    /// The longest time between two acknowledgements in one process, in nanoseconds.
    public var longestStall = 0
    /// The name of that process's file.
    public var longestStallFile = ""

    public init() {}
  }

  public var figures = Figures()
  /// How many violations there are of each kind that there are any of.
  public var counts: [Violation.Kind: Int] = [:]
  /// The first ones of each kind.
  public var violations: [Violation] = []
  /// What is no violation and should be known.
  public var notes: [String] = []

  /// Whether there is one order that explains everything.
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
