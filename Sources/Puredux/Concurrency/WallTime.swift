/// A time of day and year. Unlike an instant of a `ContinuousClock`, it means the same in every process, and after a
/// restart: it can be part of a state or an action.
///
///     try await auction.send(.open(until: auction.now + .seconds(3600)))
///
/// From a date of Foundation: `WallTime(since1970: .seconds(date.timeIntervalSince1970))`, and
/// `Date(timeIntervalSince1970: time.since1970 / .seconds(1))` is the way back.
public struct WallTime: Sendable, Hashable, Comparable {
  /// Leap seconds are not counted. Up to 100,000 years before or after: a time farther away counts as that.
  public let since1970: Duration

  /// The time so long after the beginning of 1970 in UTC; before it, where that is less than zero.
  public init(since1970: Duration) {
    self.since1970 = since1970.within(.longest * 1_000)
  }

  /// The present time by the system's clock, which may be set. A store has its own, `now`, which a test can provide.
  public static var now: WallTime {
    WallTime(since1970: Platform.wallClock)
  }

  public static func < (lhs: WallTime, rhs: WallTime) -> Bool { lhs.since1970 < rhs.since1970 }

  /// A later time; one that lies more than 100,000 years away counts as that.
  public static func + (time: WallTime, duration: Duration) -> WallTime {
    // More would lead beyond either end, and might overflow.
    WallTime(since1970: time.since1970 + duration.within(.longest * 2_000))
  }

  /// An earlier time; one that lies more than 100,000 years away counts as that.
  public static func - (time: WallTime, duration: Duration) -> WallTime {
    WallTime(since1970: time.since1970 - duration.within(.longest * 2_000))
  }

  /// How much later the first is.
  public static func - (lhs: WallTime, rhs: WallTime) -> Duration { lhs.since1970 - rhs.since1970 }
}

extension Duration {
  fileprivate func within(_ limit: Duration) -> Duration { min(max(self, .zero - limit), limit) }
}

/// In JSON, an object of integers: `{"seconds": 1764093600, "nanoseconds": 123456789}`. JavaScript represents each of
/// them exactly: `new Date(time.seconds * 1000 + time.nanoseconds / 1e6)`. A time between two nanoseconds also has
/// `attoseconds` (10^-18 seconds) beyond the nanoseconds. Before 1970 none of the integers is positive.
///
/// The earlier form can still be read: an array of the seconds, and of the attoseconds beyond them.
extension WallTime: Codable {
  private enum CodingKeys: String, CodingKey { case seconds, nanoseconds, attoseconds }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    let (seconds, attoseconds) = since1970.components
    try container.encode(seconds, forKey: .seconds)
    try container.encode(attoseconds / 1_000_000_000, forKey: .nanoseconds)
    let rest = attoseconds % 1_000_000_000
    if rest != 0 { try container.encode(rest, forKey: .attoseconds) }
  }

  public init(from decoder: any Decoder) throws {
    if var earlier = try? decoder.unkeyedContainer() {
      let seconds = try earlier.decode(Int64.self)
      let attoseconds = try earlier.decode(Int64.self)
      self.init(since1970: Duration(secondsComponent: seconds, attosecondsComponent: attoseconds))
      return
    }
    let container = try decoder.container(keyedBy: CodingKeys.self)
    let seconds = try container.decode(Int64.self, forKey: .seconds)
    let nanoseconds = try container.decode(Int64.self, forKey: .nanoseconds)
    let attoseconds = try container.decodeIfPresent(Int64.self, forKey: .attoseconds) ?? 0
    self.init(
      since1970: .seconds(seconds) + .nanoseconds(nanoseconds)
        + Duration(secondsComponent: 0, attosecondsComponent: attoseconds))
  }
}

/// A clock that knows the time of day and year, too: a store that is made with one goes by it (`now`). `ManualClock` of
/// `PureduxTesting` is one.
public protocol WallClock<Duration>: Clock {
  /// The present time of day and year.
  var wallTime: WallTime { get }
}
