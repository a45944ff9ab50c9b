import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTesting
import Synchronization
import Testing

@testable import JobQueue

private struct Broken: Error, CustomStringConvertible { var description: String { "broken" } }

@Suite(.timeLimit(.minutes(5))) struct JobQueueTests {
  let clock = ManualClock()
  let log = MemoryLog()

  func queue(
    _ worker: Worker? = nil, atStart: JobQueue.Action? = nil
  ) async throws -> RootStore<JobQueue, JobQueue.Action> {
    try await RootStore(
      following: log, initialState: JobQueue(),
      options: FollowingOptions(store: StoreOptions(clock: clock), fingerprint: .unchecked, atStart: atStart),
      interceptors: worker.map(\.interceptor) ?? Interceptor(combining: [])
    ) { $0.reduce($1) }
  }

  /// A worker that waits for a virtual minute.
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

  @Test func `beats of workers that run nothing are not kept for ever`() {
    var queue = JobQueue()
    for worker in 1...UInt64(300) {
      queue.reduce(.submit(Request(key: "\(worker)", command: "x")))
      queue.reduce(.claim(Int(worker), by: worker))
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
    // One dies: nothing more comes from it.
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
}
