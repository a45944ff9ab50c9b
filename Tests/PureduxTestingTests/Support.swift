import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

extension ReportedFailure {
  /// Whether this is its text.
  func says(_ text: String) -> Bool { self.text == text }
}

/// Checks that helpers report failures while a body runs, at least one, and that each is one that is meant. They are no
/// issues of the test that runs.
func expectFailure(
  sourceLocation: SourceLocation = #_sourceLocation, isolation: isolated (any Actor)? = #isolation,
  _ body: () async -> Void, matching isMeant: (ReportedFailure) -> Bool = { _ in true }
) async {
  let failures = Record<ReportedFailure>()
  await ReportedFailure.$reader.withValue(ReportedFailure.Reader { failures.add($0) }) { await body() }
  if failures.all.isEmpty { Issue.record("No failure was reported.", sourceLocation: sourceLocation) }
  for failure in failures.all where !isMeant(failure) {
    Issue.record("Another failure was reported: \(failure.text)", sourceLocation: sourceLocation)
  }
}

extension ManualClock {
  /// Lets a time pass for the one that sleeps, as soon as there is one.
  func passes(_ duration: Duration) async {
    await untilAsleep(1)
    advance(by: duration)
  }
}
