/// An effect that calls a closure.
///
/// SAFETY: the initializer sets the closure, and it is taken after `begins` has returned true, which happens once. The
/// compiler does not check subclasses of `RunningEffect`.
final class ClosureEffect: RunningEffect, @unchecked Sendable {
  typealias Body = @Sendable (RunningEffect) async -> Void

  /// Nil once begun, so that an object that holds the effect, such as a `Dispatch`, does not hold the captures of its
  /// work.
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
