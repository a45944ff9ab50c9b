import PureduxTestSupport
import Testing

@testable import Puredux

/// Who waits for whom in a shutdown that is called from within the tree's own tasks.
@Suite(.timeLimit(.minutes(15))) struct WaitingTests {
  /// How an interceptor calls for a shutdown that it awaits.
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

  /// What interceptors need to know of a tree, and the tests of what they did.
  private final class Scene: Sendable {
    let roots = Record<RootStore<Int, Int>>()
    let events = Record<String>()
    let done = Gate()
    var root: RootStore<Int, Int> { roots.all[0] }

    /// A tree with an interceptor for each action.
    func makeRoot(_ interceptors: [Int: @Sendable () async -> Void]) -> RootStore<Int, Int> {
      let root = RootStore<Int, Int>(
        initialState: 0, interceptors: Interceptor { action, _ in await interceptors[action]?() }
      ) { $0 += $1 }
      roots.add(root)
      return root
    }

    /// What a task does that is to be waited for: takes its time after its cancellation.
    func untilCancelledAndLonger(_ event: String) async {
      await untilCancelled()
      for _ in 0..<20 { _ = await root.state }
      events.add(event)
    }
  }

  @Test(arguments: Way.allCases)
  func `an interceptor that shuts its own tree down waits for all tasks but its own`(way: Way) async {
    let scene = Scene()
    let started = Gate()
    let root = scene.makeRoot([
      1: {
        started.open()
        await scene.untilCancelledAndLonger("the other")
      },
      2: {
        await way.call { await scene.root.shutdown() }
        scene.events.add("shutdown")
        scene.done.open()
      },
    ])
    root.childStore(initialState: 0) { _, _ in }.dispatch(2)
    let child = root.childStore(initialState: 0) { _, _ in }
    child.dispatch(1)
    await started.wait()
    child.dispatch(2)
    await scene.done.wait()
    #expect(scene.events.all == ["the other", "shutdown"])
  }

  @Test func `a task that a running interceptor left behind waits for all tasks but that interceptor's`() async {
    let scene = Scene()
    let started = Gate()
    let root = scene.makeRoot([
      1: {
        started.open()
        await scene.untilCancelledAndLonger("the other")
      },
      2: {
        Task {
          await scene.root.shutdown()
          scene.events.add("shutdown")
          scene.done.open()
        }
        await scene.done.wait()
      },
    ])
    root.dispatch(1)
    await started.wait()
    root.dispatch(2)
    await scene.done.wait()
    #expect(scene.events.all == ["the other", "shutdown"])
    await root.shutdown()
  }

  @Test func `a task that an ended interceptor left behind waits as everybody does`() async {
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

  /// A tree may come to lie where another was.
  @Test func `a task that an interceptor of a tree long gone left behind waits for the tasks of fresh trees`() async {
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

  @Test func `an interceptor that shuts another store down waits for the tasks of that store`() async {
    let scene = Scene()
    let started = Gate()
    let children = Record<StateStore<(Int, Int), Int>>()
    let root = scene.makeRoot([
      1: {
        started.open()
        await scene.untilCancelledAndLonger("the child's task")
      },
      2: {
        await children.all[0].shutdown()
        scene.events.add("the child's shutdown")
        scene.done.open()
      },
    ])
    children.add(root.childStore(initialState: 0) { $0 += $1 })
    children.all[0].dispatch(1)
    await started.wait()
    root.dispatch(2)
    await scene.done.wait()
    #expect(scene.events.all == ["the child's task", "the child's shutdown"])
  }

  @Test func `a tree that an interceptor makes and shuts down is waited for, and so is its own`() async {
    let (outer, inner) = (Scene(), Scene())
    let (otherStarted, started) = (Gate(), Gate())
    let root = outer.makeRoot([
      1: {
        otherStarted.open()
        await outer.untilCancelledAndLonger("the other")
      },
      2: {
        let root = inner.makeRoot([
          1: {
            started.open()
            await inner.untilCancelledAndLonger("the inner task")
          }
        ])
        root.dispatch(1)
        await started.wait()
        await root.shutdown()
        inner.events.add("the inner shutdown")
        await outer.root.shutdown()
        outer.events.add("the outer shutdown")
        outer.done.open()
      },
    ])
    root.dispatch(1)
    await otherStarted.wait()
    root.dispatch(2)
    await outer.done.wait()
    #expect(inner.events.all == ["the inner task", "the inner shutdown"])
    #expect(outer.events.all == ["the other", "the outer shutdown"])
  }

  @Test func `an interceptor of a structured tree within an interceptor waits for neither of the two`() async {
    let scene = Scene()
    let started = Gate()
    let root = scene.makeRoot([
      1: {
        started.open()
        await scene.untilCancelledAndLonger("the other")
      },
      2: {
        await withStore(
          initialState: 0,
          interceptors: Interceptor { (_: Int, _) in
            await scene.root.shutdown()
            scene.events.add("shutdown")
          }, reducer: { (state: inout Int, action: Int) in state += action }
        ) { store in
          store.dispatch(1)
          await store.shutdown(interceptors: .finish(within: .seconds(3600)))
        }
        scene.done.open()
      },
    ])
    root.dispatch(1)
    await started.wait()
    root.dispatch(2)
    await scene.done.wait()
    #expect(scene.events.all == ["the other", "shutdown"])
  }

  @Test func `interceptors that all shut their tree down do not wait for each other for ever`() async {
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

  @Test func `trees whose interceptors shut each other down in a ring come to their ends`() async {
    let scenes = (0..<3).map { _ in Scene() }
    let started = scenes.map { _ in Gate() }
    for (index, scene) in scenes.enumerated() {
      let next = (index + 1) % scenes.count
      _ = scene.makeRoot([
        1: {
          started[index].open()
          for gate in started { await gate.wait() }
          await scenes[next].root.shutdown()
          scene.events.add("shutdown")
        }
      ])
    }
    for scene in scenes { scene.root.dispatch(1) }
    for gate in started { await gate.wait() }
    for scene in scenes { await scene.root.shutdown() }
    for scene in scenes { #expect(scene.events.all == ["shutdown"]) }
  }

  /// A store with an effect that follows the states of the root, and says so and waits when it comes to one that is 1.
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

  @Test func `finishing, an effect that goes on while others are waited for is not cancelled`() async throws {
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
    // Closed, the child's effects have been seen to wait, and its grandchild's are waited for.
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
    // The order: the end of the first effect, two actions, the end of the store. When the first of these is performed,
    // the store is closed. The second action sees an effect that began before it.
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

  @Test func `finishing, an interceptor waits for the others and goes on uncancelled`() async {
    let scene = Scene()
    let (started, goOn) = (Gate(), Gate())
    let root = scene.makeRoot([
      1: {
        started.open()
        await goOn.wait()
        for _ in 0..<20 { _ = await scene.root.state }
        scene.events.add("the other")
      },
      2: {
        goOn.open()
        await scene.root.shutdown(interceptors: .finish(within: .seconds(3600)))
        scene.events.add(Task.isCancelled ? "cancelled" : "shutdown")
        scene.done.open()
      },
    ])
    root.dispatch(1)
    await started.wait()
    root.dispatch(2)
    await scene.done.wait()
    #expect(scene.events.all == ["the other", "shutdown"])
  }
}
