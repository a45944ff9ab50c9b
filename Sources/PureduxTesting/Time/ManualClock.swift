public import Puredux
public import Testing

/// A clock that stands still until the test advances it.
///
///     let clock = ManualClock()
///     let store = RootStore(
///       initialState: Search(), options: StoreOptions(clock: clock), interceptors: .search(by: service),
///       reducer: reduce)
///     store.dispatch(.typed("swift"))
///     await clock.advance(by: .milliseconds(300), settling: store)
///
/// Sleeping tasks are woken in the order of their deadlines. An effect that sleeps in its own task, by
/// `Dispatch.sleep(for:)` or on the clock, is at rest for `settled()`.
public final class ManualClock: AnnouncedClock, WallClock, Sendable {
  public typealias Duration = Swift.Duration

  /// An instant of the clock.
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
    var start: WallTime
    var count = 0
    var asleep: [Int: (until: Instant, continuation: CheckedContinuation<Void, any Error>)] = [:]
    var cancelled: Set<Int> = []
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

  /// Makes a clock at time zero.
  ///
  /// - Parameter wallTime: The time of day and year, which advances with the clock. A process that starts later has a
  ///   later one.
  public init(wallTime: WallTime = WallTime(since1970: .zero)) {
    sleepers = LockedValue(Sleepers(start: wallTime))
  }

  /// The time to which the clock has been advanced.
  public var now: Instant { sleepers.withLock { $0.now } }

  /// The time of day and year.
  public var wallTime: WallTime { sleepers.withLock { $0.start + $0.now.time } }

  /// Sets the time of day and year. `now` stays, and no task is woken.
  public func set(_ wallTime: WallTime) { sleepers.withLock { $0.start = wallTime - $0.now.time } }

  public var minimumResolution: Swift.Duration { .zero }

  /// Returns when the clock has reached the deadline.
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
        // Not earlier: `nextDeadline` covers every sleep at rest.
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

  package var sleepCount: Int { sleepers.withLock { $0.count } }

  /// The earliest deadline of a sleeping task; nil if no task sleeps.
  public var nextDeadline: Instant? { sleepers.withLock { $0.nextDeadline } }

  /// Returns when exactly `count` tasks sleep, or the caller is cancelled: for tasks that belong to no store. Those of
  /// a store's effects sleep once it has settled.
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
    let gone = sleepers.withLock { sleepers in
      let index = sleepers.expectations.firstIndex { $0.gate === gate }
      return index.map { sleepers.expectations.remove(at: $0) }
    }
    withExtendedLifetime(gone) {}
  }

  // MARK: Advancing

  /// Advances the clock in one step, and wakes the due tasks in the order of their deadlines, without waiting for them.
  /// A duration of zero or less does nothing; more than a hundred years counts as a hundred years.
  ///
  /// A task that sleeps again and again is woken once; `advance(by:settling:)` wakes it each time.
  public func advance(by duration: Swift.Duration) { advance { $0.now.advanced(by: duration.clamped) } }

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

  /// Advances the clock from deadline to deadline, by a duration in all. Lets the stores whose effects sleep on it
  /// settle before, in between and after, so that repeated sleeps are woken each time.
  ///
  /// Like `settled()`, it waits for effects that do anything but sleep or wait for states. With a duration of zero or
  /// less it only lets the stores settle.
  public func advance(by duration: Swift.Duration, settling store: any OwningStore, _ others: any OwningStore...) async
  {
    await advance(by: duration, settling: [store] + others)
  }

  /// Does the same for an array of stores.
  public func advance(by duration: Swift.Duration, settling stores: [any OwningStore]) async {
    await advance(by: duration) { await Self.settle(stores) }
  }

  private static func count(in store: some OwningStore) -> Int { StoreProbe(store.store()).commitCount }

  /// Until a round commits nothing, as one store may give another an action.
  private static func settle(_ stores: [any OwningStore]) async -> Bool {
    var (commits, before) = (0, -1)
    repeat {
      for store in stores { await store.settled() }
      (before, commits) = (commits, 0)
      for store in stores where stores.count > 1 { commits += count(in: store) }
    } while commits != before && stores.count > 1 && !Task.isCancelled
    return !Task.isCancelled
  }

  func advance(by duration: Swift.Duration, settle: () async -> Bool) async {
    var left = duration.clamped
    while await settle(), left > .zero {
      let moved = advance { min($0.nextDeadline ?? $0.now.advanced(by: left), $0.now.advanced(by: left)) }
      if moved == .zero { return }
      left -= moved
    }
  }

  /// Advances the clock to the earliest deadline. Lets the stores settle before and after.
  ///
  /// - Returns: The time by which the clock was advanced; nil if no task sleeps.
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

  /// Advances the clock from deadline to deadline until no task sleeps. Lets the stores settle each time.
  ///
  /// - Parameters:
  ///   - store: A store whose effects sleep on the clock.
  ///   - others: Further stores.
  ///   - limit: The number of deadlines after which an issue is recorded.
  ///   - sourceLocation: The place of issues.
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
  fileprivate func plus(_ other: Duration) -> Duration {
    let (sum, isTooFar) = attoseconds.addingReportingOverflow(other.attoseconds)
    return Duration(attoseconds: isTooFar ? (other < .zero ? .min : .max) : sum)
  }

  fileprivate func minus(_ other: Duration) -> Duration {
    let (difference, isTooFar) = attoseconds.subtractingReportingOverflow(other.attoseconds)
    return Duration(attoseconds: isTooFar ? (other < .zero ? .max : .min) : difference)
  }
}
