import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

extension ReportedFailure {
  func says(_ text: String) -> Bool { self.text == text }
}

/// Checks that helpers report at least one failure while the body runs, and that each is an expected one. These
/// failures are not issues of the running test.
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
  func passes(_ duration: Duration) async {
    await untilAsleep(1)
    advance(by: duration)
  }
}
