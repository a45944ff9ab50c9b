/// A wait that a test decides about, in the task that does an effect's work: at a gate, or on a clock that is advanced
/// by hand. It counts as rest (`settled`) for as long as a condition holds, from its beginning to its end.
package struct EffectRest: Sendable {
  private let effect: RunningEffect
  private let pause: EffectPause

  /// Nil if the current task does not do the work of an effect.
  package init?(while isPending: @escaping @Sendable () -> Bool) {
    guard let effect = RunningEffect.current, effect.isHere else { return nil }
    self.effect = effect
    pause = EffectPause(for: .time, while: { _ in isPending() })
  }

  package func begin() { effect.pauses(by: pause) }

  /// May come before the beginning: then there is no rest.
  package func end() { pause.end() }
}

/// A clock that is told of a sleep before an effect counts as asleep, and so knows each sleeper when a store has
/// settled.
package protocol AnnouncedClock: Clock where Duration == Swift.Duration {
  /// The next `sleep(until:)` with this deadline is the one that is announced.
  func announceSleep(until deadline: Instant)
}

extension AnnouncedClock {
  /// Announces a sleep until a time has elapsed since an instant of this clock.
  func announcing(from start: any InstantProtocol) -> (@Sendable (_ until: Swift.Duration) -> Void)? {
    guard let start = start as? Instant else { return nil }
    return { announceSleep(until: start.advanced(by: $0)) }
  }
}
