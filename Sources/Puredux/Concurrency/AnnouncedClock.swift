/// A clock that is told of a sleep before the effect counts as asleep. So it knows every sleeper when a store has
/// settled.
package protocol AnnouncedClock: Clock where Duration == Swift.Duration {
  /// Announces the next `sleep(until:)` with this deadline.
  func announceSleep(until deadline: Instant)
}

extension AnnouncedClock {
  func announcing(from start: any InstantProtocol) -> (@Sendable (_ until: Swift.Duration) -> Void)? {
    guard let start = start as? Instant else { return nil }
    return { announceSleep(until: start.advanced(by: $0)) }
  }
}
