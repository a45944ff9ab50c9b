/// The time limit of a `send`. An object, so that a request without one is no larger for it.
@usableFromInline final class SendLimit: Sendable {
  let clock: ElapsedClock
  let time: Duration

  init(_ limit: Duration, by clock: ElapsedClock) {
    self.clock = clock
    time = clock.now + limit.clamped
  }

  var isOver: Bool { clock.now >= time }
}
