package import Testing

/// An issue of the test, unless a test of the helpers reads it.
package struct ReportedFailure: Sendable {
  package let text: String
  package let sourceLocation: SourceLocation

  @TaskLocal package static var reader: Reader?

  /// A class: a task-local value that is a closure crashes optimized programs (6.3.1).
  package final class Reader: Sendable {
    fileprivate let read: @Sendable (ReportedFailure) -> Void

    package init(_ read: @escaping @Sendable (ReportedFailure) -> Void) { self.read = read }
  }
}

extension Issue {
  static func record(_ title: String, _ lines: [String], at location: SourceLocation) {
    let failure = ReportedFailure(text: text(title, lines), sourceLocation: location)
    if let reader = ReportedFailure.reader { return reader.read(failure) }
    record(Comment(rawValue: failure.text), sourceLocation: location)
  }
}

func text(_ title: String, _ lines: [String]) -> String {
  ([title] + lines.map { "  " + $0 }).joined(separator: "\n")
}
