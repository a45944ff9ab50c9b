import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// A caller may wait for the effects of its action, and for the effects that these cause.
@Suite(.timeLimit(.minutes(15))) struct G8Performing {
  /// Counts down, one second per action: by `dispatch`, by `send`, with and without an id.
  private func countdown(_ clock: ManualClock) -> Interceptor<Snapshot, Int> {
    .effects { action, context in
      if action == 99 { return .run { try await $0.sleep(for: .seconds(60)) } }
      guard (1...10).contains(action) else { return nil }
      switch action % 4 {
      case 0:
        return context.run { store in
          try await Task.sleep(until: clock.now.advanced(by: .seconds(1)), clock: clock)
          try await store.send(action - 1)
        }.id("a", .inTurn())
      case 1: return .run { $0(action - 1) }.after(.seconds(1))
      case 2:
        return .run { dispatch in
          try await dispatch.sleep(for: .seconds(1))
          dispatch.map { $0 - 1 }(action)
        }.id("b")
      default:
        return .run { dispatch in
          try await dispatch.sleep(for: .seconds(1))
          try await dispatch.send(action - 1)
        }
      }
    }
  }

  @Test(arguments: Kind.allCases)
  func `it returns when the action's effects have ended, and the effects of their actions`(kind: Kind)
    async throws
  {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let isDone = Gate()
    let subject = Subject(kind, clock: clock, interceptors: countdown(clock), reducing: { reduced.add($0) })
    let performing = Task { [store = subject.store] in
      try await store.perform(9)
      isDone.open()
      return reduced.all
    }
    let states = subject.states()
    _ = await states.collect(until: { $0.root.last == 9 })
    // This action is another caller's, and its effect takes longer.
    subject.store.dispatch(99)
    await subject.root.settled()
    await clock.advance(by: .milliseconds(8_900), settling: subject.root)
    #expect(!isDone.isOpen)
    await clock.advance(by: .milliseconds(100), settling: subject.root)
    let last = try await performing.value
    #expect(last == [9, 99, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `without effects it is the same as send`(kind: Kind) async throws {
    let subject = Subject(
      kind,
      middleware: [
        Middleware { action, context, next in if action == 3 { context.reject("no") } else { next(action) } }
      ])
    try await subject.store.perform(1)
    #expect(try await subject.store.state.root.last == 1)
    if kind.log == nil {
      await #expect(throws: StoreError.rejected(reason: "no")) { try await subject.store.perform(3) }
    }
    await subject.root.shutdown()
    await #expect(throws: StoreError.terminated) { try await subject.store.perform(2) }
  }

  @Test(arguments: Kind.inMemory)
  func `its cancellation cancels them, and nothing of them is committed`(kind: Kind) async throws {
    let clock = ManualClock()
    let (reduced, ended) = (Record<Int>(), Record<Int>())
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        guard action < 10 else { return nil }
        return .all(
          .run { dispatch in
            if action == 1 { dispatch(2) }
            await PureduxTesting.untilCancelled()
            dispatch(action + 10)
            ended.add(action)
          }, .run { $0(action + 20) }.after(.seconds(5)).id(action))
      }, reducing: { reduced.add($0) })
    let performing = Task { [store = subject.store] in try await store.perform(1) }
    let states = subject.states()
    _ = await states.collect(until: { $0.root.last == 2 })
    try await subject.store.send(3)
    await subject.root.settled()
    performing.cancel()
    try await performing.value
    #expect(Set(ended.all) == [1, 2])
    await clock.advance(by: .seconds(5), settling: subject.root)
    #expect(reduced.all == [1, 2, 3, 23])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.inMemory)
  func `a caller that is cancelled before its action's turn has it committed, without effects`(kind: Kind) async throws
  {
    let executor = HeldExecutor()
    let reduced = Record<Int>()
    let subject = Subject(
      kind, executor: .serial(executor), interceptors: .effects { action, _ in action == 1 ? .run { $0(2) } : nil },
      reducing: { reduced.add($0) })
    try await subject.store.send(0)
    executor.hold()
    let jobs = executor.enqueued
    let performing = Task { [store = subject.store] in try await store.perform(1) }
    await executor.untilEnqueued(jobs + 1)
    performing.cancel()
    executor.letGo()
    try await performing.value
    await subject.root.settled()
    #expect(reduced.all == [0, 1])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `it returns when the store ends`(kind: Kind) async throws {
    let started = Gate()
    let subject = Subject(
      kind,
      interceptors: .effects { _, _ in
        .all(
          .run { _ in
            started.open()
            await untilCancelled()
          }.id("a", .inTurn()), .run { _ in Issue.record("It has begun.") }.id("a", .inTurn()))
      })
    let performing = Task { [store = subject.store] in try await store.perform(1) }
    await started.wait()
    await subject.root.shutdown()
    try await performing.value
  }

  @Test(arguments: Kind.allCases)
  func `an effect that performs an action rests while the action's effects rest, and finishes with them`(kind: Kind)
    async throws
  {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let countdown = countdown(clock)
    let subject = Subject(
      kind, clock: clock,
      interceptors: Interceptor(combining: [
        countdown,
        .effects { action, context in
          guard action == 20 else { return nil }
          return context.run { store in
            try await store.perform(3)
            store.dispatch(30)
          }
        },
      ]), reporting: { Issue.record("\($0)") }, reducing: { reduced.add($0) })
    try await subject.store.send(20)
    await clock.advance(by: .seconds(3), settling: subject.root)
    #expect(reduced.all == [20, 3, 2, 1, 0, 30])
    try await subject.store.send(20)
    await subject.root.settled()
    let end = Task {
      await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    }
    while reduced.all.count < 12 {
      await clock.untilAsleep(1)
      clock.advance(by: .seconds(1))
      await reduced.untilCount(reduced.all.count + (reduced.all.last == 1 ? 2 : 1))
    }
    await end.value
    #expect(reduced.all.suffix(6) == [20, 3, 2, 1, 0, 30])
  }

  @Test(arguments: Kind.allCases)
  func `an effect of a performed action performs another, and continues when that one's effects have ended`(kind: Kind)
    async throws
  {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let subject = Subject(kind, clock: clock, interceptors: nested, reducing: { reduced.add($0) })
    let states = subject.states()
    let performing = Task { [store = subject.store] in
      try await store.perform(1)
      return reduced.all
    }
    _ = await states.collect(until: { $0.root.last == 2 })
    await subject.root.settled()
    #expect(reduced.all == [1, 2])
    await clock.advance(by: .seconds(1), settling: subject.root)
    #expect(try await performing.value == [1, 2, 4, 3])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.inMemory)
  func `the cancellation of the outer caller cancels the actions that its effects perform`(kind: Kind) async throws {
    let clock = ManualClock()
    let reduced = Record<Int>()
    let subject = Subject(kind, clock: clock, interceptors: nested, reducing: { reduced.add($0) })
    let states = subject.states()
    let performing = Task { [store = subject.store] in try await store.perform(1) }
    _ = await states.collect(until: { $0.root.last == 2 })
    await subject.root.settled()
    performing.cancel()
    try await performing.value
    await clock.advance(by: .seconds(1), settling: subject.root)
    #expect(reduced.all == [1, 2])
    #expect(await subject.root.statistics.runningTasks == 0)
    await subject.root.shutdown()
  }

  /// The effect of 1 performs 2 and then dispatches 3; the effect of 2 dispatches 4 a second later.
  private var nested: Interceptor<Snapshot, Int> {
    .effects { action, context in
      switch action {
      case 1:
        context.run { store in
          try await store.perform(2)
          store.dispatch(3)
        }
      case 2:
        .run { dispatch in
          try await dispatch.sleep(for: .seconds(1))
          dispatch(4)
        }
      default: nil
      }
    }
  }

  @Test(arguments: Kind.inMemory, [false, true])
  func `an action that middleware sends later, in a task of its own, does not belong to the performed action`(
    kind: Kind, isElsewhere: Bool
  )
    async throws
  {
    let (begun, mayEnd) = (Gate(), Gate())
    let reduced = Record<Int>()
    @Sendable func effect(of action: Int) -> Effect<Int>? {
      switch action {
      case 1: .run { _ in await PureduxTesting.untilCancelled() }
      case 2:
        .run { dispatch in
          begun.open()
          await mayEnd.wait()
          dispatch(3)
        }
      default: nil
      }
    }
    let stores = Record<any StoreType<Snapshot, Int>>()
    let other = Subject(kind, interceptors: .effects { action, _ in effect(of: action) }, reducing: { reduced.add($0) })
    let subject = Subject(
      kind, interceptors: .effects { action, _ in effect(of: action) },
      middleware: [
        Middleware { action, _, next in
          if action == 1 { Task { try? await stores.all[0].send(2) } }
          next(action)
        }
      ], reducing: { if $0 != 1, $0 != 50 { reduced.add($0) } })
    stores.add(isElsewhere ? other.store : subject.store)
    let performing = Task { [store = subject.store] in try await store.perform(1) }
    await begun.wait()
    performing.cancel()
    // This action's place is after the cancellation.
    try await subject.store.send(50)
    mayEnd.open()
    try await performing.value
    for root in [subject.root, other.root] { await root.settled() }
    #expect(reduced.all == [2, 3])
    for root in [subject.root, other.root] { await root.shutdown() }
  }

  @Test(arguments: Kind.allCases, [EffectPolicy.first, .inTurn(limit: 0)])
  func `when it returns, its effect no longer occupies its id or any count`(kind: Kind, policy: EffectPolicy)
    async throws
  {
    let begun = Record<Int>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action > 0 else { return nil }
        return .run { dispatch in
          begun.add(action)
          // The end of an effect that has dispatched has a place in the order.
          if action % 2 == 0 { dispatch(0) }
        }.id("x", policy)
      }, reporting: { Issue.record("\($0)") })
    for action in 1...300 {
      try await subject.store.perform(action)
      let statistics = await subject.root.statistics
      #expect(statistics.effects.isEmpty)
      #expect(statistics.runningTasks == 0)
    }
    #expect(begun.all == Array(1...300))
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `an effect that performs an action continues when that action's effect no longer occupies its id`(kind: Kind)
    async throws
  {
    let begun = Record<Int>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, context in
        switch action {
        case 1:
          context.run { store in
            for _ in 0..<300 { try await store.perform(2) }
          }
        case 2: .run { _ in begun.add(2) }.id("x", .first)
        default: nil
        }
      }, reporting: { Issue.record("\($0)") })
    try await subject.store.perform(1)
    #expect(begun.all.count == 300)
    await subject.root.shutdown()
  }

  /// A commit that cancels the caller of its own action.
  @Test(arguments: Kind.inMemory, ["by its id", "by its task"])
  func `the effects of a commit that cancels the caller are cancelled from the next place in the order on`(
    kind: Kind, way: String
  ) async throws {
    let (mayPerform, isOver) = (Gate(), Gate())
    let callers = Record<Task<Void, Never>>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, context in
        switch action {
        case 1:
          return context.run { store in
            await mayPerform.wait()
            let mayBegin = Gate()
            let performing = Task {
              await mayBegin.wait()
              _ = try? await store.perform(2)
            }
            callers.add(performing)
            mayBegin.open()
            await withTaskCancellationHandler {
              await performing.value
            } onCancel: {
              performing.cancel()
            }
            isOver.open()
          }.id("x")
        case 2:
          let next = Effect<Int>.run { _ in await PureduxTesting.untilCancelled() }.id("y")
          if way == "by its id" { return .all(.cancel("x"), next) }
          callers.all.first?.cancel()
          return next
        case 3: return .run { _ in await PureduxTesting.untilCancelled() }.id("y")
        default: return nil
        }
      })
    try await subject.store.send(3)
    try await subject.store.send(1)
    await subject.root.settled()
    mayPerform.open()
    await isOver.wait()
    // This action's place is after the cancellation, in either case.
    try await subject.store.send(50)
    // The effect of 3 is cancelled because 2 has been given, and the effect of 2 is cancelled with its caller.
    #expect(await subject.root.statistics.effects["y"] == nil)
    await subject.root.shutdown()
  }
}
