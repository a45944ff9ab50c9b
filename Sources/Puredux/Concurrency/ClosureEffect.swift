/// An effect that calls a closure.
///
/// SAFETY: the closure is set by the initializer, and taken where `begins` is true, which it is once. The compiler does
/// not check subclasses of `RunningEffect`.
final class ClosureEffect: RunningEffect, @unchecked Sendable {
  typealias Body = @Sendable (RunningEffect) async -> Void

  /// Nil once it has begun: an object that keeps the effect, such as a `Dispatch`, does not keep what its work has
  /// captured.
  private var body: Body?

  init(of runner: any Host, _ body: @escaping Body) {
    self.body = body
    super.init(of: runner)
  }

  override func run() async {
    guard begins() else { return }
    if let body = body.take() { await Self.$current.withValue(self) { await body(self) } }
    if !isEndTaken { runner.ended(self) }
  }
}
