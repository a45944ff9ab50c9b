import Puredux
import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

@testable import PureduxLog

/// Stores whose log is away wait for one probe, and do not poll.
@Suite(.timeLimit(.minutes(15))) struct ProbeTests {
  /// An engine of logs in memory that can be unavailable, and counts the attempts to use the logs.
  private final class Engine: Sendable {
    struct State: Sendable {
      var isAway = false
      var attempts = 0
      var questions = 0
    }

    final class Present: Sendable { let state = LockedValue(State()) }

    let present = Present()
    let changes = Arrivals()
    let probe: Probe

    init() {
      probe = Probe(every: .milliseconds(1)) { [present] in
        present.state.withLock { state in
          state.questions += 1
          return !state.isAway
        }
      }
    }

    var attempts: Int { present.state.withLock { $0.attempts } }
    var questions: Int { present.state.withLock { $0.questions } }
    var isAway: Bool { present.state.withLock { $0.isAway } }

    func set(isAway: Bool) {
      present.state.withLock { $0.isAway = isAway }
      changes.notify()
    }

    func attempt() throws(LogError) {
      try present.state.withLock { state throws(LogError) in
        state.attempts += 1
        if state.isAway { throw .unavailable("away") }
      }
    }
  }

  private final class Tree: ProbedLog {
    let engine: Engine
    let log = MemoryLog()
    var probe: Probe { engine.probe }

    init(_ engine: Engine) { self.engine = engine }

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      do throws(LogError) {
        try engine.attempt()
        log.append(entry, outcome: outcome)
        engine.changes.notify()
      } catch {
        Task.detached { outcome(.failure(error)) }
      }
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let last = LockedValue(position)
      let isFirst = LockedValue(true)
      return AsyncThrowingStream { [engine, log] in
        let isAttempt = isFirst.withLock { isFirst in
          defer { isFirst = false }
          return isFirst
        }
        if isAttempt { try engine.attempt() }
        while !Task.isCancelled {
          let count = engine.changes.count
          if engine.isAway { throw LogError.unavailable("away") }
          let (before, head) = (last.withLock { $0 }, try await log.head())
          if head > before {
            last.withLock { $0 = head }
            return try await log.read(after: before, through: head)
          }
          await engine.changes.wait(after: count)
        }
        return nil
      }
    }

    func head() async throws(LogError) -> UInt64 {
      try engine.attempt()
      return try await log.head()
    }

    func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
  }

  @Test("a store tries a log that is away once, however long it is away", arguments: [false, true])
  func idle(isBusy: Bool) async throws {
    let (engine, clock, count) = (Engine(), ManualClock(), 20)
    var stores: [LedgerStore] = []
    for _ in 0..<count { stores.append(try await ledger(Tree(engine), clock: clock)) }
    engine.set(isAway: true)
    if isBusy { for store in stores { store.dispatch("during") } }
    for store in stores { for await phase in store.logPhases() { if case .waiting = phase { break } } }
    let before = engine.attempts
    for _ in 0..<100 {
      clock.advance(by: .seconds(60))
      for _ in 0..<20 { await Task.yield() }
    }
    try #require(engine.attempts - before <= 2 * count)
    // Waiting are the follower of each store, and the watcher of its action.
    while engine.probe.waiting < count * (isBusy ? 2 : 1) {
      clock.advance(by: .seconds(60))
      await Task.yield()
    }
    let (attempts, questions) = (engine.attempts, engine.questions)
    while engine.questions < questions + 20 {
      clock.advance(by: .seconds(60))
      await Task.yield()
    }
    #expect(engine.attempts == attempts)
    engine.set(isAway: false)
    for store in stores {
      let isOver = LockedValue(false)
      let sending = Task {
        defer { isOver.withLock { $0 = true } }
        try await store.send("after")
      }
      while !isOver.withLock({ $0 }) {
        clock.advance(by: .seconds(60))
        await Task.yield()
      }
      try await sending.value
      #expect(await store.state.entries == (isBusy ? ["during"] : []) + ["after"])
      await store.shutdown()
    }
  }

  @Test("a probe asks one question at a time, and none without waiting callers")
  func oneQuestion() async {
    let asked = LockedValue(0)
    let answer = Gate()
    let probe = Probe(every: .zero) {
      asked.withLock { $0 += 1 }
      await answer.wait()
      return true
    }
    let waiting = (0..<50).map { _ in Task { await probe.untilAnswered() } }
    while probe.waiting < 50 { await Task.yield() }
    for task in waiting.prefix(20) { task.cancel() }
    while probe.waiting > 30 { await Task.yield() }
    answer.open()
    for task in waiting { await task.value }
    #expect(asked.withLock { $0 } == 1)
    #expect(probe.waiting == 0 && probe.attempts == 1)
    // A later call asks again.
    await probe.untilAnswered()
    #expect(probe.attempts == 2)
  }

  @Test("a probe ends when the last caller that waited is cancelled")
  func nobodyWaits() async {
    let probe = Probe(every: .zero) { false }
    for _ in 0..<2 {
      let before = probe.attempts
      let waiting = Task { await probe.untilAnswered() }
      while probe.attempts < before + 3 { await Task.yield() }
      waiting.cancel()
      await waiting.value
      #expect(probe.waiting == 0)
    }
  }
}
