import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// The first action of a store (G13).
@Suite(.timeLimit(.minutes(15))) struct StartTests {
  /// A job that is attempted until it is done.
  private struct Jobs: Codable, Equatable, Sendable {
    var isPending = false
    var attempts = 0
    var log: [String] = []
  }

  private func jobs(
    _ log: any OrderedLog, options: LogOptions = .once, clock: any Clock<Duration> = ContinuousClock(),
    start: String? = "started", seen: Record<Int> = Record(), asked: Record<String> = Record(),
    middleware: [Middleware<Jobs, String>] = []
  ) async throws -> RootStore<Jobs, String> {
    try await RootStore(
      following: log, initialState: Jobs(),
      options: FollowingOptions(
        log: options, store: StoreOptions(clock: clock), fingerprint: .unchecked, atStart: start),
      interceptors: .effects { action, _ in
        asked.add(action)
        return nil
      },
      .effects(
        ofState: .onChange(of: { $0.isPending ? $0.attempts : nil }) { attempts in
          .run { dispatch in
            guard let attempts else { return }
            seen.add(attempts)
            dispatch("work \(attempts)")
          }
        }), middleware: middleware
    ) { jobs, action in
      jobs.log.append(action)
      switch action {
      case "begin": jobs.isPending = true
      case "started" where jobs.isPending: jobs.attempts += 1
      default: break
      }
    }
  }

  @Test("it is committed before any effect of the state begins, with each start once", arguments: LogPlace.allCases)
  func order(place: LogPlace) async throws {
    try await place.withLog { log in
      let first = try await jobs(log)
      #expect(await first.state.log == ["started"])
      try await first.send("begin")
      _ = await first.state { $0.log.count == 3 }
      await first.shutdown()
      for attempt in 1...3 {
        let (seen, asked) = (Record<Int>(), Record<String>())
        let store = try await jobs(log, seen: seen, asked: asked)
        let state = await store.state { $0.log.last == "work \(attempt)" }
        #expect(state.log.suffix(2) == ["started", "work \(attempt)"])
        #expect(state.attempts == attempt)
        await store.shutdown()
        #expect(seen.all == [attempt])
        #expect(asked.all == ["work \(attempt)"])
      }
    }
  }

  @Test("if it is refused, the store is not opened, and is released", arguments: [false, true])
  func refused(isAdmission: Bool) async throws {
    let log = MemoryLog()
    let token = Token()
    let refusing: @Sendable (String, MiddlewareContext<Jobs, String>, (String) -> Void) -> Void = {
      [token] _, context, _ in
      withExtendedLifetime(token) { context.reject("Not now.") }
    }
    let phases = Record<LogStatistics.Phase>()
    await #expect(throws: StoreError.rejected(reason: "Not now.")) {
      try await RootStore<Jobs, String>(
        following: log, initialState: Jobs(),
        options: FollowingOptions(log: .once, onPhase: { phases.add($0) }, atStart: "started"),
        middleware: [isAdmission ? .admission(refusing) : Middleware(refusing)]
      ) { _, _ in }
    }
    while phases.all.last != .ended { await Task.yield() }
    #expect(phases.all.count { $0 == .ended } == 1)
    #expect(try await log.head() == (isAdmission ? 0 : 1))
    let store = try await jobs(log, start: nil)
    await store.shutdown()
  }

  @Test(
    "while the log does not take it, opening waits for its limit, or until it is cancelled", arguments: [false, true])
  func away(isCancelled: Bool) async throws {
    let (log, clock) = (GatedLog(), ManualClock())
    var options = LogOptions.quick
    options.openingLimit = .seconds(10)
    let seen = Record<Int>()
    let opening = Task { [options] in try await jobs(log, options: options, clock: clock, seen: seen) }
    await log.untilHeld(1)
    if isCancelled {
      opening.cancel()
    } else {
      // One sleeper watches the log, and the other is the limit.
      await clock.untilAsleep(2)
      clock.advance(by: .seconds(10))
    }
    await #expect(throws: StoreError.outcomeUnknown) { try await opening.value }
    // The action was accepted, and the log may store it later.
    await log.open()
    let next = try await jobs(log, start: nil)
    #expect(await next.state { !$0.log.isEmpty }.log == ["started"])
    await next.shutdown()
    #expect(seen.all == [])
  }

  @Test("an opening that waits for no log at all gives it all the same")
  func noLimit() async throws {
    var options = LogOptions.once
    options.openingLimit = .zero
    let store = try await jobs(MemoryLog(), options: options)
    #expect(await store.state.log == ["started"])
    await store.shutdown()
  }

  @Test("a store that is opened where it stopped does not get it")
  func stopped() async throws {
    let log = MemoryLog()
    let writer = try await RootStore<Jobs, String>(
      following: log, initialState: Jobs(), codings: LogCodings(actions: .json(schema: 2), states: nil),
      options: FollowingOptions(log: .once)
    ) { $0.log.append($1) }
    try await writer.send("newer")
    await writer.shutdown()
    await #expect(throws: StoreError.stopped(.newerSchema(position: 1))) { try await jobs(log) }
    var options = LogOptions.once
    options.opensWhereStopped = true
    let store = try await jobs(log, options: options)
    #expect(await store.state.log == [])
    #expect(try await log.head() == 1)
    await store.shutdown()
  }

  @Test("it is given after all decisions, which are known before anything is applied")
  func decided() async throws {
    let log = MemoryLog()
    let writer = try await jobs(log, start: nil)
    for action in ["a", "b", "c"] { try await writer.send(action) }
    await writer.shutdown()
    try await log.skip(position: 2, reason: "It is wrong.")
    let applied = Record<String>()
    let store = try await RootStore<Jobs, String>(
      following: log, initialState: Jobs(), options: FollowingOptions(log: .once, atStart: "started")
    ) {
      applied.add($1)
      $0.log.append($1)
    }
    #expect(await store.state.log == ["a", "c", "started"])
    #expect(applied.all == ["a", "c", "started"])
    await store.shutdown()
    #expect(await (try jobs(log, start: nil)).state.log == ["a", "c", "started"])
  }

  @Test("it is given to a store with codings of its own, and with several reducers")
  func initializers() async throws {
    let coding = LogCoding<String> {
      Array($0.utf8)
    } decode: { bytes, _ in
      String(decoding: bytes, as: UTF8.self)
    }
    let reducer = Reducer<Ledger, String> { $0.entries.append($1) }
    let stores = [
      try await LedgerStore(
        following: MemoryLog(), initialState: Ledger(), options: FollowingOptions(fingerprint: .unchecked, atStart: "a")
      ) {
        $0.entries.append($1)
      },
      try await LedgerStore(
        following: MemoryLog(), initialState: Ledger(), reducers: [reducer],
        options: FollowingOptions(fingerprint: .unchecked, atStart: "a")),
      try await LedgerStore(
        following: MemoryLog(), initialState: Ledger(), codings: LogCodings(actions: coding, states: nil),
        options: FollowingOptions(fingerprint: .unchecked, atStart: "a")
      ) { $0.entries.append($1) },
      try await LedgerStore(
        following: MemoryLog(), initialState: Ledger(), reducers: [reducer],
        codings: LogCodings(actions: coding, states: nil),
        options: FollowingOptions(fingerprint: .unchecked, atStart: "a")),
    ]
    for store in stores {
      #expect(await store.state.entries == ["a"])
      await store.shutdown()
    }
  }
}
