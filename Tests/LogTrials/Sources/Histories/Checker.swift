/// Decides whether there is one order that explains a history. It knows what was recorded, and nothing of how it came
/// about. Takes O(n log n) for n lines.
///
/// It is correct where
/// - each replica applied a contiguous piece of one order, from the position on that it began with, and all had the
///   same state at the same position;
/// - each action that was acknowledged is in the order once, none twice, none that was refused, none of nobody;
/// - an action comes behind all that had been acknowledged before it was called, by the same clock, and behind those
///   that its writer had called before it;
/// - a read shows a state of the order, one that is not older than it claims, and nothing that was called later.
struct Checker {
  let history: History
  let order: Order
  let facts: [ActionFacts]
  let violations: Violations
  var figures = Verdict.Figures()
  var notes: [String] = []
  /// An incarnation that applied each action, and where; nil for those that none did.
  var applications: [(incarnation: Int, position: Int)?]
  /// All acknowledgements of those actions that were acknowledged more than once, as indices of calls.
  var acknowledgements: [Int: [Int]] = [:]
  /// Where those actions were told to be that are not in the order, and whose positions nobody recorded.
  var toldOnly: [Int: Int] = [:]
  /// The first incarnation that began behind each position.
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
      notes.append("positions behind \(gap.after) up to \(gap.through) were not recorded by anybody")
    }
  }
}

extension History {
  /// Whether one order explains it, and what does not fit.
  ///
  /// - Parameter limit: How many violations of each kind are described. All are counted.
  public func checked(limit: Int = 10) -> Verdict { Checker(self, limit: limit).verdict }
}
