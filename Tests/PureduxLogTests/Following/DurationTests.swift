import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

/// Every duration parameter of `PureduxLog` and `PureduxLogTesting` at its extremes: nothing traps, and nothing repeats
/// without a pause.
@Suite(.timeLimit(.minutes(15))) struct DurationTests {
  static let extremes: [Duration] = [
    Duration(attoseconds: .max), Duration(attoseconds: .min), .zero, .nanoseconds(-1),
  ]

  func options(_ option: WritableKeyPath<LogOptions, Duration>, _ duration: Duration) -> LogOptions {
    var options = LogOptions.quick
    options[keyPath: option] = duration
    return options
  }

  @Test("how long a send waits", arguments: extremes)
  func sendLimit(duration: Duration) async throws {
    let log = GatedLog()
    var options = LogOptions.quick
    options.sendLimit = duration
    let store = try await ledger(log, options: options)
    let sending = Task { try await store.send("sent") }
    if duration > .zero {
      // The entry is given to the log repeatedly.
      await log.untilHeld(3)
      await log.open()
      try await sending.value
    } else {
      await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
      await log.open()
    }
    #expect(await store.state.entries == ["sent"])
    await store.shutdown()
  }

  @Test("how long an entry without an acknowledgement is waited for", arguments: extremes)
  func patience(duration: Duration) async throws {
    let log = GatedLog()
    let store = try await ledger(log, options: options(\.patience, duration))
    let sending = Task { try await store.send("sent") }
    await log.untilHeld(duration > .zero ? 1 : 8)
    await log.open()
    try await sending.value
    #expect(await store.state.entries == ["sent"])
    await store.shutdown()
  }

  @Test("the interval of retries", arguments: extremes)
  func retryInterval(duration: Duration) async throws {
    let clock = ManualClock()
    let log = GatedLog()
    let store = try await ledger(log, options: options(\.retryInterval, duration), clock: clock)
    let sending = Task { try await store.send("sent") }
    await log.untilHeld(1)
    // It is not repeated without a pause: the clock stands still.
    await clock.untilAsleep(1)
    clock.advance(by: duration)
    await log.open()
    try await sending.value
    await store.shutdown()
  }

  @Test("how long a log that is away is tried", arguments: extremes)
  func openingLimit(duration: Duration) async throws {
    let log = AwayLog()
    let options = options(\.openingLimit, duration)
    if duration > .zero {
      let store = try await ledger(log, options: options)
      try await store.send("sent")
      await store.shutdown()
    } else {
      await #expect(throws: LogError.unavailable("It is away.")) { try await ledger(log, options: options) }
    }
  }

  @Test("how long a store that has ended waits for its log", arguments: extremes)
  func endingLimit(duration: Duration) async throws {
    let log = GatedLog()
    let store = try await ledger(log, options: options(\.endingLimit, duration))
    let sending = Task { try await store.send("sent") }
    await log.untilHeld(1)
    if duration > .zero {
      let ending = Task { await store.shutdown() }
      while store.dispatch("late") != .terminated { await Task.yield() }
      await log.open()
      try await sending.value
      await ending.value
    } else {
      await store.shutdown()
      await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
      await log.open()
    }
  }

  @Test("how long a lease lasts", arguments: extremes)
  func lease(duration: Duration) async throws {
    let clock = ManualClock()
    let store = RootStore<Lease, Lease.Claim>(initialState: Lease(), options: StoreOptions(clock: clock)) {
      lease, claim in lease.apply(claim)
    }
    let first = Leaseholder<Lease, Lease.Claim>(lease: { $0 }, action: { $0 }, duration: duration)
    let second = Leaseholder<Lease, Lease.Claim>(lease: { $0 }, action: { $0 }, duration: duration)
    first.hold(store, effects: [])
    await store.settled()
    second.hold(store, effects: [])
    // It is not repeated without a pause: the clock stands still.
    await store.settled()
    #expect(await store.state.term == 1)
    #expect(await store.state.renewals == 0)
    await clock.advanceToNextSleeper(settling: store)
    #expect(await store.state.renewals == 1)
    await store.shutdown()
  }

  @Test("how long a part of a log's contract may take", arguments: extremes)
  func checkLimit(duration: Duration) async throws {
    let logs = Logs()
    let check = { @Sendable () async throws in try await checkOrderedLog(within: duration) { await logs.log(of: $0) } }
    if duration > .zero { try await check() } else { await #expect(throws: LogViolation.self) { try await check() } }
  }

  private actor Logs {
    private var all: [String: MemoryLog] = [:]

    func log(of key: String) -> MemoryLog {
      let log = all[key] ?? MemoryLog()
      all[key] = log
      return log
    }
  }

  /// A log that is unavailable at first.
  private final class AwayLog: OrderedLog {
    private let memory = MemoryLog()
    private let failures = LockedValue(3)

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      memory.append(entry, outcome: outcome)
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      memory.records(after: position)
    }

    func head() async throws(LogError) -> UInt64 {
      let isAway = failures.withLock { failures in
        failures -= 1
        return failures >= 0
      }
      if isAway { throw .unavailable("It is away.") }
      return try await memory.head()
    }

    func truncate(through position: UInt64) async throws(LogError) { try await memory.truncate(through: position) }
  }
}
