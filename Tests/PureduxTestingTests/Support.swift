import Puredux
import PureduxTesting
import Testing

extension Issue {
  /// Whether this is its text.
  func says(_ text: String) -> Bool {
    if comments.map(\.rawValue) == [text] { return true }
    print("The issue says:\n\(comments.map(\.rawValue).joined(separator: "\n"))\nand not:\n\(text)")
    return false
  }
}

extension Issue {
  var text: String { comments.map(\.rawValue).joined(separator: "\n") }
}

extension ManualClock {
  /// Lets a time pass for the one that sleeps, as soon as there is one.
  func passes(_ duration: Duration) async {
    await untilAsleep(1)
    advance(by: duration)
  }
}
