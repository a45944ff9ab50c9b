import Foundation
import Histories
import Puredux
import PureduxLog

/// The outcome of one fault: a row of a trial's table.
struct FaultOutcome {
  let fault: String
  var details = ""
  var acknowledged = 0
  var missing = 0
  var twice = 0
  /// The number of acknowledged entries that a restore, copy or purge took back. They do not count as missing.
  var takenBack = 0
  var longestStall = Duration.zero
  /// The reports of stores and failed openings, with their counts and first wordings.
  private(set) var told: [String: (count: Int, words: String)] = [:]

  init(_ fault: String) { self.fault = fault }

  mutating func add(_ verdict: Verdict) {
    acknowledged += verdict.figures.acknowledged
    missing += verdict.figures.missing
    twice += verdict.figures.twice
    longestStall = max(longestStall, verdict.longestStall)
  }

  /// Counts a report: an error by its case, a stop by its reason.
  mutating func note(_ what: String) {
    let what = what.replacingOccurrences(of: "Puredux.LogStop", with: "")
    let name = what.prefix { $0 != "(" }
    let reason = what.dropFirst(name.count + 1).prefix { $0 == "." || $0.isLetter }
    told[name == "stopped" ? "\(name)(\(reason))" : String(name), default: (0, what)].count += 1
  }

  mutating func note(_ error: any Error) { note("\(error)") }

  static func text(_ duration: Duration) -> String {
    String(format: "%.2f s", Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18)
  }

  func printed(inFull: Bool) {
    var line = "  \(fault)\(details.isEmpty ? "" : " (\(details))"): \(acknowledged) acknowledged, \(missing) missing, "
    line += "\(twice) twice"
    if takenBack > 0 { line += ", \(takenBack) taken back" }
    line += ", longest stall \(Self.text(longestStall))"
    let counts = told.sorted { $0.key < $1.key }
    if !counts.isEmpty { line += "; " + counts.map { "\($0.key) \($0.value.count)" }.joined(separator: ", ") }
    tell(line)
    guard inFull else { return }
    for (kind, words) in counts where words.words != kind { tell("    \(words.words.prefix(400))") }
  }
}

struct FaultTotals {
  private var outcomes: [String: FaultOutcome] = [:]
  private var counts: [String: Int] = [:]

  mutating func add(_ outcome: FaultOutcome) {
    counts[outcome.fault, default: 0] += 1
    var sum = outcomes[outcome.fault] ?? FaultOutcome(outcome.fault)
    sum.acknowledged += outcome.acknowledged
    sum.missing += outcome.missing
    sum.twice += outcome.twice
    sum.takenBack += outcome.takenBack
    sum.longestStall = max(sum.longestStall, outcome.longestStall)
    for (_, told) in outcome.told { for _ in 0..<told.count { sum.note(told.words) } }
    sum.details = "\(counts[outcome.fault, default: 0]) times"
    outcomes[outcome.fault] = sum
  }

  func printed() {
    tell("All runs:")
    for (_, outcome) in outcomes.sorted(by: { $0.key < $1.key }) { outcome.printed(inFull: false) }
    let all = outcomes.values.reduce(into: (0, 0, 0)) {
      $0 = ($0.0 + $1.acknowledged, $0.1 + $1.missing, $0.2 + $1.twice)
    }
    tell("\(all.0) acknowledged, \(all.1) missing, \(all.2) twice")
  }
}

extension HistoryFiles {
  /// The verdict on some of the processes' records.
  func verdict(of names: [String]) throws -> Verdict { try History(paths: names.map(path)).checked() }

  /// The same. If no order explains the records, prints why and ends the trial.
  func judge(_ names: [String], _ fault: String) throws -> Verdict {
    let verdict = try verdict(of: names)
    guard verdict.isCorrect else {
      tell("\(verdict)\n\(fault): the history is in \(directory): \(names.joined(separator: ", ")).")
      exit(1)
    }
    return verdict
  }

  func remove() throws { if !isKept { try FileManager.default.removeItem(atPath: directory) } }
}
