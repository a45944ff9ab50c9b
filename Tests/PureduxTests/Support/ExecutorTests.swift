import Dispatch
import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ExecutorTests {
  @Test func `a tree on the main actor reduces, maps and filters there`() async throws {
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .mainActor)) { state, action in
      MainActor.assumeIsolated { state += action }
    }
    let child = root.childStore(
      initialState: 0, stateMapping: { parent, local in MainActor.assumeIsolated { parent + local } },
      reducer: { local, action in MainActor.assumeIsolated { local += action } })
    let states = child.scope { state in MainActor.assumeIsolated { state } }.states(
      removeStateDuplicates: Equating { last, new in MainActor.assumeIsolated { last == new } })
    child.dispatch(1)
    try await child.send(2)
    #expect(try await child.send(3) { state in MainActor.assumeIsolated { state } } == 12)
    await root.shutdown()
    #expect(await states.collect() == [0, 2, 6, 12])
  }

  @Test @MainActor func `a tree on the main actor can be used from there`() async throws {
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .mainActor)) { $0 += $1 }
    root.dispatch(1)
    #expect(try await root.send(2) { $0 } == 3)
    #expect(await root.state == 3)
  }

  @Test func `a tree runs on its executor`() async throws {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      executor.preconditionIsolated()
      state += action
    }
    try await root.send(1)
    root.dispatch(2)
    #expect(await root.state == 3)
  }

  @Test func `the stores of a tree are actors on its executor`() async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let child = root.childStore(initialState: 0) { $0 += $1 }
    let isShared = await root.isShared(with: child)
    #expect(isShared)
  }

  @Test func `a released child store leaves its tree on the executor, where nothing else can run`() async {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    let left = Gate()
    var child: StateStore<(Int, Leaving), Int>? = root.childStore(
      initialState: Leaving { [executor] in
        #expect(executor.isCurrent)
        left.open()
      }
    ) { _, _ in }
    #expect(await child?.state.0 == 0)
    child = nil
    await left.wait()
    #expect(await root.state == 0)
  }

  @Test func `a tree with an executor of its own depends on no other: its requests are enqueued there at once`()
    async throws
  {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    #expect(await root.state == 0)
    executor.hold()
    let before = executor.enqueued
    root.dispatch(1)
    #expect(executor.enqueued == before + 1, "not by way of the thread pool, which may be blocked")
    executor.letGo()
    #expect(await root.state == 1)
  }

  /// The drain that is due at the end of the visit runs before `send` continues, and must leave no work to that
  /// visitor.
  @Test func `an executor may run jobs where they are enqueued, in the middle of others`() async throws {
    let executor = InPlaceExecutor()
    let proxies = Record<Store<Int, Int>>()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      state += 1
      if action < 0 { for _ in 0..<3_000 { proxies.all.first?.dispatch(1) } }
    }
    proxies.add(root.store())
    let states = root.states(bufferingPolicy: .bufferingNewest(1))
    try await root.send(-1)
    #expect(await states.collect(until: { $0 == 3_001 }).last == 3_001)
    #expect(executor.ranInPlace.isRaised)
  }

  @Test func `a flood on an executor that runs jobs in the middle of others nests no more of them than a few actions`()
    async throws
  {
    let (executor, proxies) = (InPlaceExecutor(), Record<Store<Int, Int>>())
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      state += 1
      if action < 0 { for _ in 0..<100_000 { proxies.all.first?.dispatch(1) } }
    }
    proxies.add(root.store())
    let states = root.states(bufferingPolicy: .bufferingNewest(1))
    try await root.send(-1)
    #expect(await states.collect(until: { $0 == 100_001 }).last == 100_001)
    #expect((1...3).contains(executor.greatestDepth))
  }

  @Test(arguments: [TaskPriority.low, .high])
  func `a tree works with any priority`(priority: TaskPriority) async throws {
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(priority: priority)) { $0 += $1 }
    let states = root.states()
    for action in 1...10 { root.dispatch(action) }
    #expect(await states.collect(11).last == 55)
  }
}

/// Runs a job inside the one that enqueues it.
private final class InPlaceExecutor: SerialExecutor {
  private let queue = DispatchQueue(label: "in place")
  private let key = DispatchSpecificKey<Void>()
  let ranInPlace = Flag()
  private let depths = LockedValue((now: 0, greatest: 0))

  /// The greatest number of jobs that ran inside others.
  var greatestDepth: Int { depths.withLock { $0.greatest } }

  init() { queue.setSpecific(key: key, value: ()) }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    if DispatchQueue.getSpecific(key: key) != nil {
      ranInPlace.raise()
      depths.withLock { $0 = ($0.now + 1, max($0.greatest, $0.now + 1)) }
      unsafe job.runSynchronously(on: asUnownedSerialExecutor())
      depths.withLock { $0.now -= 1 }
    } else {
      queue.async { unsafe job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
  }
}

/// Runs a closure when it is released.
private final class Leaving: Sendable {
  private let leave: @Sendable () -> Void
  init(_ leave: @escaping @Sendable () -> Void) { self.leave = leave }
  deinit { leave() }
}

extension RootStore<Int, Int> {
  fileprivate func isShared(with child: StateStore<(Int, Int), Int>) -> Bool {
    child.assumeIsolated { _ in true }
  }
}
