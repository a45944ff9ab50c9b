import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTesting
import Synchronization
import Testing

@testable import JobQueue

private struct Broken: Error, CustomStringConvertible { var description: String { "broken" } }

/// A log that refuses appends while it is away, and still delivers the entries of others.
private final class AwayLog: OrderedLog {
  private let log: MemoryLog
  let isAway = Mutex(false)

  init(_ log: MemoryLog) { self.log = log }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    if isAway.withLock({ $0 }) {
      Task { outcome(.failure(.unavailable("It is away."))) }
    } else {
      log.append(entry, outcome: outcome)
    }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { log.records(after: position) }
  func head() async throws(LogError) -> UInt64 { try await log.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
}

@Suite(.timeLimit(.minutes(5))) struct JobQueueTests {
  let clock = ManualClock()
  let log = MemoryLog()

  func queue(
    _ worker: Worker? = nil, on other: (any OrderedLog)? = nil, atStart: JobQueue.Action? = nil
  ) async throws -> RootStore<JobQueue, JobQueue.Action> {
    var options = FollowingOptions<JobQueue, JobQueue.Action>(
      store: StoreOptions(clock: clock), fingerprint: .unchecked, atStart: atStart)
    if other != nil {
      options.log.pendingBytes = 1
      options.log.sendLimit = .seconds(1)
    }
    return try await RootStore(
      following: other ?? log, initialState: JobQueue(), options: options,
      interceptors: worker.map(\.interceptor) ?? Interceptor(combining: [])
    ) { $0.reduce($1) }
  }

  /// A worker whose jobs take a virtual minute.
  func sleeper(_ id: UInt64, slots: Int = 1) -> Worker {
    Worker(id: id, slots: slots) { [clock] _, progress in
      progress(50)
      try await clock.sleep(for: .seconds(60))
    }
  }

  @Test func `a job is claimed, done, and says how far it is`() async throws {
    let queue = try await queue(sleeper(1))
    try await queue.send(.submit(Request(key: "a", command: "x")))
    await queue.settled()
    #expect(await queue.state.jobs.first?.phase == .running(by: 1))
    #expect(await queue.state.jobs.first?.progress == 50)
    for _ in 0..<12 {
      clock.advance(by: .seconds(5))
      await queue.settled()
    }
    #expect(await queue.state.jobs.first?.phase == .done)
    await queue.shutdown()
  }

  @Test func `the same request twice is one job`() async throws {
    let queue = try await queue()
    for _ in 0..<2 { try await queue.send(.submit(Request(key: "a", command: "x"))) }
    #expect(await queue.state.jobs.count == 1)
    await queue.shutdown()
  }

  @Test func `a job that fails is tried again after a pause that grows, and then has failed`() async throws {
    let worker = Worker(id: 1) { _, _ in throw Broken() }
    let queue = try await queue(worker)
    try await queue.send(.submit(Request(key: "a", command: "x", attempts: 3)))
    await queue.settled()
    for pause in [1, 2] {
      #expect(await queue.state.jobs.first?.phase == .resting(error: "broken"))
      clock.advance(by: .seconds(pause))
      await queue.settled()
    }
    #expect(await queue.state.jobs.first?.phase == .failed(error: "broken"))
    #expect(await queue.state.jobs.first?.attempt == 3)
    await queue.shutdown()
  }

  @Test func `a job that takes too long is cancelled`() async throws {
    let queue = try await queue(sleeper(1))
    try await queue.send(.submit(Request(key: "a", command: "x", attempts: 1, limit: 4)))
    await queue.settled()
    clock.advance(by: .seconds(4))
    await queue.settled()
    #expect(await queue.state.jobs.first?.phase == .failed(error: "It took longer than 4 s."))
    await queue.shutdown()
  }

  @Test func `a cancelled job is cancelled where it runs`() async throws {
    let cancelled = Gate()
    let worker = Worker(id: 1) { [clock] _, _ in
      do { try await clock.sleep(for: .seconds(60)) } catch { cancelled.open() }
    }
    let queue = try await queue(worker)
    try await queue.send(.submit(Request(key: "a", command: "x")))
    await queue.settled()
    try await queue.send(.cancel(1))
    await cancelled.wait()
    #expect(await queue.state.jobs.first?.phase == .cancelled)
    await queue.shutdown()
  }

  @Test func `a job begins at its time, in a process that was started after it was asked for`() async throws {
    let first = try await queue()
    try await first.send(.submit(Request(key: "a", command: "x", time: clock.wallTime + .seconds(3600))))
    await first.shutdown()
    let queue = try await queue(sleeper(1))
    await queue.settled()
    #expect(await queue.state.jobs.first?.attempt == 0)
    clock.advance(by: .seconds(3600))
    await queue.settled()
    #expect(await queue.state.jobs.first?.phase == .running(by: 1))
    await queue.shutdown()
  }

  @Test func `a job whose time has come goes before those that came after it`() async throws {
    let queue = try await queue(sleeper(1))
    try await queue.send(.submit(Request(key: "a", command: "x", time: clock.wallTime + .seconds(90))))
    for key in ["b", "c", "d", "e"] { try await queue.send(.submit(Request(key: key, command: "x"))) }
    await queue.settled()
    for _ in 0..<25 {
      clock.advance(by: .seconds(5))
      await queue.settled()
    }
    #expect(await queue.state.jobs.map(\.phase) == [.running(by: 1), .done, .done, .waiting(nil), .waiting(nil)])
    await queue.shutdown()
  }

  /// All actions in the life of two jobs.
  static let life: [JobQueue.Action] = [
    .submit(Request(key: "a", command: "x", time: WallTime(since1970: .zero), attempts: 4)),
    .due(1), .claim(1, attempt: 1, by: 1), .alive(1), .lost(1, attempt: 1, beats: 2), .retry(1, attempt: 1),
    .claim(1, attempt: 2, by: 1), .alive(1), .ended(1, attempt: 2, error: "broken"), .retry(1, attempt: 2),
    .claim(1, attempt: 3, by: 2), .alive(2), .lost(1, attempt: 3, beats: 2), .retry(1, attempt: 3), .alive(2),
    .claim(1, attempt: 4, by: 1), .ended(1, attempt: 4, error: nil),
    .submit(Request(key: "b", command: "x")), .claim(2, attempt: 1, by: 2), .alive(2), .cancel(2),
  ]

  @Test(arguments: life.indices.filter { if case .alive = life[$0] { false } else { true } })
  func `an action that is committed once more, at once or later, changes nothing`(index: Int) {
    var queue = JobQueue()
    for (place, action) in Self.life.enumerated() {
      let before = queue
      queue.reduce(action)
      #expect(queue != before, "\(action)")
      guard place >= index else { continue }
      var again = queue
      again.reduce(Self.life[index])
      #expect(again == queue, "\(Self.life[index]), once more after \(action)")
    }
  }

  @Test func `beats of workers that run nothing are not kept for ever`() {
    var queue = JobQueue()
    for worker in 1...UInt64(300) {
      queue.reduce(.submit(Request(key: "\(worker)", command: "x")))
      queue.reduce(.claim(Int(worker), attempt: 1, by: worker))
      if worker > 1 { queue.reduce(.ended(Int(worker), attempt: 1, error: nil)) }
    }
    #expect(queue.beats.count <= 101)
    #expect(queue.beats[1] == 1)
  }

  @Test func `two workers on one log share the jobs, and one takes over from the other when that is gone`() async throws
  {
    let (first, second) = (try await queue(sleeper(1)), try await queue(sleeper(2)))
    for key in ["a", "b", "c"] { try await first.send(.submit(Request(key: key, command: key))) }
    func settled() async {
      for _ in 0..<3 {
        await first.settled()
        await second.settled()
      }
    }
    await settled()
    let phases = await first.state.jobs.map(\.phase)
    #expect(Set(phases.prefix(2).map { "\($0)" }) == ["running(by: 1)", "running(by: 2)"])
    #expect(phases[2] == .waiting(nil))
    // The second worker dies.
    await second.shutdown()
    for _ in 0..<4 {
      clock.advance(by: .seconds(5))
      await first.settled()
    }
    let lost = try #require(await first.state.jobs.first { $0.phase == .resting(error: "The worker is gone.") })
    #expect(lost.attempt == 1)
    for _ in 0..<40 {
      clock.advance(by: .seconds(5))
      await first.settled()
    }
    #expect(await first.state.jobs.allSatisfy { $0.phase == .done })
    await first.shutdown()
  }

  @Test func `what ran when the process died runs again when there is another one`() async throws {
    let first = try await queue(sleeper(1))
    try await first.send(.submit(Request(key: "a", command: "x")))
    await first.settled()
    await first.shutdown()
    let queue = try await queue(sleeper(2), atStart: .started)
    await queue.settled()
    clock.advance(by: .seconds(1))
    await queue.settled()
    #expect(await queue.state.jobs.first?.phase == .running(by: 2))
    #expect(await queue.state.jobs.first?.attempt == 2)
    await queue.shutdown()
  }

  @Test(.timeLimit(.minutes(1)), arguments: ["claim", "due", "done", "failed", "limit", "retry", "lost"])
  func `no action of a worker is lost while its log is away`(kind: String) async throws {
    let (away, begins) = (AwayLog(log), Gate())
    let other = try await queue(kind == "lost" ? sleeper(1) : nil)
    let request = Request(
      key: "a", command: "x", time: kind == "due" ? clock.wallTime + .seconds(3600) : nil,
      attempts: ["retry", "lost"].contains(kind) ? 2 : 1, limit: kind == "limit" ? 4 : 3600)
    if kind != "claim" { try await other.send(.submit(request)) }
    await other.settled()
    if kind == "lost" { await other.shutdown() }
    let worker = Worker(id: 2) { [clock] attempt, _ in
      switch kind {
      case "done": await begins.wait()
      case "failed":
        await begins.wait()
        throw Broken()
      case "retry" where attempt.number == 1: throw Broken()
      default: try await clock.sleep(for: .seconds(60))
      }
    }
    let queue = try await queue(worker, on: away)
    await queue.settled()

    away.isAway.withLock { $0 = true }
    while queue.dispatch(.alive(9)) == .enqueued {}
    switch kind {
    case "claim": try await other.send(.submit(request))
    case "done", "failed": begins.open()
    case "due": clock.advance(by: .seconds(3600))
    default: clock.advance(by: .seconds(20))
    }
    for _ in 0..<1_000 {
      clock.advance(by: .milliseconds(10))
      _ = await queue.statistics
    }
    away.isAway.withLock { $0 = false }

    let expected: Job.Phase =
      switch kind {
      case "done": .done
      case "failed": .failed(error: "broken")
      case "limit": .failed(error: "It took longer than 4 s.")
      default: .running(by: 2)
      }
    let states = queue.states()
    let time = Task { [clock] in
      while !Task.isCancelled {
        clock.advance(by: .milliseconds(250))
        await Task.yield()
      }
    }
    for await queue in states where queue.jobs.first?.phase == expected { break }
    await queue.shutdown()
    await other.shutdown()
    time.cancel()
  }
}
