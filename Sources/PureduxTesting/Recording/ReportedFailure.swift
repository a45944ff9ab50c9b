package import Testing

/// What a helper of this module finds wrong: an issue of the test that runs, or, where a test of the helpers itself
/// expects it, something to be read.
package struct ReportedFailure: Sendable {
  package let text: String
  package let sourceLocation: SourceLocation

  /// Takes the failures that are reported meanwhile; without it, each is an issue.
  @TaskLocal package static var reader: Reader?

  /// An object: in optimized builds, a task-local value that is a closure crashes the program (6.3.1).
  package final class Reader: Sendable {
    fileprivate let read: @Sendable (ReportedFailure) -> Void

    package init(_ read: @escaping @Sendable (ReportedFailure) -> Void) { self.read = read }
  }
}

extension Issue {
  /// Reports a failure, with lines below its title. All that the helpers report passes here.
  static func record(_ title: String, _ lines: [String], at location: SourceLocation) {
    let failure = ReportedFailure(text: text(title, lines), sourceLocation: location)
    if let reader = ReportedFailure.reader { return reader.read(failure) }
    record(Comment(rawValue: failure.text), sourceLocation: location)
  }
}

/// A text with lines below it, as issues show them.
func text(_ title: String, _ lines: [String]) -> String {
  ([title] + lines.map { "  " + $0 }).joined(separator: "\n")
}
