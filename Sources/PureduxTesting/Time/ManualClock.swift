public import Puredux
public import Testing

/// A clock that stands still until it is advanced.
///
///     let clock = ManualClock()
///     let store = RootStore(
///       initialState: Search(), options: StoreOptions(clock: clock), interceptors: .search(by: service),
///       reducer: reduce)
///     store.dispatch(.typed("swift"))
///     await clock.advance(by: .milliseconds(300), settling: store)
///
/// What sleeps on it is woken in the order of the deadlines. An effect that sleeps on it in its own task is at rest for
/// `settled()`, whether it sleeps by `Dispatch.sleep(for:)` or on the clock itself.
public final class ManualClock: AnnouncedClock, WallClock, Sendable {
  public typealias Duration = Swift.Duration

  /// A time by the clock.
  public struct Instant: InstantProtocol {
    /// The time since the clock was made.
    public var time: Swift.Duration

    /// - Parameter time: The time since the clock was made.
    public init(time: Swift.Duration = .zero) { self.time = time }

    public func advanced(by duration: Swift.Duration) -> Instant { Instant(time: time.plus(duration)) }
    public func duration(to other: Instant) -> Swift.Duration { other.time.minus(time) }
    public static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.time < rhs.time }
  }

  private struct Sleepers: Sendable {
    var now = Instant()
    /// The time of day and year when `now` was zero.
    var start: WallTime
    var count = 0
    var asleep: [Int: (until: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
    /// Those that were cancelled and are not asleep.
    var cancelled: Set<Int> = []
    /// How many sleeps with a deadline are about to begin.
    var announced: [Instant: Int] = [:]
    var expectations: [(count: Int, gate: Gate)] = []

    mutating func openGates() -> [Gate] {
      let met = expectations.filter { $0.count == asleep.count }
      expectations.removeAll { $0.count == asleep.count }
      return met.map(\.gate)
    }

    var nextDeadline: Instant? {
      let announced = announced.keys.lazy.filter { $0 > now }
      return [asleep.values.lazy.map(\.until).min(), announced.min()].lazy.compactMap { $0 }.min()
    }
  }

  private let sleepers: LockedValue<Sleepers>

  /// Its time is zero.
  ///
  /// - Parameter wallTime: The time of day and year, which moves with it: where the clock of a process that was started
  ///   later begins.
  public init(wallTime: WallTime = WallTime(since1970: .zero)) {
    sleepers = LockedValue(Sleepers(start: wallTime))
  }

  /// The time to which it has been advanced.
  public var now: Instant { sleepers.withLock { $0.now } }

  /// The time of day and year.
  public var wallTime: WallTime { sleepers.withLock { $0.start + $0.now.time } }

  /// Sets the time of day and year, as that of a machine is set: `now` stays, and nobody is woken.
  public func set(_ wallTime: WallTime) { sleepers.withLock { $0.start = wallTime - $0.now.time } }

  public var minimumResolution: Swift.Duration { .zero }

  /// Returns when the clock has reached the deadline; at once if it has.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public func sleep(until deadline: Instant, tolerance: Swift.Duration? = nil) async throws {
    let number = sleepers.withLock { sleepers in
      sleepers.count += 1
      return sleepers.count
    }
    let rest = EffectRest { [self] in now < deadline }
    defer {
      rest?.end()
      _ = sleepers.withLock { $0.cancelled.remove(number) }
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
        let (outcome, gates) = sleepers.withLock { sleepers -> (Result<Void, any Error>?, [Gate]) in
          if let announced = sleepers.announced[deadline] {
            sleepers.announced[deadline] = announced > 1 ? announced - 1 : nil
          }
          if sleepers.cancelled.contains(number) { return (.failure(CancellationError()), []) }
          if deadline <= sleepers.now { return (.success(()), []) }
          sleepers.asleep[number] = (deadline, continuation)
          return (nil, sleepers.openGates())
        }
        for gate in gates { gate.open() }
        // Not before the clock knows of it: what is at rest shows in `nextDeadline`.
        if let outcome { continuation.resume(with: outcome) } else { rest?.begin() }
      }
    } onCancel: {
      rest?.end()
      let (sleeper, gates) = sleepers.withLock { sleepers in
        let sleeper = sleepers.asleep.removeValue(forKey: number)
        if sleeper == nil { sleepers.cancelled.insert(number) }
        return (sleeper, sleepers.openGates())
      }
      sleeper?.continuation.resume(throwing: CancellationError())
      for gate in gates { gate.open() }
    }
  }

  package func announceSleep(until deadline: Instant) {
    sleepers.withLock { $0.announced[deadline, default: 0] += 1 }
  }

  /// How many sleeps have begun.
  package var sleepCount: Int { sleepers.withLock { $0.count } }

  /// The earliest deadline of those that sleep; nil if none does.
  public var nextDeadline: Instant? { sleepers.withLock { $0.nextDeadline } }

  /// Returns when exactly that many tasks sleep, or the caller is cancelled: for tasks that belong to no store. Those
  /// of a store's effects sleep when the store has settled.
  public func untilAsleep(_ count: Int) async {
    let gate = Gate()
    await withTaskCancellationHandler {
      let isMet = sleepers.withLock { sleepers in
        if sleepers.asleep.count == count { return true }
        sleepers.expectations.append((count, gate))
        return false
      }
      if !isMet { await gate.wait() }
    } onCancel: {
      gate.open()
    }
    // Of one that is met, nothing is left.
    let gone = sleepers.withLock { sleepers in
      let index = sleepers.expectations.firstIndex { $0.gate === gate }
      return index.map { sleepers.expectations.remove(at: $0) }
    }
    withExtendedLifetime(gone) {}
  }

  // MARK: Advancing

  /// Moves the clock in one step, and wakes the sleepers whose time has come, in the order of their deadlines. A
  /// duration of zero or less moves nothing: time does not go back. More than a hundred years counts as that.
  ///
  /// It does not wait for what the sleepers do then. One that sleeps for five seconds again and again is woken once,
  /// however far the clock is moved; `advance(by:settling:)` wakes it each time.
  public func advance(by duration: Swift.Duration) { advance { $0.now.advanced(by: duration.clamped) } }

  /// - Returns: How far it was moved.
  @discardableResult private func advance(to time: (Sleepers) -> Instant?) -> Swift.Duration {
    let (moved, awake, gates) = sleepers.withLock { sleepers in
      let before = sleepers.now
      let now = max(before, time(sleepers) ?? before)
      sleepers.now = now
      let awake = sleepers.asleep.filter { $0.value.until <= now }
      for number in awake.keys { sleepers.asleep[number] = nil }
      return (
        before.duration(to: now),
        awake.sorted { ($0.value.until, $0.key) < ($1.value.until, $1.key) }.map(\.value.continuation),
        sleepers.openGates()
      )
    }
    for continuation in awake { continuation.resume() }
    for gate in gates { gate.open() }
    return moved
  }

  /// Moves the clock from one deadline to the next, up to a duration, and has the stores settle before, in between and
  /// after: whatever sleeps again in the meantime is woken again, and every wait lasts as long as it says.
  ///
  /// The stores are those whose effects sleep on this clock. As `settled()`, it waits for effects that do anything else
  /// than sleep or wait for states. With a duration of zero or less it only lets them settle.
  public func advance(by duration: Swift.Duration, settling store: any OwningStore, _ others: any OwningStore...) async
  {
    await advance(by: duration, settling: [store] + others)
  }

  /// For many stores.
  public func advance(by duration: Swift.Duration, settling stores: [any OwningStore]) async {
    await advance(by: duration) { await Self.settle(stores) }
  }

  private static func count(in store: some OwningStore) -> Int { StoreProbe(store.store()).commitCount }

  /// In rounds where there are several, as what one does may give another something to do: until a round commits
  /// nothing.
  private static func settle(_ stores: [any OwningStore]) async -> Bool {
    var (commits, before) = (0, -1)
    repeat {
      for store in stores { await store.settled() }
      (before, commits) = (commits, 0)
      for store in stores where stores.count > 1 { commits += count(in: store) }
    } while commits != before && stores.count > 1 && !Task.isCancelled
    return !Task.isCancelled
  }

  /// - Parameter settle: Whether to go on.
  func advance(by duration: Swift.Duration, settle: () async -> Bool) async {
    var left = duration.clamped
    while await settle(), left > .zero {
      let moved = advance { min($0.nextDeadline ?? $0.now.advanced(by: left), $0.now.advanced(by: left)) }
      // At the last instant that there is.
      if moved == .zero { return }
      left -= moved
    }
  }

  /// Moves the clock to the earliest deadline, and has the stores settle before and after.
  ///
  /// - Returns: How far it was moved; nil if nothing sleeps.
  @discardableResult
  public func advanceToNextSleeper(
    settling store: any OwningStore, _ others: any OwningStore...
  ) async -> Swift.Duration? {
    await advanceToNextSleeper { await Self.settle([store] + others) }.moved
  }

  func advanceToNextSleeper(settle: () async -> Bool) async -> (moved: Swift.Duration?, goesOn: Bool) {
    guard await settle() else { return (nil, false) }
    let moved = advance(to: \.nextDeadline)
    return moved > .zero ? (moved, await settle()) : (nil, false)
  }

  /// Moves the clock from one deadline to the next until nothing sleeps any more, and has the stores settle each time.
  ///
  /// - Parameters:
  ///   - store: A store whose effects sleep on the clock.
  ///   - others: Further ones.
  ///   - limit: The number of deadlines after which an issue is recorded at the caller's line: what polls never ends.
  ///   - sourceLocation: Where issues are reported.
  public func run(
    settling store: any OwningStore, _ others: any OwningStore..., limit: Int = 1_000,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    await run(limit: limit, sourceLocation: sourceLocation) { await Self.settle([store] + others) }
  }

  func run(limit: Int, sourceLocation: SourceLocation, settle: () async -> Bool) async {
    var steps = 0
    while await advanceToNextSleeper(settle: settle).goesOn {
      steps += 1
      if steps >= limit, let next = nextDeadline {
        Issue.record(
          "Something still sleeps after \(limit) deadlines: the next is \(now.duration(to: next)) away.", [],
          at: sourceLocation)
        return
      }
    }
  }
}

extension Duration {
  /// The sum, or the least or the most that there is.
  fileprivate func plus(_ other: Duration) -> Duration {
    let (sum, isTooFar) = attoseconds.addingReportingOverflow(other.attoseconds)
    return Duration(attoseconds: isTooFar ? (other < .zero ? .min : .max) : sum)
  }

  fileprivate func minus(_ other: Duration) -> Duration {
    let (difference, isTooFar) = attoseconds.subtractingReportingOverflow(other.attoseconds)
    return Duration(attoseconds: isTooFar ? (other < .zero ? .max : .min) : difference)
  }
}
