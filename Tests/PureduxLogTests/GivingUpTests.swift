import Dispatch
import Puredux
import PureduxLog
import PureduxLogTesting
import Testing

/// Callers who do not wait for the log any longer: G9 and G12.
@Suite(.timeLimit(.minutes(4))) struct GivingUpTests {
  typealias Child = StateStore<(Ledger, Int), String>

  /// The ways to send.
  enum Way: CaseIterable, Sendable {
    case root, reading, proxy, scope, optionalScope, projection, child, ofChild, within, readingWithin, performed

    fileprivate func send(_ action: String, to store: LedgerStore, _ child: Child) async throws(StoreError) {
      switch self {
      case .root: try await store.send(action)
      case .reading: _ = try await store.send(action) { _ in Issue.record("It was read.") }
      case .proxy: try await store.store().send(action)
      case .scope: try await store.scope { $0.entries.count }.send(action)
      case .optionalScope: _ = try await store.scope(toOptional: { $0.entries.first }).send(action) { $0 }
      case .projection: try await store.projection(action: { (text: String) in text }, state: { $0 }).send(action)
      case .child: try await child.send(action)
      case .ofChild: _ = try await child.scope { $0.1 }.send(action) { _ in Issue.record("It was read.") }
      case .within: try await store.send(action, within: .seconds(1_000_000))
      case .readingWithin:
        _ = try await child.send(action, within: .seconds(1_000_000)) { _ in Issue.record("It was read.") }
      case .performed: try await child.perform(action)
      }
    }
  }

  private func child(of store: LedgerStore) -> Child { store.childStore(initialState: 0) { count, _ in count += 1 } }

  @Test("one that is cancelled while the log is away does not know, and its action comes once", arguments: Way.allCases)
  func submitted(way: Way) async throws {
    let log = GatedLog()
    let store = try await ledger(log)
    let child = child(of: store)
    let sending = Task { try await way.send("a", to: store, child) }
    await log.untilHeld(1)
    sending.cancel()
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    store.dispatch("b")
    await log.open()
    #expect(await store.state.entries == ["a", "b"])
    // A child's path is reduced, whoever waits.
    #expect(await child.state.1 == ([.child, .ofChild, .readingWithin, .performed].contains(way) ? 1 : 0))
    await store.shutdown()
  }

  @Test("one that is cancelled before its turn changes nothing, and is told at once", arguments: Way.allCases)
  func placed(way: Way) async throws {
    let executor = ManualExecutor()
    let store = try await RootStore<Ledger, String>(
      following: MemoryLog(), initialState: Ledger(), options: .once, executor: .serial(executor)
    ) { $0.entries.append($1) }
    let child = child(of: store)
    try await store.send("first")
    await executor.untilIdle()
    executor.hold()
    store.dispatch("x")
    store.dispatch("y")
    let sending = Task { try await way.send("a", to: store, child) }
    await executor.untilWaiting(2)
    // The drain, which leaves the rest to who is on the way; and who is, and takes a place behind it.
    await executor.step()
    await executor.step()
    sending.cancel()
    await #expect(throws: StoreError.withdrawn) { try await sending.value }
    executor.letGo()
    try await store.send("last")
    #expect(await store.state.entries == ["first", "x", "y", "last"])
    await store.shutdown()
  }

  @Test("a task that has been cancelled sends nothing, and can read", arguments: Way.allCases)
  func before(way: Way) async throws {
    let log = MemoryLog()
    let store = try await ledger(log, options: .once)
    let child = child(of: store)
    try await store.send("first")
    let sending = Task {
      await untilCancelled()
      await #expect(throws: StoreError.withdrawn) { try await way.send("a", to: store, child) }
      let ofScope = try await store.scope { $0.entries }.state
      #expect(ofScope == ["first"])
      return await (store.state.entries, child.state.0.entries, store.statistics.commits)
    }
    sending.cancel()
    let (entries, ofChild, commits) = try await sending.value
    #expect(entries == ["first"] && ofChild == ["first"] && commits == 1)
    #expect(try await log.head() == 1)
    await store.shutdown()
    await #expect(throws: StoreError.terminated) { try await store.send("late") }
  }

  @Test("a read that waits for what has been accepted is not given up")
  func reads() async throws {
    let log = GatedLog()
    let store = try await ledger(log)
    let child = child(of: store)
    store.dispatch("a")
    await log.untilHeld(1)
    let reading = Task { await (store.state.entries, child.state.0.entries) }
    reading.cancel()
    let ofScope = Task { try await store.scope { $0.entries.count }.state }
    ofScope.cancel()
    await log.open()
    #expect(await reading.value == (["a"], ["a"]))
    #expect(try await ofScope.value == 1)
    await store.shutdown()
  }

  @Test("what an effect sends can be given up as well", arguments: [false, true])
  func effects(isMapped: Bool) async throws {
    let log = GatedLog()
    let (mayGoOn, sends) = (Gate(), Record<Task<Void, any Error>>())
    await log.open()
    let store = try await ledger(
      log,
      interceptor: { action, dispatch in
        guard action == "ask" else { return }
        await mayGoOn.wait()
        let sending = Task {
          let dispatch = isMapped ? dispatch.map { (text: String) in text } : dispatch
          try await dispatch.send("b")
        }
        sends.add(sending)
        _ = await sending.result
      })
    try await store.send("ask")
    await log.hold()
    mayGoOn.open()
    await log.untilHeld(2)
    await sends.untilCount(1)
    sends.all[0].cancel()
    await #expect(throws: StoreError.outcomeUnknown) { try await sends.all[0].value }
    await log.open()
    #expect(await store.state.entries == ["ask", "b"])
    await store.shutdown()
  }

  @Test("one that is cancelled in its commit has been committed; in its submission that is not known")
  func within() async throws {
    let sending = LockedValue<Task<Void, any Error>?>(nil)
    let cancel = { @Sendable in sending.withLock { $0 }?.cancel() }
    let store = try await RootStore<Ledger, String>(following: MemoryLog(), initialState: Ledger(), options: .once) {
      if $1 == "commit" { cancel() }
      $0.entries.append($1)
    }
    let child = store.childStore(
      initialState: 0,
      middleware: [
        Middleware { action, _, next in
          if action == "submission" { cancel() }
          next(action)
        }
      ]
    ) { count, _ in count += 1 }
    for action in ["commit", "submission"] {
      let mayGoOn = Gate()
      let task = Task {
        await mayGoOn.wait()
        try await child.send(action)
      }
      sending.withLock { $0 = task }
      mayGoOn.open()
      if action == "commit" {
        try await task.value
      } else {
        await #expect(throws: StoreError.outcomeUnknown) { try await task.value }
      }
    }
    #expect(await store.state.entries == ["commit", "submission"])
    #expect(await child.state.1 == 2)
    await store.shutdown()
  }

  @Test("whenever one is cancelled, it is told once, and what the state says")
  func atAnyTime() async throws {
    let log = MemoryLog()
    let store = try await ledger(log)
    let child = child(of: store)
    var (committed, withdrawn) = (Set<String>(), Set<String>())
    for round in 0..<300 {
      let sending = Task { try await (round % 2 == 0 ? Way.root : .child).send("\(round)", to: store, child) }
      for _ in 0..<round % 15 { await Task.yield() }
      sending.cancel()
      switch await sending.result {
      case .success: committed.insert("\(round)")
      case .failure(StoreError.withdrawn): withdrawn.insert("\(round)")
      case .failure(StoreError.outcomeUnknown): break
      case .failure(let error): Issue.record("\(error)")
      }
    }
    try await store.send("last")
    let entries = await store.state.entries
    #expect(Set(entries).count == entries.count)
    #expect(committed.isSubset(of: entries) && withdrawn.isDisjoint(with: entries))
    #expect(entries == entries.dropLast().sorted { Int($0)! < Int($1)! } + ["last"])
    await store.shutdown()
    #expect(await (try ledger(log)).state.entries == entries)
  }

  @Test("many that are cancelled together while the log is away, which then misbehaves: each comes once")
  func together() async throws {
    let gated = GatedLog()
    let store = try await ledger(UnreliableLog(gated, seed: 7))
    let outcomes = await withTaskGroup(of: (Int, StoreError?).self) { tasks in
      for number in 0..<60 {
        tasks.addTask {
          do throws(StoreError) {
            try await store.send("\(number)")
            return (number, nil)
          } catch {
            return (number, error)
          }
        }
      }
      while await store.statistics.log?.pendingActions ?? 0 < 60 { await Task.yield() }
      tasks.cancelAll()
      return await tasks.reduce(into: [:]) { $0[$1.0] = $1.1 }
    }
    #expect(outcomes.count == 60 && outcomes.values.allSatisfy { $0 == .outcomeUnknown })
    await gated.open()
    try await store.send("last")
    let entries = await store.state.entries
    #expect(entries.last == "last" && Set(entries).count == 61 && entries.count == 61)
    await store.shutdown()
  }

  @Test("the end of the store, and one that waits no more, tell one outcome")
  func end() async throws {
    for isReleased in [false, true] {
      let log = GatedLog()
      var store: LedgerStore? = try await ledger(log)
      let sending = Task { [proxy = store!.store()] in try await proxy.send("a") }
      await log.untilHeld(1)
      let ending = isReleased ? nil : Task { [store] in await store!.shutdown() }
      store = nil
      sending.cancel()
      await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
      await log.open()
      await ending?.value
    }
  }

  @Test("who is on an actor is there again")
  func isolation() async throws {
    let log = GatedLog()
    let store = try await ledger(log)
    let key = DispatchSpecificKey<Void>()
    DispatchQueue.main.setSpecific(key: key, value: ())
    let isOnMain = { @Sendable in DispatchQueue.getSpecific(key: key) != nil }
    let sending = Task { @MainActor in
      let isAtFirst = isOnMain()
      do {
        try await store.send("a")
        return false
      } catch {
        return isAtFirst && isOnMain()
      }
    }
    await log.untilHeld(1)
    sending.cancel()
    #expect(await sending.value)
    await log.open()
    await store.shutdown()
  }

  // MARK: Within a time

  @Test("one whose time is over does not know, and its action may come", arguments: [false, true])
  func timeIsOver(isOfChild: Bool) async throws {
    let (log, clock) = (GatedLog(), ManualClock())
    let store = try await ledger(log, clock: clock)
    let child = child(of: store)
    let sending = Task {
      if isOfChild {
        _ = try await child.send("a", within: .seconds(5)) { $0.1 }
      } else {
        try await store.send("a", within: .seconds(5))
      }
    }
    await log.untilHeld(1)
    // What watches the log, and the limit.
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(5))
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    await log.open()
    #expect(await store.state.entries == ["a"])
    #expect(try await child.send("b", within: .seconds(5)) { $0.0.entries } == ["a", "b"])
    await store.shutdown()
  }

  @Test("with no time at all nothing is given to the log; with the longest all is", arguments: DurationTests.extremes)
  func extremes(duration: Duration) async throws {
    let log = MemoryLog()
    let store = try await ledger(log, options: .once)
    if duration > .zero {
      try await store.send("a", within: duration)
      #expect(try await store.send("b", within: duration) { $0.entries } == ["a", "b"])
    } else {
      await #expect(throws: StoreError.withdrawn) { try await store.send("a", within: duration) }
      await #expect(throws: StoreError.withdrawn) { try await store.send("a", within: duration) { $0 } }
      #expect(try await log.head() == 0)
    }
    await store.shutdown()
    await #expect(throws: StoreError.terminated) { try await store.send("late", within: duration) }
  }

  @Test("where there is no log, only the turn is waited for, and cancellation changes nothing")
  func withoutLog() async throws {
    let (executor, clock) = (ManualExecutor(), ManualClock())
    let store = LedgerStore(initialState: Ledger(), executor: .serial(executor), clock: clock) { $0.entries.append($1) }
    try await store.send("at once", within: .zero)
    for isCancelled in [false, true] {
      await executor.untilIdle()
      executor.hold()
      store.dispatch("x")
      store.dispatch("y")
      let sending = Task { try await store.send("late", within: .seconds(5)) }
      await executor.untilWaiting(2)
      await executor.step()
      await executor.step()
      await clock.untilAsleep(1)
      if isCancelled {
        sending.cancel()
        executor.letGo()
        try await sending.value
        // Nobody sleeps any more.
        while clock.nextDeadline != nil { await Task.yield() }
      } else {
        clock.advance(by: .seconds(5))
        await #expect(throws: StoreError.withdrawn) { try await sending.value }
        executor.letGo()
      }
    }
    #expect(await store.state.entries == ["at once", "x", "y", "x", "y", "late"])
    await store.shutdown()
  }
}
