/// A time of day and year. Unlike an instant of a `ContinuousClock`, it means the same in every process and after a
/// restart, so it can be part of a state or an action.
///
///     try await auction.send(.open(until: auction.now + .seconds(3600)))
///
/// To convert a date of Foundation, use `WallTime(since1970: .seconds(date.timeIntervalSince1970))`, and back
/// `Date(timeIntervalSince1970: time.since1970 / .seconds(1))`.
public struct WallTime: Sendable, Hashable, Comparable {
  /// The time since the beginning of 1970 in UTC, without leap seconds, limited to 100,000 years in both directions.
  public let since1970: Duration

  /// Makes a time, limited to 100,000 years. A negative duration is a time before 1970.
  public init(since1970: Duration) {
    self.since1970 = since1970.within(.longest * 1_000)
  }

  /// The system's wall time. A store has its own, `now`, which a test can control.
  public static var now: WallTime {
    WallTime(since1970: Platform.wallClock)
  }

  public static func < (lhs: WallTime, rhs: WallTime) -> Bool { lhs.since1970 < rhs.since1970 }

  /// A later time, limited to 100,000 years from 1970.
  public static func + (time: WallTime, duration: Duration) -> WallTime {
    WallTime(since1970: time.since1970 + duration.within(.longest * 2_000))
  }

  /// An earlier time, limited to 100,000 years from 1970.
  public static func - (time: WallTime, duration: Duration) -> WallTime {
    WallTime(since1970: time.since1970 - duration.within(.longest * 2_000))
  }

  /// The duration from the second time to the first.
  public static func - (lhs: WallTime, rhs: WallTime) -> Duration { lhs.since1970 - rhs.since1970 }
}

extension Duration {
  fileprivate func within(_ limit: Duration) -> Duration { min(max(self, .zero - limit), limit) }
}

/// Encodes in JSON as an object of integers: `{"seconds": 1764093600, "nanoseconds": 123456789}`. JavaScript represents
/// each exactly: `new Date(time.seconds * 1000 + time.nanoseconds / 1e6)`. A time between two nanoseconds also has
/// `attoseconds` (10^-18 seconds). Before 1970 none of the integers is positive.
///
/// Also decodes the earlier form: an array of the seconds, and of the attoseconds beyond them.
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

/// A clock with a wall time, which a store with this clock uses as `now`, such as `ManualClock` of `PureduxTesting`.
public protocol WallClock<Duration>: Clock {
  /// The current time of day and year.
  var wallTime: WallTime { get }
}
