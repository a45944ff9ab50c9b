import Dispatch
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Callers that no longer wait for the log (G9, G12).
@Suite(.timeLimit(.minutes(15))) struct GivingUpTests {
  typealias Child = StateStore<(Ledger, Int), String>

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

  @Test(
    "a send cancelled while the log is away has an unknown outcome, and its action is committed once",
    arguments: Way.allCases)
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
    // A child's path is reduced, whether its caller still waits or not.
    #expect(await child.state.1 == ([.child, .ofChild, .readingWithin, .performed].contains(way) ? 1 : 0))
    await store.shutdown()
  }

  @Test(
    "a sequence of actions that is cancelled, or whose store ends, has the outcome of the action in the log",
    arguments: [false, true])
  func contents(ends: Bool) async throws {
    // The end and the outcome race: whichever comes first, the outcome is thrown.
    for _ in 0..<100 {
      let log = GatedLog()
      var options = LogOptions.quick
      options.endingLimit = .zero
      let store = try await ledger(log, options: options)
      let sending = Task { try await store.send(contentsOf: AsyncStream { $0.yield("a") }) }
      await log.untilHeld(1)
      if ends { await store.shutdown() } else { sending.cancel() }
      await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
      await log.open()
      await store.shutdown()
    }
  }

  @Test("a send cancelled before its turn changes nothing, and returns at once", arguments: Way.allCases)
  func placed(way: Way) async throws {
    let executor = ManualExecutor()
    let store = try await RootStore<Ledger, String>(
      following: MemoryLog(), initialState: Ledger(),
      options: FollowingOptions(log: .once, store: StoreOptions(executor: .serial(executor)))
    ) { $0.entries.append($1) }
    let child = child(of: store)
    try await store.send("first")
    await executor.untilIdle()
    executor.hold()
    store.dispatch("x")
    store.dispatch("y")
    let sending = Task { try await way.send("a", to: store, child) }
    await executor.untilWaiting(2)
    // The first job is the drain, which leaves the rest to the visitor. The second is the visitor, whose place is after
    // that.
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

  @Test("a read that waits for accepted actions is still carried out")
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

  @Test("a send of an effect can be cancelled, too", arguments: [false, true])
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

  @Test("a send cancelled during its commit is committed; during its submission the outcome is unknown")
  func within() async throws {
    let sending = LockedValue<Task<Void, any Error>?>(nil)
    let cancel = { @Sendable in sending.withLock { $0 }?.cancel() }
    let store = try await RootStore<Ledger, String>(
      following: MemoryLog(), initialState: Ledger(), options: FollowingOptions(log: .once)
    ) {
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

  @Test("a reentrant send that is cancelled changes nothing")
  func fromWithin() async throws {
    let store = LockedValue<Store<Ledger, String>?>(nil)
    let sends = Record<Task<Void, any Error>>()
    let send = { @Sendable (action: String) in
      guard action == "ask" || action == "asked" else { return }
      let sending = Task.immediate { [proxy = store.withLock { $0 }] in try await proxy?.send("inner") ?? () }
      sending.cancel()
      sends.add(sending)
    }
    let root = try await RootStore<Ledger, String>(
      following: MemoryLog(), initialState: Ledger(), options: FollowingOptions(log: .once),
      middleware: [
        .admission { action, _, next in
          send(action)
          next(action + "ed")
        }
      ]
    ) {
      send($1)
      $0.entries.append($1)
    }
    store.withLock { $0 = root.store() }
    try await root.send("ask")
    #expect(sends.all.count == 2)
    for sending in sends.all { await #expect(throws: StoreError.withdrawn) { try await sending.value } }
    try await root.send("last")
    #expect(await root.state.entries == ["asked", "lasted"])
    await root.shutdown()
  }

  @Test("a send cancelled at any time gets one outcome, which agrees with the state")
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

  @Test("a waiting action that has not been given to the log is withdrawn", arguments: Way.allCases)
  func behind(way: Way) async throws {
    let log = GatedLog()
    var options = LogOptions.once
    options.entriesUnderWay = 1
    let store = try await ledger(log, options: options)
    let child = child(of: store)
    store.dispatch("given")
    await log.untilHeld(1)
    store.dispatch("before")
    let sending = Task { try await way.send("a", to: store, child) }
    while await store.statistics.log?.pendingActions != 3 { await Task.yield() }
    let bytes = await store.statistics.log?.pendingBytes ?? 0
    store.dispatch("behind")
    // This read waits for all accepted actions, the withdrawn one included.
    let reading = Task { await store.state.entries }
    while await store.statistics.log?.pendingActions != 4 { await Task.yield() }
    sending.cancel()
    await #expect(throws: StoreError.withdrawn) { try await sending.value }
    #expect(await store.statistics.log?.pendingActions == 3)
    #expect(await store.statistics.log?.pendingBytes ?? 0 > bytes - 200)
    await log.open()
    let read = await reading.value
    #expect(read == ["given", "before"] || read == ["given", "before", "behind"])
    try await store.send("last")
    #expect(await store.state.entries == ["given", "before", "behind", "last"])
    #expect(await child.state.1 == 0)
    await store.shutdown()
    #expect(await (try ledger(log)).state.entries == ["given", "before", "behind", "last"])
  }

  @Test("requests after a withdrawn action continue when the earlier actions are committed")
  func followers() async throws {
    let log = GatedLog()
    var options = LogOptions.once
    options.entriesUnderWay = 1
    let store = try await ledger(log, options: options)
    store.dispatch("given")
    await log.untilHeld(1)
    let sending = Task { try await store.send("a") }
    while await store.statistics.log?.pendingActions != 2 { await Task.yield() }
    // This request's place is after the action.
    let begun = Gate()
    store.interceptActions(with: .effects(ofState: .while({ _ in true }) { .run { _ in begun.open() } }))
    sending.cancel()
    await #expect(throws: StoreError.withdrawn) { try await sending.value }
    // Waits until the tree has performed the consequences.
    for _ in 0..<3 { _ = await store.statistics }
    await log.open()
    await begun.wait()
    await store.shutdown()
  }

  @Test("an action partly given to the log is not withdrawn")
  func severalParts() async throws {
    let log = GatedLog()
    var options = LogOptions.once
    (options.entriesUnderWay, options.actionsPerEntry) = (1, 1)
    let store = try await ledger(
      log, options: options,
      middleware: [
        .admission { action, _, next in
          next(action)
          if action == "both" { next("more") }
        }
      ])
    let sending = Task { try await store.send("both") }
    while await store.statistics.log?.pendingActions != 2 { await Task.yield() }
    sending.cancel()
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    await log.open()
    #expect(await store.state.entries == ["both", "more"])
    await store.shutdown()
  }

  @Test("an outbox withdraws exactly the actions that it has never given to the log")
  func outbox() {
    var outbox = Outbox(limits: Outbox.Limits(actions: 2, entries: 1))
    let ids = (0..<6).map { outbox.append([$0], at: .zero) }
    let first = outbox.next(at: .zero)
    #expect(first?.actions.map { $0 } == [[0], [1]])
    // Actions that have been given to the log stay, even if they are given again under other numbers.
    outbox.ended(first?.id ?? 0, .unavailable(""), at: .zero)
    let whileAway = ids.prefix(2).map { outbox.withdraw($0) }
    outbox.renumber()
    let renumbered = ids.prefix(2).map { outbox.withdraw($0) }
    #expect(whileAway + renumbered == [false, false, false, false])
    let taken = [ids[2], ids[2], ids[5]].map { outbox.withdraw($0) }
    #expect(taken == [true, false, true])
    #expect(outbox.count == 4 && outbox.bytes == 4 * (1 + Outbox.overhead))
    _ = outbox.retry(at: .zero, patience: .seconds(1))
    let again = outbox.next(at: .zero)
    #expect(again?.actions.map { $0 } == [[0], [1]])
    outbox.ended(again?.id ?? 0, nil, at: .zero)
    let applied = (0..<2).map { _ in outbox.applied(at: .zero) }
    #expect(applied == [ids[0], ids[1]] && outbox.first == ids[3])
    let third = outbox.next(at: .zero)
    #expect(third?.actions.map { $0 } == [[3], [4]])
    let late = outbox.append([6], at: .zero)
    let last = [ids[4], late, late + 1].map { outbox.withdraw($0) }
    #expect(late > ids[5] && last == [false, true, false])
    let rest = (0..<3).map { _ in outbox.applied(at: .zero) }
    #expect(rest == [ids[3], ids[4], nil])
    #expect(outbox.isEmpty && outbox.bytes == 0)
  }

  @Test(
    "with random cancellations on an unreliable log, each action is committed at most once, and as its sender was told",
    arguments: (0..<6).map { _ in UInt64.random(in: 0 ... .max) })
  func together(seed: UInt64) async throws {
    let gated = GatedLog()
    var random = SeededGenerator(seed: seed)
    var options = LogOptions.quick
    (options.entriesUnderWay, options.actionsPerEntry) = (2, 3)
    let store = try await ledger(UnreliableLog(gated, seed: seed), options: options)
    let child = child(of: store)
    let sends = (0..<80).map { number in
      Task {
        try await (number % 3 == 0 ? Way.child : number % 3 == 1 ? .root : .projection).send(
          "\(number)", to: store, child)
      }
    }
    while await store.statistics.log?.pendingActions ?? 0 < 80 { await Task.yield() }
    for send in sends.shuffled(using: &random).prefix(40) { send.cancel() }
    await gated.open()
    for send in sends.shuffled(using: &random).prefix(20) {
      await Task.yield()
      send.cancel()
    }
    var (committed, withdrawn) = (Set<String>(), Set<String>())
    for (number, send) in sends.enumerated() {
      switch await send.result {
      case .success: committed.insert("\(number)")
      case .failure(StoreError.withdrawn): withdrawn.insert("\(number)")
      case .failure(StoreError.outcomeUnknown): break
      case .failure(let error): Issue.record("\(error), seed \(seed)")
      }
    }
    #expect(!withdrawn.isEmpty, "seed \(seed)")
    try await store.send("last")
    let entries = await store.state.entries
    #expect(Set(entries).count == entries.count && entries.last == "last", "seed \(seed)")
    #expect(committed.isSubset(of: entries) && withdrawn.isDisjoint(with: entries), "seed \(seed)")
    // The actions with unknown outcomes have been committed by now, because they precede the last one.
    #expect(entries.count == 81 - withdrawn.count, "seed \(seed)")
    #expect(await child.state.1 == entries.count { Int($0).map { $0 % 3 == 0 } == true }, "seed \(seed)")
    await store.shutdown()
    #expect(await (try ledger(gated)).state.entries == entries, "seed \(seed)")
  }

  @Test("the end of the store and a cancellation together give one outcome")
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

  @Test("a caller on an actor returns to that actor")
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

  // MARK: Time limits

  @Test("a send whose time is over has an unknown outcome, and its action may be committed", arguments: [false, true])
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
    // One sleeper watches the log, and the other is the limit.
    await clock.untilAsleep(2)
    clock.advance(by: .seconds(5))
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    await log.open()
    #expect(await store.state.entries == ["a"])
    #expect(try await child.send("b", within: .seconds(5)) { $0.0.entries } == ["a", "b"])
    await store.shutdown()
  }

  @Test(
    "without any time nothing is given to the log, and with the longest everything is",
    arguments: DurationTests.extremes)
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

  @Test("without a log, only the turn is awaited, and cancellation changes nothing")
  func withoutLog() async throws {
    let (executor, clock) = (ManualExecutor(), ManualClock())
    let store = LedgerStore(initialState: Ledger(), options: StoreOptions(executor: .serial(executor), clock: clock)) {
      $0.entries.append($1)
    }
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
        // No sleeper remains.
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
