/// Decides whether one order explains a history, from its records alone. Takes O(n log n) for n lines.
///
/// A history is correct if
/// - each replica applied a contiguous piece of one order, from its beginning on, and all replicas had the same state
///   at the same position;
/// - each acknowledged action is in the order exactly once, and no action is in it twice, was refused, or was never
///   called;
/// - an action follows all actions acknowledged before its call, by the same clock, and all earlier calls of its
///   writer;
/// - a read shows a state of the order that is as recent as it claims, without actions that were called later.
struct Checker {
  let history: History
  let order: Order
  let facts: [ActionFacts]
  let violations: Violations
  var figures = Verdict.Figures()
  var notes: [String] = []
  /// For each action, one incarnation that applied it, and the position. Nil if none did.
  var applications: [(incarnation: Int, position: Int)?]
  /// For actions with several acknowledgements, the indices of these calls.
  var acknowledgements: [Int: [Int]] = [:]
  /// Acknowledged positions of actions outside the order, at positions that nobody recorded.
  var toldOnly: [Int: Int] = [:]
  /// The first incarnation that began at each position.
  var beginnings: [Int: Int] = [:]

  init(_ history: History, limit: Int) {
    violations = Violations(limit: limit)
    applications = Array(repeating: nil, count: history.actions.count)
    var rising = history
    for index in rising.incarnations.indices {
      var last = rising.incarnations[index].after
      rising.incarnations[index].entries.removeAll { entry in
        defer { last = max(last, entry.position) }
        return entry.position <= last
      }
    }
    self.history = history
    order = Order(rising)
    facts = ActionFacts.all(of: history)
    checkApplications()
    checkReplicas(of: rising)
    checkCalls()
    checkOrderOfCalls()
    checkReads()
    addFiguresAndNotes()
  }

  var verdict: Verdict {
    Verdict(
      figures: figures, counts: violations.counts, violations: violations.first, notes: notes)
  }

  private mutating func addFiguresAndNotes() {
    figures.files = history.files.count
    figures.torn = history.torn.count
    figures.incarnations = history.incarnations.count
    figures.positions = order.entries.count
    var acknowledgements: [Int: [Int]] = [:]
    for call in history.calls where call.outcome == .acknowledged {
      guard let returned = call.returned else { continue }
      if call.action == nil { figures.reads += 1 } else { acknowledgements[call.file, default: []].append(returned) }
    }
    for (file, times) in acknowledgements.sorted(by: { $0.key < $1.key }) {
      let times = times.sorted()
      let stall =
        zip(times, times.dropFirst()).map { earlier, later in
          let (difference, hasOverflowed) = later.subtractingReportingOverflow(earlier)
          return hasOverflowed ? .max : difference
        }.max() ?? 0
      if stall > figures.longestStall {
        figures.longestStall = stall
        figures.longestStallFile = history.files[file].name
      }
    }
    for line in history.unreadable {
      violations.add(.unreadable) {
        Violation(kind: .unreadable, files: [name(line.file)], text: "line \(line.line): \(line.why)")
      }
    }
    for file in history.torn.prefix(violations.limit) { notes.append("the last line of \(name(file)) is torn") }
    for gap in order.gaps.prefix(violations.limit) {
      notes.append("positions after \(gap.after) up to \(gap.through) were not recorded")
    }
  }
}

extension History {
  /// Checks whether one order explains the history.
  ///
  /// - Parameter limit: The number of described violations of each kind. All are counted.
  public func checked(limit: Int = 10) -> Verdict { Checker(self, limit: limit).verdict }
}
