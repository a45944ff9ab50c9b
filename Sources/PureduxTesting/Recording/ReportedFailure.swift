package import Testing

/// What a helper of this module finds wrong: an issue of the test that runs, or, where a test of the helpers itself
/// expects it, something to be read.
package struct ReportedFailure: Sendable {
  package let text: String
  package let sourceLocation: SourceLocation

  /// Takes the failures that are reported meanwhile; without it, each is an issue.
  @TaskLocal package static var reader: (@Sendable (ReportedFailure) -> Void)?
}

extension Issue {
  /// Reports a failure, with lines below its title. All that the helpers report passes here.
  static func record(_ title: String, _ lines: [String], at location: SourceLocation) {
    let failure = ReportedFailure(text: text(title, lines), sourceLocation: location)
    if let read = ReportedFailure.reader { return read(failure) }
    record(Comment(rawValue: failure.text), sourceLocation: location)
  }
}

/// A text with lines below it, as issues show them.
func text(_ title: String, _ lines: [String]) -> String {
  ([title] + lines.map { "  " + $0 }).joined(separator: "\n")
}
