import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// A tree that is stopped and runs step by step, and handmade stores.
@Suite(.timeLimit(.minutes(15))) struct OrderTests {
  @Test func `a tree is let go from one commit to the next`() async throws {
    let executor = ManualExecutor()
    let committed = Record<Int>()
    let store = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      state += action
      committed.add(action)
    }
    await executor.untilIdle()
    executor.hold()
    store.dispatch(1)
    await executor.untilWaiting(1)
    async let second: Void = store.send(2)
    await executor.untilWaiting(2)
    #expect(committed.all == [])
    #expect(await executor.step())
    #expect(committed.all == [1])
    #expect(executor.waitingCount == 1)
    #expect(await executor.step())
    try await second
    #expect(committed.all == [1, 2])
    #expect(await executor.step() == false)
    // Dispatched actions run step by step, too, however many wait.
    for action in 3...7 { store.dispatch(action) }
    for last in 3...7 {
      #expect(await executor.step())
      #expect(committed.all.last == last)
    }
    executor.letGo()
    #expect(try await store.send(8) { $0 } == 36)
    await store.shutdown()
  }

  @Test func `a test decides which of two sends is first`() async throws {
    for isFirstFirst in [true, false] {
      let executor = ManualExecutor()
      let store = RootStore<[String], String>(initialState: [], options: StoreOptions(executor: .serial(executor))) {
        $0.append($1)
      }
      await executor.untilIdle()
      executor.hold()
      let names = isFirstFirst ? ["a", "b"] : ["b", "a"]
      var sends: [Task<Void, any Error>] = []
      for (index, name) in names.enumerated() {
        sends.append(Task { try await store.send(name) })
        await executor.untilWaiting(index + 1)
      }
      executor.letGo()
      for send in sends { try await send.value }
      #expect(await store.state == names)
      await store.shutdown()
    }
  }

  @Test func `a consumer is let go from one delivery to the next`() async throws {
    let executor = ManualExecutor(forTasks: true)
    let store = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let states = store.states() as StateSequence
    let seen = Record<Int>()
    executor.hold()
    let consumer = Task(executorPreference: executor) {
      for await state in states {
        seen.add(state)
        if state == 2 { break }
      }
    }
    for state in 0...2 {
      if state > 0 { try await store.send(state) }
      // The consumer does not see the state until it is let go.
      #expect(seen.all.count == state)
      while seen.all.count == state {
        await executor.untilWaiting(1)
        await executor.step()
      }
      #expect(seen.all.last == state)
    }
    executor.letGo()
    await consumer.value
    #expect(seen.all == [0, 1, 2])
    await store.shutdown()
  }

  @Test func `an executor reports its jobs, and may be let go twice`() async throws {
    let executor = ManualExecutor()
    let given = Record<Void>()
    executor.whenGivenJob { given.add(()) }
    let store = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 = $1 }
    store.dispatch(1)
    await given.untilCount(1)
    executor.whenGivenJob(nil)
    executor.hold()
    executor.letGo()
    executor.letGo()
    #expect(await store.state == 1)
    #expect(executor.isCurrent == false)
    await store.shutdown()
  }

  @Test func `waits end when they are cancelled`() async {
    let (executor, clock) = (ManualExecutor(), ManualClock())
    executor.hold()
    let store = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 = $1 }
    store.dispatch(1)
    let waits = [
      Task { await executor.untilWaiting(5) }, Task { await executor.untilIdle() }, Task { await clock.untilAsleep(5) },
    ]
    for wait in waits { wait.cancel() }
    for wait in waits { await wait.value }
    executor.letGo()
    await store.shutdown()
  }

  @Test func `an executor holds itself`() async {
    let (executor, held) = (ManualExecutor(), Gate())
    let store = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      executor.hold()
      state = action
      held.open()
    }
    store.dispatch(1)
    await held.wait()
    executor.letGo()
    #expect(await store.state == 1)
    await store.shutdown()
  }

  // MARK: Scripted stores

  private enum Action: Sendable, Equatable { case say(String), leave }

  @Test func `a scripted store yields its states, and records its actions`() async throws {
    let store = ScriptedStore<String, Action>("silent", "hello", "bye")
    let states = store.record()
    #expect(try await store.send(.say("hi")) { $0 } == "hello")
    #expect(store.store().dispatch(.leave) == .enqueued)
    store.scope { $0.count }.dispatch(.leave)
    #expect(await store.actions == [.say("hi"), .leave, .leave])
    await states.expectOnly("silent", "hello", "bye")
    store.answer(with: "again")
    try await store.send(.leave)
    await store.publish("gone", "gone")
    await states.expectOnly("again", "gone", "gone")
    #expect(try await store.state == "gone")
  }

  @Test func `a scripted store refuses actions on request, and ends`() async throws {
    let store = ScriptedStore<Int, Action>(0)
    store.refuse(with: .rejected(reason: "No."))
    await #expect(throws: StoreError.rejected(reason: "No.")) { try await store.send(.leave) }
    await #expect(throws: StoreError.rejected(reason: "No.")) { try await store.send(.leave) { $0 } }
    await #expect(throws: StoreError.rejected(reason: "No.")) { try await store.send(.leave, isolation: #isolation) }
    await #expect(throws: StoreError.rejected(reason: "No.")) {
      try await store.send(.leave, isolation: #isolation) { $0 }
    }
    await #expect(throws: StoreError.rejected(reason: "No.")) { try await store.send(.leave, within: .seconds(1)) }
    await #expect(throws: StoreError.rejected(reason: "No.")) { try await store.perform(.leave) }
    await #expect(throws: StoreError.rejected(reason: "No.")) {
      try await store.send(
        contentsOf: AsyncStream {
          $0.yield(Action.leave); $0.finish()
        })
    }
    // The same holds for the store as a `StoreType`, and for its proxies, scopes and projections.
    let projection: Store<Int, Action> = store.projection(action: { $0 }, state: { $0 })
    for proxy in [store.store(), store.scope { $0 }, projection] {
      await #expect(throws: StoreError.rejected(reason: "No.")) { try await proxy.send(.leave) }
      await #expect(throws: StoreError.rejected(reason: "No.")) { try await proxy.perform(.leave) }
      await #expect(throws: StoreError.rejected(reason: "No.")) { try await proxy.send(.leave, within: .seconds(1)) }
      #expect(proxy.dispatch(.leave) == .enqueued)
    }
    // `dispatch` returns before the refusal.
    for error in [StoreError.rejected(reason: nil), .stateUnavailable] {
      store.refuse(with: error)
      #expect(store.dispatch(.leave) == .enqueued)
    }
    #expect(await store.actions == [])
    store.refuse(with: .unmapped)
    #expect(store.dispatch(.leave) == .unmapped)
    store.refuse(with: .terminated)
    #expect(store.dispatch(.leave) == .terminated)
    store.refuse(with: nil)
    #expect(store.dispatch(.leave) == .enqueued)
    let states = store.record()
    await store.end()
    await store.end()
    await states.expect(0)
    await states.expectEnd()
    #expect(store.dispatch(.leave) == .terminated)
    await #expect(throws: StoreError.terminated) { try await store.send(.leave) }
    await store.publish(1)
    #expect(await store.actions == [.leave])
  }

  /// Waits as code does that only knows a `StoreType`.
  private func nextWord(_ store: some StoreType<String, Action>) async throws -> String {
    try await store.firstAction(matching: { if case .say(let word) = $0 { word } else { nil } })
  }

  @Test func `a scripted store has first actions, as every store`() async throws {
    let store = ScriptedStore<String, Action>("silent")
    for wait in [
      { try await self.nextWord(store) }, { try await self.nextWord(store.store()) },
      { try await self.nextWord(store.scope { $0 }) },
    ] as [@Sendable () async throws -> String] {
      let word = Task.immediate { try await wait() }
      await store.publish("again")
      store.dispatch(.leave)
      store.dispatch(.say("hello"))
      #expect(try await word.value == "hello")
    }
    await #expect(throws: StoreError.unmapped) {
      _ = try await nextWord(store.projection(action: { $0 }, state: { $0 }))
    }
    let last = Task.immediate { try await nextWord(store) }
    await store.end()
    await #expect(throws: StoreError.terminated) { _ = try await last.value }
    await #expect(throws: StoreError.terminated) { _ = try await nextWord(store) }
  }

  /// Code that only needs a `StoreType`.
  private func greet(_ store: some StoreType<String, Action>) async throws {
    for await state in store.states() {
      if state == "hello" { return try await store.send(.leave) }
      store.dispatch(.say("hello"))
    }
  }

  @Test func `code that only needs a store`() async throws {
    let store = ScriptedStore<String, Action>("silent", "hello")
    try await greet(store)
    #expect(await store.actions == [.say("hello"), .leave])
    let silent = ScriptedStore<String, Action>("silent")
    let greeting = Task { try await greet(silent) }
    await silent.end()
    try await greeting.value
  }
}
