/// What is known of an action from all calls that gave it: several, where it was tried again.
struct ActionFacts: Sendable {
  /// The first and the last of its calls, as indices; nil where nobody called it.
  var calls: ClosedRange<Int>?
  var attempts = 0
  /// How many of its calls certainly did nothing.
  var failures = 0
  /// The first of its calls that was acknowledged.
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
      facts[action].add(call, index, clock: history.files[call.file].clock)
    }
    return facts
  }

  private mutating func add(_ call: History.Call, _ index: Int, clock: Int) {
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
    attempts += 1
    switch call.outcome {
    case .acknowledged: if acknowledged == nil { acknowledged = index }
    case .failed: failures += 1
    case .unknown: break
    }
  }
}
