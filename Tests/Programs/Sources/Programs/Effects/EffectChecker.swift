/// Compares a run of a program of effects with the model.
enum EffectChecker {
  static func failures(expected: [EffectPhase], actual: [EffectPhase], isCarrying: Bool) -> [String] {
    for (number, phase) in expected.enumerated() {
      guard number < actual.count else { return ["G8 the run ended before phase \(number)"] }
      if let difference = difference(expected: phase, actual: actual[number], isCarrying: isCarrying) {
        return ["G8 phase \(number), \(phase.doing): \(difference)"]
      }
    }
    return []
  }

  /// The first difference in one phase; nil if there is none.
  static func difference(expected: EffectPhase, actual: EffectPhase, isCarrying: Bool) -> String? {
    if expected.answers != actual.answers {
      return "gifts were answered \(actual.answers) and not \(expected.answers)"
    }
    if expected.returned != actual.returned {
      return "of the performed, \(actual.returned) have returned and not \(expected.returned)"
    }
    for place in 0..<max(expected.commits.count, actual.commits.count) {
      guard place < expected.commits.count else { return "\(actual.commits[place]) is committed" }
      guard place < actual.commits.count else { return "\(expected.commits[place]) is not committed" }
      var commit = actual.commits[place]
      // A send by the driver may be performed at once, under the driver's own values.
      if !isCarrying, case .driver(let step, _) = commit.cause, commit.carried == step + 1 { commit.carried = 0 }
      if commit != expected.commits[place] { return "\(commit) is committed and not \(expected.commits[place])" }
    }
    for key in Set(expected.entries.keys).union(actual.entries.keys).sorted() {
      let (times, actualTimes) = (expected.entries[key] ?? 0, actual.entries[key] ?? 0)
      let isRight = actualTimes == times || actualTimes == times + 1 && expected.maybe.contains(key)
      if !isRight { return "\(key) was entered \(actualTimes) times and not \(times)" }
      if let carried = expected.carried[key], let actual = actual.carried[key], carried != actual {
        return "\(key) sees the carried value \(actual) and not \(carried)"
      }
    }
    if expected.failed.sorted() != actual.failed.sorted() {
      return "reported as failed were \(actual.failed), not \(expected.failed)"
    }
    if !(expected.turnedAway - expected.maybeTurnedAway...expected.turnedAway).contains(actual.turnedAway) {
      return "\(actual.turnedAway) were reported as turned away, not \(expected.turnedAway)"
    }
    if expected.live != actual.live {
      return "at work are \(actual.live.sorted()) and not \(expected.live.sorted())"
    }
    if expected.doing != .shutDown(0), expected.count != actual.count {
      return "the statistics count \(actual.count) under ids and not \(expected.count)"
    }
    return nil
  }
}
