/// A wait that a test controls, in the task of an effect's work, such as at a gate. It counts as rest (`settled`) while
/// a condition holds, from its beginning to its end.
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

  /// May be called before `begin`: then there is no rest.
  package func end() { pause.end() }
}
