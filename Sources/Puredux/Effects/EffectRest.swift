/// A wait that a test decides about, in the task that does an effect's work: at a gate, on a clock that is advanced by
/// hand, or for what a subject is given. It counts as rest (`settled`) for as long as a condition holds, from its
/// beginning to its end.
package struct EffectRest: Sendable {
  private let effect: RunningEffect
  private let pause: RunningEffect.Pause

  /// Nil if the current task does not do the work of an effect.
  package init?(while isPending: @escaping @Sendable () -> Bool) {
    guard let effect = RunningEffect.ofThisTask else { return nil }
    self.effect = effect
    pause = RunningEffect.Pause(for: .time, while: { _ in isPending() })
  }

  package func begin() { effect.pauses(by: pause) }

  /// May come before the beginning: then there is no rest.
  package func end() { pause.end() }
}
