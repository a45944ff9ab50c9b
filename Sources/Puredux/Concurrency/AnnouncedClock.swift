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
