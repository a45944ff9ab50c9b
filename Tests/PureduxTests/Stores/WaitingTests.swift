import PureduxTestSupport
import Testing

@testable import Puredux

/// The tasks that a shutdown waits for if it is called from the tree's own tasks.
@Suite(.timeLimit(.minutes(15))) struct WaitingTests {
  /// How an interceptor calls the shutdown that it awaits.
  enum Way: CaseIterable, Sendable {
    case itself, childTask, task

    func call(_ body: @escaping @Sendable () async -> Void) async {
      switch self {
      case .itself: await body()
      case .childTask:
        async let call: Void = body()
        await call
      case .task: await Task { await body() }.value
      }
    }
  }

  /// State that the interceptors of a tree and the tests share.
  private final class Scene: Sendable {
    let roots = Record<RootStore<Int, Int>>()
    let events = Record<String>()
    let done = Gate()
    var root: RootStore<Int, Int> { roots.all[0] }

    func makeRoot(
      _ interceptors: [Int: @Sendable () async -> Void], clock: any Clock<Duration> = ContinuousClock()
    ) -> RootStore<Int, Int> {
      let root = RootStore<Int, Int>(
        initialState: 0, options: StoreOptions(clock: clock),
        interceptors: Interceptor { action, _ in await interceptors[action]?() }
      ) { $0 += $1 }
      roots.add(root)
      return root
    }

    /// Work that must be awaited: it continues for a while after its cancellation.
    func untilCancelledAndLonger(_ event: String) async {
      await untilCancelled()
      for _ in 0..<20 { _ = await root.state }
      events.add(event)
    }
  }

  /// The other effect ends only after the call has returned.
  @Test(arguments: Way.allCases, [InterceptorShutdown.cancel, .finish(within: .seconds(3600))])
  func `an interceptor that shuts its own tree down does not wait for the tree's tasks`(
    way: Way, interceptors: InterceptorShutdown
  ) async {
    let scene = Scene()
    let (started, over) = (Gate(), Gate())
    let root = scene.makeRoot([
      1: {
        started.open()
        await over.wait()
        scene.events.add(Task.isCancelled ? "cancelled" : "finished")
      },
      2: {
        await way.call { await scene.root.shutdown(interceptors: interceptors, clock: ManualClock()) }
        scene.events.add(scene.root.dispatch(0) == .terminated ? "closed" : "open")
        over.open()
      },
    ])
    root.childStore(initialState: 0) { _, _ in }.dispatch(1)
    let child = root.childStore(initialState: 0) { _, _ in }
    child.dispatch(1)
    await started.wait()
    child.dispatch(2)
    await over.wait()
    await root.shutdown(interceptors: .finish(within: .seconds(3600)), clock: ManualClock())
    #expect(scene.events.all == (interceptors == .cancel ? ["closed", "cancelled"] : ["open", "finished"]))
  }

  @Test func `a task that a running interceptor left behind does not wait for its tree's tasks either`() async {
    let scene = Scene()
    let started = Gate()
    let root = scene.makeRoot([
      1: {
        started.open()
        await scene.done.wait()
      },
      2: {
        Task {
          await scene.root.shutdown()
          scene.done.open()
        }
        await scene.done.wait()
      },
    ])
    root.dispatch(1)
    await started.wait()
    root.dispatch(2)
    await scene.done.wait()
    await root.shutdown()
  }

  @Test func `a task that an ended interceptor left behind waits like any other`() async {
    let scene = Scene()
    let goOn = Gate()
    let root = scene.makeRoot([
      1: { await scene.untilCancelledAndLonger("the other") },
      2: {
        Task {
          await goOn.wait()
          await scene.root.shutdown()
          scene.events.add("shutdown")
          scene.done.open()
        }
      },
    ])
    root.dispatch(2)
    root.dispatch(1)
    _ = await root.state
    while await root.statistics.runningTasks > 1 { await Task.yield() }
    goOn.open()
    await scene.done.wait()
    #expect(scene.events.all == ["the other", "shutdown"])
  }

  /// A new tree may get the address of a released one.
  @Test func `a task that an interceptor of a released tree left behind waits for the tasks of new trees`() async {
    let goOn = Gate()
    let early = Record<Int>()
    let task = Record<Task<Void, Never>>()
    do {
      let root = RootStore<Int, Int>(
        initialState: 0,
        interceptors: Interceptor { _, _ in
          task.add(
            Task {
              await goOn.wait()
              for round in 0..<600 {
                let scene = Scene()
                let started = Gate()
                let root = scene.makeRoot([
                  1: {
                    started.open()
                    await scene.untilCancelledAndLonger("its task")
                  }
                ])
                root.dispatch(1)
                await started.wait()
                await root.shutdown()
                if scene.events.all.isEmpty { early.add(round) }
                await root.shutdown()
              }
            })
        }
      ) { $0 += $1 }
      root.dispatch(1)
      await root.shutdown(interceptors: .finish(within: .seconds(60)))
    }
    goOn.open()
    await task.all[0].value
    #expect(early.all.isEmpty)
  }

  @Test(arguments: [InterceptorShutdown.cancel, .finish(within: .seconds(3600))])
  func `an interceptor that shuts another tree down waits for the tasks of that tree`(
    interceptors: InterceptorShutdown
  ) async {
    let (scene, other) = (Scene(), Scene())
    let (started, goOn) = (Gate(), Gate())
    let root = scene.makeRoot([
      1: {
        goOn.open()
        await other.root.shutdown(interceptors: interceptors, clock: ManualClock())
        other.events.add("the shutdown")
        scene.done.open()
      }
    ])
    let otherRoot = other.makeRoot([
      1: {
        started.open()
        await goOn.wait()
        for _ in 0..<20 { _ = await root.state }
        other.events.add("the task")
      }
    ])
    otherRoot.dispatch(1)
    await started.wait()
    root.dispatch(1)
    await scene.done.wait()
    #expect(other.events.all == ["the task", "the shutdown"])
    await root.shutdown()
  }

  @Test func `an interceptor that finishes another tree waits for the limit, and then for five seconds`() async {
    let clock = ManualClock()
    let (busy, stays, back) = (Gate(), Gate(), Gate())
    let other = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: clock),
      interceptors: Interceptor { _, _ in
        busy.open()
        await stays.wait()
      }
    ) { $0 += $1 }
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: Interceptor { _, _ in
        await other.shutdown(interceptors: .finish(within: .seconds(3600)), clock: clock)
        back.open()
      }
    ) { $0 += $1 }
    other.dispatch(1)
    await busy.wait()
    root.dispatch(1)
    for (limit, time) in [(3600, Duration.seconds(3600)), (5, .seconds(5))] {
      await clock.untilAsleep(1)
      #expect(!back.isOpen, "before the \(limit) seconds are over")
      clock.advance(by: time)
    }
    await back.wait()
    stays.open()
    await root.shutdown()
  }

  @Test func `a cancelled interceptor that shuts another tree down waits for the tasks of that tree, too`() async {
    let (outer, inner) = (Scene(), Scene())
    let started = Gate()
    let root = outer.makeRoot([
      1: {
        let innerRoot = inner.makeRoot([
          1: {
            started.open()
            await inner.untilCancelledAndLonger("the inner task")
          }
        ])
        innerRoot.dispatch(1)
        await untilCancelled()
        await innerRoot.shutdown()
        inner.events.add("the inner shutdown")
      }
    ])
    root.dispatch(1)
    await started.wait()
    await root.shutdown()
    #expect(inner.events.all == ["the inner task", "the inner shutdown"])
  }

  @Test func `an interceptor of a structured tree within an interceptor waits for neither of the two trees`() async {
    let scene = Scene()
    let started = Gate()
    let root = scene.makeRoot([
      1: {
        started.open()
        await scene.done.wait()
      },
      2: {
        await withStore(
          initialState: 0,
          interceptors: Interceptor { (_: Int, _) in
            await scene.root.shutdown()
            scene.done.open()
          }, reducer: { (state: inout Int, action: Int) in state += action }
        ) { store in
          store.dispatch(1)
          await store.shutdown(interceptors: .finish(within: .seconds(3600)))
        }
      },
    ])
    root.dispatch(1)
    await started.wait()
    root.dispatch(2)
    await scene.done.wait()
    await root.shutdown()
  }

  @Test func `interceptors that all shut their tree down do not wait for each other forever`() async {
    let scene = Scene()
    let begun = Record<Void>()
    let shutDown: @Sendable () async -> Void = {
      begun.add(())
      await begun.untilCount(100)
      await scene.root.shutdown()
      scene.events.add("shutdown")
    }
    let root = scene.makeRoot(Dictionary(uniqueKeysWithValues: (1...100).map { ($0, shutDown) }))
    for number in 1...100 { root.dispatch(number) }
    await begun.untilCount(100)
    await root.shutdown()
    #expect(scene.events.all.count == 100)
  }

  @Test func `trees whose interceptors shut each other down in a ring wait for five seconds`() async {
    let clock = ManualClock()
    let scenes = (0..<3).map { _ in Scene() }
    let started = scenes.map { _ in Gate() }
    for (index, scene) in scenes.enumerated() {
      let next = (index + 1) % scenes.count
      _ = scene.makeRoot(
        [
          1: {
            started[index].open()
            for gate in started { await gate.wait() }
            await scenes[next].root.shutdown()
            scene.events.add("shutdown")
          }
        ], clock: clock)
    }
    for scene in scenes { scene.root.dispatch(1) }
    for gate in started { await gate.wait() }
    await clock.untilAsleep(3)
    clock.advance(by: .milliseconds(4_999))
    #expect(scenes.allSatisfy { $0.events.all.isEmpty })
    await clock.untilAsleep(3)
    clock.advance(by: .milliseconds(1))
    for scene in scenes { await scene.root.shutdown() }
    for scene in scenes { #expect(scene.events.all == ["shutdown"]) }
  }

  /// A store with an effect that follows the root's states. At state 1, it reports that and waits.
  private func follower(of root: RootStore<Int, Int>, _ scene: Scene, _ goOn: Gate) -> StateStore<Int, Int> {
    let above = root.store()
    return root.childStore(
      initialState: 0, stateMapping: { state, _ in state },
      interceptors: .effects { _, _ in
        .run { _ in
          for await state in above.states() where state == 1 {
            scene.done.open()
            await goOn.wait()
            scene.events.add(Task.isCancelled ? "cancelled" : "worked")
            return
          }
        }
      }
    ) { _, _ in }
  }

  @Test func `a finishing shutdown does not cancel an effect that continues while others are awaited`() async throws {
    let scene = Scene()
    let (observing, observed, goOn, clock) = (Gate(), Gate(), Gate(), ManualClock())
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let child = follower(of: root, scene, goOn)
    let grandchild = child.childStore(initialState: 0, stateMapping: { state, _ in state }) { _, _ in }
    grandchild.subscribe(
      observer: Observer { _ in
        observing.open()
        await observed.wait()
        return .dead
      })
    try await child.send(0)
    await observing.wait()
    let ending = Task { await child.shutdown(interceptors: .finish(within: .seconds(10)), clock: clock) }
    while !child.core.node.hasEnded { await Task.yield() }
    // The child is closed. Its effects have been found waiting, and its grandchild's effects are awaited.
    for _ in 0..<100 { _ = await root.state }
    try await root.send(1)
    await scene.done.wait()
    observed.open()
    for _ in 0..<100 { _ = await root.state }
    goOn.open()
    await ending.value
    #expect(scene.events.all == ["worked"])
    await root.shutdown()
  }

  @Test func `a waiting effect does not begin when its store has closed`() async throws {
    let scene = Scene()
    let (started, goOn, held) = (Gate(), Gate(), HeldExecutor())
    let roots = Record<RootStore<Int, Int>>()
    let tasks = Record<Int>()
    let root = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(executor: .serial(held)),
      interceptors: .effects { action, _ in
        if action > 2 { return .none }
        return .run { _ in
          scene.events.add("\(action)")
          guard action == 1 else { return }
          started.open()
          await goOn.wait()
        }.id("in turn", .inTurn())
      }
    ) { _, action in
      if action > 2, let effects = roots.all[0].core.node.existingEffects { tasks.add(effects.runningCount) }
    }
    roots.add(root)
    try await root.send(1)
    await started.wait()
    try await root.send(2)
    held.waitForRunningJob()
    let jobs = held.enqueued
    held.hold()
    goOn.open()
    // The order is: the end of the first effect, two actions, the end of the store. When the first of these is
    // performed, the store is closed. The second action sees an effect that began before it.
    await held.untilEnqueued(jobs + 1)
    root.dispatch(3)
    root.dispatch(4)
    let ending = Task { await root.shutdown() }
    while !root.core.node.hasEnded { await Task.yield() }
    held.letGo()
    await ending.value
    #expect(scene.events.all == ["1"])
    #expect(tasks.all == [0, 0])
  }

  @Test func `a commit in progress for an effect is no part of the effect`() async throws {
    let executor = ManualExecutor()
    let (started, goOn, over) = (Gate(), Gate(), Gate())
    let isOutside = Record<Bool>()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      state = action
      isOutside.add(RunningEffect.current == nil)
    }
    root.interceptActions(
      with: Interceptor(where: { $0 == 1 }) { [proxy = root.store()] _, _ in
        started.open()
        await goOn.wait()
        _ = try? await proxy.state
        over.open()
      })
    root.dispatch(1)
    await started.wait()
    await executor.untilIdle()
    executor.hold()
    goOn.open()
    await executor.untilWaiting(1)
    root.dispatch(2)
    executor.letGo()
    await over.wait()
    #expect(isOutside.all == [true, true])
    await root.shutdown()
  }
}
