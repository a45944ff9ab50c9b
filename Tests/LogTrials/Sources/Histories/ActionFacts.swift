/// The facts about an action from all its calls, of which a retried action has several.
struct ActionFacts: Sendable {
  /// The indices of the first and last of its effective calls: those that may have had an effect, or all calls if none
  /// may have. Nil if nobody called it. The other facts are of these calls.
  var calls: ClosedRange<Int>?
  var attempts = 0
  var failures = 0
  /// The earliest acknowledged call, by that call's clock.
  var acknowledged: Int?
  /// The writer. Nil if several called it.
  var writer: Int?
  /// The clock. Nil if the calls are by several clocks.
  var clock: Int?
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
      // A failed call does not explain the action's place.
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
