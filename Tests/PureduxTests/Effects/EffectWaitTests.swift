import Foundation
import PureduxTestSupport
import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(15))) struct EffectWaitTests {
  @Test func `what an effect does for others on its way through the tree is no part of it`() async throws {
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

  /// Whether a call would close a ring changes all the time here: also between the two waits that it might begin.
  @Test func `a call that leaves the end of a store to others does not wait for them`() async throws {
    let limit = InterceptorShutdown.finish(within: .seconds(1000))
    for _ in 0..<100 {
      let (started, goOn) = ([Gate(), Gate()], Gate())
      let runners = Record<EffectRunner>()
      let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
      root.interceptActions(
        with: Interceptor { [weak root] action, _ in
          if let runner = RunningEffect.current?.effectRunner { runners.add(runner) }
          started[action].open()
          await goOn.wait()
          await root?.shutdown(interceptors: limit)
        })
      for action in 0...1 { root.dispatch(action) }
      for gate in started { await gate.wait() }
      let runner = try #require(runners.all.first)
      let other = RunningEffect(of: runner)
      let isOver = LockedValue(false)
      Thread.detachNewThread {
        while !isOver.withLock({ $0 }) { EffectWait.begin(of: [other], for: [runner])?.end() }
      }
      async let end: Void = root.shutdown(interceptors: limit)
      while root.dispatch(0) == .enqueued { await Task.yield() }
      goOn.open()
      await end
      isOver.withLock { $0 = true }
    }
  }

  private func effects(_ count: Int) -> [RunningEffect] {
    (0..<count).map { _ in RunningEffect(of: EffectRunner()) }
  }

  @Test func `of two effects that wait for each other the second does not begin, until the first is through`() throws {
    let effects = effects(2)
    let first = try #require(EffectWait.begin(of: [effects[0]], for: [effects[1].effectRunner]))
    #expect(EffectWait.begin(of: [effects[1]], for: [effects[0].effectRunner]) == nil)
    first.end()
    let second = try #require(EffectWait.begin(of: [effects[1]], for: [effects[0].effectRunner]))
    #expect(EffectWait.begin(of: [effects[0]], for: [effects[1].effectRunner]) == nil)
    second.end()
  }

  @Test func `a ring may be of any length, and what is no ring is none`() throws {
    let effects = effects(6)
    let waits = try (0..<4).map {
      try #require(EffectWait.begin(of: [effects[$0]], for: [effects[$0 + 1].effectRunner, effects[5].effectRunner]))
    }
    for index in 0..<4 {
      #expect(EffectWait.begin(of: [effects[4]], for: [effects[index].effectRunner]) == nil)
      #expect(EffectWait.begin(of: [effects[5]], for: [effects[4].effectRunner, effects[index].effectRunner]) == nil)
    }
    let other = try #require(EffectWait.begin(of: [effects[4]], for: [effects[5].effectRunner]))
    for wait in waits + [other] { wait.end() }
  }

  @Test func `two effects of one store that wait for its end are a ring, two waits of one effect are none`() throws {
    let runner = EffectRunner()
    let (first, second) = (
      RunningEffect(of: runner), RunningEffect(of: runner)
    )
    let waits = try (0..<2).map { _ in try #require(EffectWait.begin(of: [first], for: [runner])) }
    #expect(EffectWait.begin(of: [second], for: [runner]) == nil)
    for wait in waits { wait.end() }
    try #require(EffectWait.begin(of: [second], for: [runner])).end()
  }

  @Test func `an effect within another waits for neither, and is waited for by that`() async throws {
    let outer = effects(1)[0]
    let callers = Record<[RunningEffect]>()
    let inner = ClosureEffect(of: EffectRunner()) { _ in callers.add(RunningEffect.ofCurrentTask) }
    inner.starts(as: 0, within: [outer])
    await inner.run()
    #expect(callers.all.count == 1 && callers.all[0].elementsEqual([outer, inner], by: ===))
    let ending = try #require(EffectWait.begin(of: [outer, inner], for: [outer.effectRunner]))
    let around = try #require(EffectWait.begin(of: [outer], for: [inner.effectRunner]))
    ending.end()
    around.end()
  }

  @Test func `an effect that has ended closes no ring`() throws {
    let effects = effects(2)
    let first = try #require(EffectWait.begin(of: [effects[0]], for: [effects[1].effectRunner]))
    effects[0].end()
    let second = try #require(EffectWait.begin(of: [effects[1]], for: [effects[0].effectRunner]))
    first.end()
    second.end()
  }
}

extension RunningEffect {
  fileprivate var effectRunner: EffectRunner { runner as! EffectRunner }
}
