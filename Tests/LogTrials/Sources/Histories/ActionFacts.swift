/// What is known of an action from all calls that gave it: several, where it was tried again.
struct ActionFacts: Sendable {
  /// The first and the last of its calls that may have done something, as indices; of all, where none of them may; nil
  /// where nobody called it. What is said of it below is of these.
  var calls: ClosedRange<Int>?
  var attempts = 0
  /// How many of its calls certainly did nothing.
  var failures = 0
  /// Of its calls that were acknowledged the one that was first, as far as the clock of that one tells.
  var acknowledged: Int?
  /// Whose it is; nil where several writers called it.
  var writer: Int?
  /// The clock of all its calls; nil where they are of several.
  var clock: Int?
  /// When it was first called.
  var invoked = Int.max

  var isRefused: Bool { attempts > 0 && failures == attempts }

  static func all(of history: History) -> [ActionFacts] {
    var facts = Array(repeating: ActionFacts(), count: history.actions.count)
    for (index, call) in history.calls.enumerated() {
      guard let action = call.action else { continue }
      facts[action].add(call, index, in: history)
    }
    return facts
  }

  private mutating func add(_ call: History.Call, _ index: Int, in history: History) {
    let clock = history.files[call.file].clock
    defer { attempts += 1 }
    if call.outcome == .failed {
      failures += 1
      // One that certainly did nothing is no reason for where the action is.
      if failures <= attempts { return }
    } else if isRefused {
      calls = nil
      invoked = .max
    }
    if let calls {
      self.calls = calls.lowerBound...index
      if writer != call.writer { writer = nil }
      if self.clock != clock { self.clock = nil }
    } else {
      calls = index...index
      writer = call.writer
      self.clock = clock
    }
    invoked = min(invoked, call.invoked)
    guard call.outcome == .acknowledged else { return }
    if let first = acknowledged.map({ history.calls[$0] }) {
      guard history.files[first.file].clock == clock, let one = call.returned, let other = first.returned, one < other
      else { return }
    }
    acknowledged = index
  }
}
