import Dispatch
import Puredux
import PureduxTestSupport
import Testing

/// A caller may be suspended between its call of `send`, or of a read, and its arrival on the tree's executor, or
/// between the end of that and its return. Between drains, it delays nobody.
@Suite(.timeLimit(.minutes(15))) struct G10StandingStill {
  enum Request: CaseIterable, Sendable {
    case send, sendReading, read

    var actions: [Int] { self == .read ? [] : [1] }

    func make(of store: any StoreType<Snapshot, Int>) async throws {
      switch self {
      case .send: try await store.send(1)
      case .sendReading: #expect(try await store.store().send(1) { $0.root.last } == 1)
      case .read: _ = try await store.store().state
      }
    }
  }

  @Test(arguments: Kind.inMemory, Request.allCases)
  func `others are served while a caller's job waits on the tree's executor`(
    kind: Kind, request: Request
  ) async throws {
    let executor = DiscriminatingExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    let caller = Task(priority: .background) { try await request.make(of: subject.store) }
    await executor.heldBack.untilCount(1)
    try await subject.servesAndEnds { executor.waitForRunningJob() }
    executor.letGo()
    await #expect(throws: StoreError.terminated) { try await caller.value }
  }

  /// The preferred executor runs the call and then nothing more. On `.own` it must also run the tree's work, because a
  /// suspended executor blocks such a tree (see "Where code runs").
  @Test(arguments: Kind.inMemory, Request.allCases)
  func `others are served while a caller's preferred executor is suspended`(
    kind: Kind, request: Request
  ) async throws {
    for isOwn in [false, true] {
      let preferred = ManualExecutor(forTasks: true)
      preferred.hold()
      let executor = DiscriminatingExecutor()
      let subject = Subject(kind, executor: isOwn ? .own : .serial(executor))
      let caller = Task(executorPreference: preferred) { try await request.make(of: subject.store) }
      for _ in 0..<(isOwn ? 2 : 1) {
        await preferred.untilWaiting(1)
        await preferred.step()
      }
      await preferred.untilWaiting(1)
      try await subject.servesAndEnds(after: request.actions) {}
      preferred.letGo()
      try await caller.value
    }
  }
}

extension Subject {
  /// Checks that the store serves every request: `dispatch`, `send`, reads, a subscription, the end.
  ///
  /// - Parameter untilDone: Returns when the tree is idle, so that no request arrives during a drain.
  func servesAndEnds(after before: [Int] = [], untilDone: () async -> Void) async throws {
    store.dispatch(2)
    await untilDone()
    try await store.send(3)
    #expect(try await store.store().state == expected(after: before + [2, 3]))
    let states = states()
    await untilDone()
    store.dispatch(4)
    await untilDone()
    #expect(try await store.store().send(5) { $0 } == expected(after: before + [2, 3, 4, 5]))
    #expect(await states.collect(3) == expectedStates(during: before + [2, 3, 4, 5]).suffix(3))
    await root.shutdown()
    #expect(store.dispatch(6) == .terminated)
    #expect(await states.collect() == [])
  }
}

/// A serial executor that postpones jobs of low priority until it is let go, as if jobs of higher priority never ended.
private final class DiscriminatingExecutor: SerialExecutor {
  private let queue = DispatchQueue(label: "discriminating")
  private let jobs = LockedValue<[UnownedJob]?>([])
  /// One entry for each postponed job.
  let heldBack = Record<Void>()

  func enqueue(_ job: consuming ExecutorJob) {
    let isLow = job.priority.rawValue <= TaskPriority.background.rawValue
    let job = UnownedJob(job)
    let isHeldBack = jobs.withLock { jobs in
      guard isLow, jobs != nil else { return false }
      jobs?.append(job)
      return true
    }
    if isHeldBack { heldBack.add(()) } else { run(job) }
  }

  private func run(_ job: UnownedJob) {
    queue.async { unsafe job.runSynchronously(on: self.asUnownedSerialExecutor()) }
  }

  func waitForRunningJob() { queue.sync {} }

  func letGo() {
    let jobs = jobs.withLock { jobs in
      defer { jobs = nil }
      return jobs ?? []
    }
    for job in jobs { run(job) }
  }
}
