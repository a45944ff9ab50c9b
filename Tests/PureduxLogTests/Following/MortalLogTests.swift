import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

/// A process that dies, and its successor.
@Suite(.timeLimit(.minutes(15))) struct MortalLogTests {
  typealias ListStore = RootStore<[String], String>

  private func list(
    _ log: any OrderedLog, clock: any Clock<Duration> = ContinuousClock(), options: LogOptions = LogOptions(),
    work: @escaping @Sendable (String, Dispatch<String>) async -> Void = { _, _ in }
  ) async throws -> ListStore {
    try await ListStore(
      following: log, initialState: [],
      options: FollowingOptions(log: options, store: StoreOptions(clock: clock), fingerprint: .unchecked),
      interceptor: { await work($0, $1) }
    ) { $0.append($1) }
  }

  @Test func `the log of a live process keeps the contract of logs`() async throws {
    let logs = LockedLogs()
    try await checkOrderedLog(within: .seconds(800)) { MortalLog(logs[$0]) }
  }

  @Test func `accepted actions that are not in the log are lost, and waiting senders are told`() async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let given = Gate()
    let coding = LogCoding<String>(schema: 1) { text in
      if text == "lost, too" { given.open() }
      return Array(text.utf8)
    } decode: { bytes, _ in
      String(decoding: bytes, as: UTF8.self)
    }
    // The clock stands still, because nothing here depends on time.
    let store = try await ListStore(
      following: log, initialState: [], codings: LogCodings(actions: coding, states: nil),
      options: FollowingOptions(store: StoreOptions(clock: ManualClock()), fingerprint: .unchecked)
    ) { $0.append($1) }
    try await store.send("in the log")
    log.cut(.appends)
    #expect(store.dispatch("lost") == .enqueued)
    let waiting = Task { try await store.send("lost, too") }
    await given.wait()
    await log.kill(store)
    await #expect(throws: StoreError.outcomeUnknown) { try await waiting.value }
    #expect(store.dispatch("late") == .terminated)
    #expect(await store.state == ["in the log"])
    let next = try await ListStore(
      following: memory, initialState: [], codings: LogCodings(actions: coding, states: nil),
      options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.append($1) }
    #expect(await next.state == ["in the log"])
    try await next.send("next")
    #expect(await store.state == ["in the log"])
    await next.shutdown()
  }

  @Test func `an entry that was not delivered is found by the next process, and has no effects`() async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let begun = Record<String>()
    let store = try await list(log) { action, _ in begun.add(action) }
    try await store.send("first")
    log.cut(.deliveries)
    let waiting = Task { try await store.send("second") }
    for try await _ in memory.records(after: 1) { break }
    await log.kill(store)
    await #expect(throws: StoreError.outcomeUnknown) { try await waiting.value }
    #expect(await store.state == ["first"])
    #expect(begun.all == ["first"])
    let next = try await list(memory)
    #expect(await next.state == ["first", "second"])
    await next.shutdown()
  }

  @Test func `effects are interrupted, even those that ignore their cancellation`() async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let (begun, gate, ended) = (Gate(), Gate(), Gate())
    let results = Record<DispatchResult>()
    let store = try await list(log) { action, dispatch in
      guard action == "work" else { return }
      begun.open()
      await gate.wait()
      results.add(dispatch("done"))
      ended.open()
    }
    try await store.send("work")
    await begun.wait()
    await log.kill(store)
    let head = try await memory.head()
    gate.open()
    await ended.wait()
    #expect(results.all == [.terminated])
    #expect(try await memory.head() == head)
    await store.shutdown()
    let next = try await list(memory)
    #expect(await next.state == ["work"])
    await next.shutdown()
  }

  @Test func `a dead process neither reads the log nor writes to it`() async throws {
    let memory = MemoryLog()
    let log = MortalLog(memory)
    let store = try await list(log)
    try await store.send("alive")
    await log.kill(store)
    await log.kill(store)
    await #expect(throws: LogError.self) { try await log.append([1]) }
    await #expect(throws: LogError.self) { try await log.read(after: 0, through: 1) }
    await #expect(throws: LogError.self) { try await log.head() }
    await #expect(throws: LogError.self) { try await log.truncate(through: 1) }
    let snapshots = try #require(log.snapshots)
    await #expect(throws: LogError.self) { try await snapshots.newest() }
    for always in [true, false] {
      let snapshot = LogSnapshot(position: 1, bytes: [1])
      await #expect(throws: LogError.self) {
        if always { try await snapshots.replace(with: snapshot) } else { try await snapshots.save(snapshot) }
      }
    }
    await #expect(throws: LogError.self) { try await list(log) }
    #expect(try await memory.head() == 1)
    #expect(try await memory.newest() == nil)
  }

  /// Opens a gate when an append has been given to the log.
  private struct NoticedLog: LogAround {
    let log: any OrderedLog
    let appended: Gate

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      log.append(entry, outcome: outcome)
      appended.open()
    }
  }

  @Test(arguments: [false, true])
  func `no append that the log held back enters it after the death`(isCancelled: Bool) async throws {
    var rates = UnreliableLog.Rates()
    (rates.lost, rates.unacknowledged, rates.repeated, rates.overtaken, rates.broken) = (0, 0, 0, 100, 0)
    let (memory, appended, start) = (MemoryLog(), Gate(), Gate())
    let unreliable = UnreliableLog(memory, seed: 1, rates: rates)
    let log = MortalLog(NoticedLog(log: unreliable, appended: appended))
    let store = try await list(log, clock: ManualClock())
    store.dispatch("held back")
    await appended.wait()
    let killing = Task {
      await start.wait()
      await log.kill(store)
      return try await memory.head()
    }
    if isCancelled { killing.cancel() }
    start.open()
    let head = try await killing.value
    #expect(store.dispatch("late") == .terminated)
    unreliable.becomeReliable()
    #expect(try await memory.head() == head)
  }

  @Test func `an action whose send has returned survives any crash, and nothing is written after the crash`()
    async throws
  {
    for _ in 0..<100 {
      let memory = MemoryLog()
      let acknowledged = Record<String>()
      for life in 0..<3 {
        let log = MortalLog(memory)
        let store = try await list(log)
        #expect(Set(await store.state).isSuperset(of: acknowledged.all))
        let few = Gate()
        await withTaskGroup { tasks in
          for sender in 0..<3 {
            tasks.addTask {
              for number in 0..<1_000 {
                let text = "\(life) \(sender) \(number)"
                guard (try? await store.send(text)) != nil else { return }
                acknowledged.add(text)
                if number == 3 { few.open() }
              }
            }
          }
          await few.wait()
          await log.kill(store)
          let head = try? await memory.head()
          await tasks.waitForAll()
          #expect(try! await memory.head() == head)
        }
      }
      let last = try await list(memory)
      let state = await last.state
      #expect(Set(state).count == state.count)
      #expect(Set(state).isSuperset(of: acknowledged.all))
      await last.shutdown()
    }
  }
}

private final class LockedLogs: Sendable {
  private let logs = LockedValue<[String: MemoryLog]>([:])

  subscript(key: String) -> MemoryLog {
    logs.withLock { logs in
      let log = logs[key] ?? MemoryLog()
      logs[key] = log
      return log
    }
  }
}
