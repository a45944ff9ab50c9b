import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// The behavior of a tree whose order is that of a log (G9, G12, G13).
@Suite(.timeLimit(.minutes(15))) struct SequencingTests {
  @Test("nothing is committed before the log has it; reads wait, and followers do not")
  func notBefore() async throws {
    let log = GatedLog()
    let store = try await ledger(log)
    var states = store.states().makeAsyncIterator()
    #expect(await states.next()?.entries == [])
    #expect(store.dispatch("a") == .enqueued)
    let reading = Task { await store.state }
    let sending = Task { try await store.send("b") { $0.entries } }
    #expect(await store.statistics.commits == 0)
    await log.open()
    #expect(try await sending.value.contains("b"))
    #expect(await reading.value.entries.first == "a")
    #expect(await states.next()?.entries == ["a"])
  }

  @Test(
    "a store that is shut down or released commits accepted actions, delivers the states, and then ends",
    arguments: [false, true])
  func end(isReleased: Bool) async throws {
    let log = GatedLog()
    var store: LedgerStore? = try await ledger(log)
    let states = store!.states()
    for number in 0..<5 { store!.dispatch("\(number)") }
    let sending = Task { [proxy = store!.store()] in try await proxy.send("last") }
    while await store!.statistics.log?.pendingActions != 6 { await Task.yield() }
    let ending = isReleased ? nil : Task { [store] in await store!.shutdown() }
    store = nil
    await log.open()
    try await sending.value
    await ending?.value
    var last = Ledger()
    for await state in states { last = state }
    #expect(last.entries == ["0", "1", "2", "3", "4", "last"])
  }

  @Test("a child that is released right after it accepted something reduces it all the same")
  func childReleased() async throws {
    let log = GatedLog()
    let store = try await ledger(log)
    let reduced = Events<String>()
    var child: StateStore<(Ledger, Int), String>? = store.childStore(initialState: 0) { count, action in
      count += 1
      Task { await reduced.add(action) }
    }
    let states = child!.states()
    child!.dispatch("a")
    child = nil
    await log.open()
    #expect(await reduced.first(1) == ["a"])
    var last: (Ledger, Int)?
    for await state in states { last = state }
    #expect(last?.1 == 1)
    #expect(last?.0.entries == ["a"])
  }

  @Test("a child's last action goes through the log, and precedes the child's end")
  func atEnd() async throws {
    let log = MemoryLog()
    let store = try await ledger(log)
    let child = store.childStore(initialState: 0, atEnd: "left") { count, _ in count += 1 }
    try await child.send("joined")
    let states = child.states()
    await child.shutdown()
    var counts: [Int] = []
    for await state in states { counts.append(state.1) }
    #expect(counts == [1, 2])
    #expect(await store.state.entries == ["joined", "left"])
  }

  @Test("interceptors run where the action was given, and never in replay")
  func interceptors() async throws {
    let log = MemoryLog()
    let (here, there) = (Events<String>(), Events<String>())
    let first = try await ledger(
      log,
      interceptor: { action, dispatch in
        await here.add(action)
        if action == "ask" { dispatch("answer") }
      })
    let second = try await ledger(log, interceptor: { action, _ in await there.add(action) })
    try await first.send("ask")
    _ = await second.state { $0.entries.count == 2 }
    #expect(await here.first(2) == ["ask", "answer"])
    try await second.send("other")
    #expect(await there.first(1) == ["other"])
    await first.shutdown()
    await second.shutdown()
    let third = Events<String>()
    let again = try await ledger(log, interceptor: { action, _ in await third.add(action) })
    #expect(await again.state.entries == ["ask", "answer", "other"])
    await again.shutdown()
    #expect(await third.all.isEmpty)
    #expect(await there.all == ["other"])
  }

  @Test("a child's middleware decides before the log, and the root's decides alike everywhere")
  func middleware() async throws {
    let log = MemoryLog()
    let guarding = Middleware<Ledger, String> { action, context, next in
      if action == "forbidden" { return context.reject("Forbidden.") }
      next(action)
    }
    // A late entry is not appended again, because the test counts entries.
    var options = LogOptions.quick
    options.patience = .seconds(1_000_000)
    let first = try await ledger(log, options: options, middleware: [guarding])
    let second = try await ledger(log, options: options, middleware: [guarding])
    let child = first.childStore(
      initialState: 0, stateMapping: { $0.entries.count + $1 },
      middleware: [
        Middleware { action, context, next in
          if action == "stopped" { return context.reject("Stopped.") }
          next(action + "!")
        }
      ]
    ) { count, _ in count += 1 }
    await #expect(throws: StoreError.rejected(reason: "Stopped.")) { try await child.send("stopped") }
    #expect(try await log.head() == 0)
    try await child.send("said")
    await #expect(throws: StoreError.rejected(reason: "Forbidden.")) { try await first.send("forbidden") }
    #expect(try await log.head() == 2)
    #expect(await child.state == 2)
    try await second.send("more")
    #expect(await second.state.entries == ["said!", "more"])
    #expect(await first.state { $0.entries.count == 2 }.entries == ["said!", "more"])
  }

  @Test("an action that is passed on twice is rejected only if neither is committed", arguments: ["1", "2", "12", ""])
  func passedOnTwice(rejected: String) async throws {
    let guarding = Middleware<Ledger, String> { action, context, next in
      if rejected.contains(action) { return context.reject(action == "1" ? "One." : "Two.") }
      next(action)
    }
    let root = try await ledger(MemoryLog(), middleware: [guarding])
    let child = root.childStore(
      initialState: 0,
      middleware: [
        Middleware { _, _, next in
          next("1")
          next("2")
        }
      ]
    ) { count, _ in count += 1 }
    let committed = ["1", "2"].filter { !rejected.contains($0) }
    for round in 1...2 {
      if committed.isEmpty {
        await #expect(throws: StoreError.rejected(reason: "Two.")) { try await child.send("both") }
      } else {
        #expect(try await child.send("both") { $0.0.entries.count } == committed.count * round)
      }
      #expect(await root.state.entries == (1...round).flatMap { _ in committed })
    }
    // An action that is passed on once is independent of earlier ones.
    if rejected.contains("1") {
      await #expect(throws: StoreError.rejected(reason: "One.")) { try await root.send("1") }
    }
  }

  @Test("a reason can be made of the state, by the child before the log or by the root after it")
  func reasonAtRunTime() async throws {
    let bidding = Middleware<Ledger, String> { action, context, next in
      if action.count <= context.state.entries.last?.count ?? 0 {
        return context.reject("A bid has more than \(context.state.entries.last?.count ?? 0) letters.")
      }
      next(action)
    }
    let log = MemoryLog()
    let root = try await ledger(log, options: .once, middleware: [bidding])
    let child = root.childStore(
      initialState: 0, stateMapping: { $0.entries.count + $1 },
      middleware: [.guarding { action, count in action.isEmpty ? "Bid \(count + 1) is empty." : nil }]
    ) { count, _ in count += 1 }
    try await root.send("two")
    await #expect(throws: StoreError.rejected(reason: "Bid 2 is empty.")) { try await child.send("") }
    #expect(try await log.head() == 1)
    let error = await #expect(throws: StoreError.self) { try await child.send("one") }
    guard case .rejected(let reason?) = error else { return #expect(Bool(false), "\(error as Any)") }
    #expect(reason.description == "A bid has more than 3 letters.")
    #expect(try await log.head() == 2)
    await root.shutdown()
  }

  @Test("carried values are present in the commit and its effects")
  func carried() async throws {
    let seen = Events<Int>()
    let store = try await RootStore<Ledger, String>(
      following: MemoryLog(), initialState: Ledger(),
      options: FollowingOptions(store: StoreOptions(carrying: .values(of: Request.$id)), fingerprint: .unchecked),
      interceptor: { _, _ in await seen.add(Request.id) }
    ) { state, action in state.entries.append("\(action)\(Request.id)") }
    Request.$id.withValue(7) { _ = store.dispatch("a") }
    try await Request.$id.withValue(8) { try await store.send("b") }
    #expect(await store.state.entries == ["a7", "b8"])
    #expect(await Set(seen.first(2)) == [7, 8])
  }

  @Test("nothing is reduced under the task-local values of the store's creator or of another caller")
  func notCarried() async throws {
    let log = MemoryLog()
    let store = try await Request.$id.withValue(5) {
      try await RootStore<Ledger, String>(
        following: log, initialState: Ledger(), options: FollowingOptions(fingerprint: .unchecked)
      ) { state, action in
        state.entries.append("\(action)\(Request.id)")
      }
    }
    try await Request.$id.withValue(6) { try await store.send("a") }
    Request.$id.withValue(7) { _ = store.dispatch("b") }
    #expect(await store.state.entries == ["a0", "b0"])
    await store.shutdown()
  }

  @Test("a fingerprint can be added or replaced while the log has entries")
  func fingerprintAdded() async throws {
    let log = MemoryLog()
    let functions: [(@Sendable (Ledger) -> UInt64)?] = [
      nil, { 1 + UInt64($0.entries.count) }, { 7 + UInt64($0.entries.count) },
    ]
    for (version, fingerprint) in functions.enumerated() {
      var options = LogOptions.quick
      options.fingerprintVersion = UInt32(version)
      let store = try await ledger(log, options: options, fingerprint: fingerprint)
      for _ in 0..<3 { try await store.send("a") }
      await store.shutdown()
    }
    #expect(await (try ledger(log)).state.entries.count == 9)
  }

  @Test("middleware can detect replay, and replayed actions are neither logged nor timed again")
  func replayed() async throws {
    let log = MemoryLog()
    let seen = LockedValue<[String]>([])
    func open() async throws -> LedgerStore {
      try await ledger(
        log,
        middleware: [
          .logging { entry in seen.withLock { $0.append("logged " + entry.action) } },
          .timing { action, _ in seen.withLock { $0.append("timed " + action) } },
          Middleware { action, context, next in
            seen.withLock { $0.append((context.isReplay ? "again " : "live ") + action) }
            next(action)
          },
        ])
    }
    func take() -> [String] {
      seen.withLock { seen in
        defer { seen = [] }
        return seen
      }
    }
    let first = try await open()
    try await first.send("a")
    #expect(take() == ["live a", "timed a", "logged a"])
    await first.shutdown()
    let second = try await open()
    #expect(take() == ["again a"])
    let child = second.childStore(
      initialState: 0, stateMapping: { state, _ in state },
      middleware: [
        Middleware { action, context, next in
          #expect(!context.isReplay)
          next(action)
        }
      ]
    ) { _, _ in }
    try await child.send("b")
    #expect(take() == ["live b", "timed b", "logged b"])
    // Entries that another replica writes meanwhile are live, too.
    let other = try await ledger(log)
    try await other.send("c")
    _ = await second.state { $0.entries.count == 3 }
    await second.shutdown()
    #expect(take() == ["live c", "timed c", "logged c"])
    await other.shutdown()
  }

  @Test("a log without outcomes is followed as well")
  func noOutcomes() async throws {
    let store = try await ledger(MuteLog())
    for number in 0..<20 { try await store.send("\(number)") }
    #expect(await store.state.entries.count == 20)
    await store.shutdown()
  }

  @Test("a store whose log breaks off once follows again, also without new entries")
  func quietAgain() async throws {
    let log = BreakingLog()
    let (phases, told) = AsyncStream.makeStream(of: LogStatistics.Phase.self)
    let store = try await ledger(log, onPhase: { told.yield($0) })
    log.breakOff()
    for await phase in phases where phase == .waiting(.unavailable) { break }
    for await phase in phases where phase == .following { break }
    #expect(await store.statistics.log?.waiting == nil)
    await store.shutdown()
  }

  @Test("an entry of a writer that was forgotten, repeated, is the same on every replica")
  func forgottenWriter() async throws {
    let log = MemoryLog()
    let store = try await ledger(log)
    try await store.send("first")
    let mark = LogEntry.Mark()
    func write(_ writers: Range<UInt64>) async {
      for writer in writers {
        let entry = LogEntry.encode(
          LogEntry.Header(writer: writer, first: 1, seen: mark, schema: 1), actions: [Array("\"x\"".utf8)])
        await withCheckedContinuation { continuation in log.append(entry) { _ in continuation.resume() } }
      }
    }
    var records = log.records(after: 0).makeAsyncIterator()
    let first = try #require(try await records.next()?.first)
    await write(1..<3000)
    log.append(first.bytes) { _ in }
    try await store.send("last")
    let other = try await ledger(log)
    #expect(await store.state == other.state)
    await store.shutdown()
    await other.shutdown()
  }

  enum Request { @TaskLocal static var id = 0 }

  @Test("if more than a bound waits for the log, `dispatch` is refused, and `send` waits")
  func overloaded() async throws {
    let log = GatedLog()
    var options = LogOptions.quick
    options.pendingBytes = 1000
    let store = try await ledger(log, options: options)
    let action = String(repeating: "x", count: 100)
    var accepted = 0
    while store.dispatch(action) == .enqueued {
      accepted += 1
      _ = await store.statistics
      if accepted > 100_000 { break }
    }
    #expect(store.dispatch(action) == .overloaded)
    #expect(await store.statistics.log?.pendingBytes ?? 0 >= 1000)
    let sending = Task { try await store.send("sent") }
    await log.open()
    try await sending.value
    #expect(await store.state.entries.count == accepted + 1)
    #expect(store.dispatch("again") == .enqueued)
    #expect(await store.state.entries.last == "again")
  }

  @Test("actions accepted before their encoding may exceed the bound, but only by a limited number")
  func beyondBound() async throws {
    let (log, queue) = (GatedLog(), HeldExecutor())
    var options = LogOptions.quick
    options.pendingBytes = 1000
    let store = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(),
      options: FollowingOptions(log: options, store: StoreOptions(executor: .serial(queue)), fingerprint: .unchecked)
    ) { $0.entries.append($1) }
    while queue.waiting > 0 { await Task.yield() }
    queue.hold()
    let action = String(repeating: "x", count: 898)  // With its quotes and the overhead per action, 1000 bytes.
    var accepted = 0
    while store.dispatch(action) == .enqueued { accepted += 1 }
    #expect(accepted == 10 && store.dispatch(action) == .overloaded)
    queue.letGo()
    #expect(await store.statistics.log?.pendingBytes == 10_000)
    await log.open()
    await store.shutdown()
  }

  enum Way: CaseIterable, Sendable { case interceptor, proxy, stateEffect, projectedEffect }

  /// The work of an effect whose actions go to the store in one of the ways.
  private static func subscribe(
    _ way: Way, to store: LedgerStore, _ work: @escaping @Sendable (@Sendable (String) -> DispatchResult) async -> Void
  ) {
    let ofState = StateEffect<Ledger, String>.while({ _ in true }) { .run { dispatch in await work { dispatch($0) } } }
    switch way {
    case .interceptor: store.interceptActions { _, dispatch in await work { dispatch($0) } }
    case .proxy:
      store.interceptActions(
        with: .effects { _, context in
          context.run { store in await work { store.dispatch($0) } }
        })
    case .stateEffect: store.subscribe(effect: ofState)
    case .projectedEffect:
      store.projection(action: { (action: String) in action }, state: { $0 }).subscribe(effect: ofState)
    }
  }

  @Test(
    "an effect that gives actions faster than they are encoded is refused like other callers", arguments: Way.allCases)
  func effectsBeyondBound(way: Way) async throws {
    let (log, queue) = (MemoryLog(), HeldExecutor())
    var options = LogOptions.quick
    options.pendingBytes = 1000
    let store = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(),
      options: FollowingOptions(log: options, store: StoreOptions(executor: .serial(queue)), fingerprint: .unchecked)
    ) { $0.entries.append($1) }
    let isFirst = Flag()
    let (begun, mayGive, given) = (Gate(), Gate(), Record<[DispatchResult]>())
    Self.subscribe(way, to: store) { dispatch in
      if isFirst.isRaised { return }
      isFirst.raise()
      begun.open()
      await mayGive.wait()
      given.add((0..<100).map { dispatch("\($0)") })
    }
    try await store.send("first")
    await begun.wait()
    while queue.waiting > 0 { await Task.yield() }
    queue.hold()
    mayGive.open()
    await given.untilCount(1)
    queue.letGo()
    #expect(given.all == [(0..<100).map { $0 < 10 ? .enqueued : .overloaded }])
    #expect(await store.state.entries.count == 11)
    await store.shutdown()
  }

  enum Giving: CaseIterable, Sendable { case caught, timedOut, timedOutAtOnce }

  @Test(
    "the action of an effect's error or time limit waits while too much waits for the log", arguments: Giving.allCases)
  func waitsWhileOverloaded(giving: Giving) async throws {
    struct Mishap: Error {}
    let log = GatedLog()
    var options = LogOptions.quick
    options.pendingBytes = 1000
    let store = try await ledger(log, options: options)
    var count = 0
    while store.dispatch("before") == .enqueued {
      count += 1
      while await store.statistics.log?.pendingActions != count { await Task.yield() }
    }
    store.subscribe(
      effect: .while({ _ in true }) {
        switch giving {
        case .caught: .run { _ in throw Mishap() }.catching { _ in "given" }
        case .timedOut: .run { _ in await untilCancelled() }.timeout(after: .milliseconds(1), "given")
        case .timedOutAtOnce: .run { _ in }.timeout(after: .zero, "given")
        }
      })
    while await store.statistics.log?.pendingActions != count + 1 { await Task.yield() }
    await log.open()
    #expect(await store.state.entries == Array(repeating: "before", count: count) + ["given"])
    await store.shutdown()
  }

  @Test("an effect is told that the store has stopped, as other callers are", arguments: Way.allCases)
  func effectsOfStopped(way: Way) async throws {
    let log = MemoryLog()
    var options = LogOptions.once
    options.reporting = { _ in }
    let store = try await ledger(log, options: options)
    let (begun, mayGive, given) = (Gate(), Gate(), Record<DispatchResult>())
    Self.subscribe(way, to: store) { dispatch in
      begun.open()
      await mayGive.wait()
      given.add(dispatch("late"))
    }
    try await store.send("first")
    await begun.wait()
    let undecodable = LogEntry.Header(writer: 7, first: 1, seen: .init(), schema: 1)
    log.append(LogEntry.encode(undecodable, actions: [[1, 2, 3]])) { _ in }
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    #expect(store.dispatch("late") == .stopped)
    mayGive.open()
    await given.untilCount(1)
    #expect(given.all == [.stopped])
    await store.shutdown()
  }

  @Test("a send whose time is over has an unknown outcome, and its action may still be committed")
  func outcomeUnknown() async throws {
    let log = GatedLog()
    var options = LogOptions.quick
    options.sendLimit = .milliseconds(1)
    let store = try await ledger(log, options: options)
    await #expect(throws: StoreError.outcomeUnknown) { try await store.send("late") }
    await log.open()
    #expect(await store.state.entries == ["late"])
  }

  @Test("a store that ends while the log is away does not wait for ever")
  func endsWithoutLog() async throws {
    let log = GatedLog()
    var options = LogOptions.quick
    options.endingLimit = .milliseconds(5)
    let store = try await ledger(log, options: options)
    let sending = Task { try await store.send("lost") }
    await log.untilHeld(1)
    await store.shutdown()
    await #expect(throws: StoreError.outcomeUnknown) { try await sending.value }
    #expect(store.dispatch("late") == .terminated)
    #expect(await store.statistics.log?.phase == .ended)
  }

  @Test("an action that cannot be encoded is rejected, and one that cannot be decoded stops its writer, too")
  func codings() async throws {
    struct Unwritable: Error {}
    let log = MemoryLog()
    let coding = LogCoding<String> { action in
      if action == "unwritable" { throw Unwritable() }
      return Array(action.utf8)
    } decode: { bytes, _ in
      if bytes.first == UInt8(ascii: "!") { throw Unwritable() }
      return String(decoding: bytes, as: UTF8.self)
    }
    func open() async throws -> LedgerStore {
      try await RootStore(
        following: log, initialState: Ledger(), codings: LogCodings(actions: coding, states: nil),
        options: FollowingOptions(log: .quick)
      ) {
        $0.entries.append($1)
      }
    }
    let store = try await open()
    await #expect(throws: StoreError.rejected(reason: "The action cannot be encoded.")) {
      try await store.send("unwritable")
    }
    #expect(try await log.head() == 0)
    await #expect(throws: StoreError.outcomeUnknown) { try await store.send("!") }
    await #expect(throws: StoreError.stopped(.undecodable(position: 1))) { try await store.send("fine") }
    try await log.skip(position: 1, reason: "nobody can")
    let next = try await open()
    try await next.send("fine")
    #expect(await next.state.entries == ["fine"])
    #expect(await next.statistics.log?.skipped == 1)
  }

  @Test("older schemas are upcast; a newer one stops the store, which can be read")
  func schemas() async throws {
    let log = MemoryLog()
    func open(_ schema: UInt32) async throws -> LedgerStore {
      try await RootStore(
        following: log, initialState: Ledger(),
        codings: LogCodings(
          actions: .json(schema: schema) { bytes, _ in "old " + String(decoding: bytes, as: UTF8.self) }, states: nil),
        options: FollowingOptions(log: .once)
      ) { $0.entries.append($1) }
    }
    let first = try await open(1)
    try await first.send("a")
    let second = try await open(2)
    #expect(await second.state.entries == ["old \"a\""])
    // A program that reads both schemas and writes the older one continues.
    let both = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(),
      codings: LogCodings(
        actions: LogCoding(schema: 1, newestSchema: 2) {
          Array($0.utf8)
        } decode: { bytes, schema in
          "\(schema) " + String(decoding: bytes, as: UTF8.self)
        }, states: nil), options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.entries.append($1) }
    try await second.send("b")
    for await phase in first.logPhases() where phase == .stopped(.newerSchema(position: 2)) { break }
    #expect(await both.state { $0.entries.count == 2 }.entries == ["1 \"a\"", "2 \"b\""])
    await both.shutdown()
    #expect(first.dispatch("c") == .stopped)
    await #expect(throws: StoreError.stopped(.newerSchema(position: 2))) { try await first.send("c") }
    #expect(await first.state.entries == ["a"])
    await #expect(throws: StoreError.stopped(.newerSchema(position: 2))) { try await open(1) }
    await first.shutdown()
  }

  @Test("a stopped replica writes nothing more to the log, even if actions wait")
  func stoppedWritesNothing() async throws {
    let log = HeldLog()
    var options = LogOptions.quick
    (options.actionsPerEntry, options.entriesUnderWay) = (1, 1)
    // The held entry is not sent again.
    options.patience = .seconds(1_000_000)
    let store = try await ledger(log, options: options)
    for name in ["a", "b", "c"] { #expect(store.dispatch(name) == .enqueued) }
    await log.untilHeld()
    // An entry of a newer schema, which this replica must not apply.
    let newer = try await RootStore<Ledger, String>(
      following: log.memory, initialState: Ledger(), codings: LogCodings(actions: .json(schema: 2), states: nil),
      options: FollowingOptions(fingerprint: .unchecked)
    ) { $0.entries.append($1) }
    try await newer.send("newer")
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    let head = try await log.memory.head()
    await log.release()
    // The entry that was under way arrives, and no later one.
    #expect(await store.state.entries == [])
    #expect(try await log.memory.head() == head + 1)
    await store.shutdown()
    await newer.shutdown()
  }

  @Test(
    "an effect with an id is unfinished until its actions are committed",
    arguments: [EffectPolicy.inTurn(), .concurrent(limit: 1), .first])
  func unfinishedEffect(policy: EffectPolicy) async throws {
    let log = HeldLog(behind: 2)
    let events = Record<String>()
    let (goesOn, hasReturned) = (Gate(), Gate())
    var options = LogOptions.quick
    options.patience = .seconds(1_000_000)
    let store = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(), options: FollowingOptions(log: options, fingerprint: .unchecked),
      interceptors: .effects { action, _ in
        guard action.hasPrefix("go") else { return nil }
        return .run { dispatch in
          events.add("begins: \(action)")
          guard action == "go 1" else { return }
          await goesOn.wait()
          dispatch("done 1")
          hasReturned.open()
        }.id("x", policy)
      }
    ) { state, action in
      state.entries.append(action)
      events.add(action)
    }
    try await store.send("go 1")
    try await store.send("go 2")
    goesOn.open()
    await hasReturned.wait()
    await log.untilHeld()
    for _ in 0..<1_000 { await Task.yield() }
    let unfinished = await store.statistics.effects
    #expect(unfinished.values.reduce(0, +) == (policy == .first ? 1 : 2))
    await log.release()
    await store.settled()
    #expect(
      events.all.filter { $0 != "go 1" && $0 != "go 2" }
        == ["begins: go 1", "done 1"] + (policy == .first ? [] : ["begins: go 2"]))
    #expect(await store.statistics.effects.isEmpty)
    await store.shutdown()
  }

  @Test("a replica whose state is another one is found with the next entry of each writer, by its position")
  func divergence() async throws {
    let log = MemoryLog()
    func open(_ suffix: String) async throws -> LedgerStore {
      try await RootStore(
        following: log, initialState: Ledger(),
        options: FollowingOptions(
          log: .once, fingerprint: .hashed { $0.entries.reduce(0) { $0 &* 31 &+ UInt64($1.utf8.count) } })
      ) { $0.entries.append($1 + ($1 == "bad" ? suffix : "")) }
    }
    let (one, other) = (try await open(""), try await open("x"))
    try await one.send("good")
    _ = await other.state { $0.entries.count == 1 }
    try await one.send("bad")
    _ = await other.state { $0.entries.count == 2 }
    // That entry attests the state of `other`, and `one` detects it; `other` continues until `one` would write.
    await #expect(throws: StoreError.self) {
      try await other.send("next")
      try await one.send("next")
    }
    for await phase in one.logPhases() where phase == .stopped(.diverged(position: 2)) { break }
    #expect(await one.state.entries == ["good", "bad"])
    await one.shutdown()
    await other.shutdown()
  }

  @Test("a log that is away when its store is opened is tried again for a while")
  func openedEarly() async throws {
    let log = BreakingLog()
    log.breakOff()
    try await ledger(log).send("a")
    log.headFailures.withLock { $0 = 3 }
    var patient = LogOptions.quick
    patient.openingLimit = .seconds(86_400)
    let store = try await ledger(log, options: patient)
    #expect(await store.state.entries == ["a"])
    #expect(log.headFailures.withLock { $0 } == 0)
    await store.shutdown()
    log.headFailures.withLock { $0 = 1 }
    var options = LogOptions.quick
    options.openingLimit = .zero
    await #expect(throws: LogError.unavailable("It is away.")) { try await ledger(log, options: options) }
    #expect(log.headFailures.withLock { $0 } == 0)
  }

  @Test("a store's phases are a sequence: the current one, each change, and the end")
  func phaseSequence() async throws {
    let log = BreakingLog()
    let store = try await ledger(log)
    let followers = (0..<3).map { _ in
      var phases = store.logPhases().makeAsyncIterator()
      return { await phases.next() }
    }
    for follower in followers { #expect(await follower() == .following) }
    let (one, other) = (store.logPhases(), store.logPhases())
    await store.shutdown()
    // A reader that fell behind gets only the newest phase.
    for phases in [one, other, store.logPhases()] {
      var all: [LogStatistics.Phase] = []
      for await phase in phases { all.append(phase) }
      #expect(all == [.ended])
    }
    for follower in followers {
      #expect(await follower() == .ended)
      #expect(await follower() == nil)
    }
    let alone = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    for await phase in alone.logPhases() { Issue.record("\(phase)") }
  }

  @Test("recovery reports its progress in order, and then the store follows, and ends")
  func phases() async throws {
    let log = MemoryLog()
    // A late entry is not appended again, because the test counts entries.
    var options = LogOptions()
    options.patience = .seconds(1_000_000)
    let writer = try await ledger(log, options: options)
    for number in 0..<1500 { try await writer.send("\(number)") }
    let phases = LockedValue<[LogStatistics.Phase]>([])
    let store = try await ledger(log, onPhase: { phase in phases.withLock { $0.append(phase) } })
    #expect(await store.state.entries.count == 1500)
    await store.shutdown()
    let told = phases.withLock { $0 }
    #expect(told.first == .recovering(0, of: 1500))
    #expect(told.count { $0 == .ended } == 1)
    #expect(Array(told.suffix(2)) == [.following, .ended])
    let progress = told.compactMap { if case .recovering(let done, of: 1500) = $0 { done } else { nil } }
    #expect(progress == progress.sorted() && progress.count >= 2)
    await writer.shutdown()
  }

  @Test("replay begins with a snapshot, and a snapshot of another format stops the opening")
  func snapshots() async throws {
    let log = MemoryLog()
    var options = LogOptions()
    options.snapshotBytes = 2000
    let store = try await ledger(log, options: options)
    for number in 0..<100 { try await store.send("\(number)") }
    while try await log.newest() == nil { await Task.yield() }
    let expected = await store.state
    await store.shutdown()
    let position = try #require(try await log.newest()).position
    let starts = LockedValue<[LogStatistics.Phase]>([])
    let again = try await ledger(log, onPhase: { phase in starts.withLock { $0.append(phase) } })
    #expect(await again.state == expected)
    let head = try await log.head()
    #expect(starts.withLock { $0.first } == .recovering(0, of: head - position))
    await again.shutdown()
    try await log.save(LogSnapshot(position: 1000, bytes: [1, 2, 3]))
    await #expect(throws: StoreError.stopped(.undecodable(position: 1000))) { try await ledger(log) }
    options = .quick
    options.ignoresSnapshots = true
    #expect(try await (ledger(log, options: options)).state == expected)
    #expect(try await (ledger(log)).state == expected)
  }

  @Test("a log truncated behind its snapshots is replayed from the newest; without it, the reason is reported")
  func truncation() async throws {
    let log = MemoryLog()
    var options = LogOptions.quick
    options.snapshotBytes = 500
    options.truncatesBehindSnapshots = true
    let store = try await ledger(log, options: options)
    for number in 0..<100 { try await store.send("\(number)") }
    let expected = await store.state
    await store.shutdown()
    #expect(try await ledger(log).state == expected)
    options.ignoresSnapshots = true
    await #expect(throws: LogError.self) { try await ledger(log, options: options) }
  }

  @Test("opening a store can be cancelled while the log delivers nothing")
  func cancelled() async throws {
    let log = SilentLog()
    let opening = Task { try await ledger(log) }
    while !log.isFollowed.withLock({ $0 }) { await Task.yield() }
    opening.cancel()
    await #expect(throws: CancellationError.self) { try await opening.value }
  }
}

/// A log that holds its acknowledgements and entries back until it is opened.
actor GatedLog: OrderedLog {
  private nonisolated let log: MemoryLog
  private nonisolated let held = LockedValue<[@Sendable () -> Void]?>([])
  private nonisolated let arrivals = Record<Void>()

  init(_ log: MemoryLog = MemoryLog()) { self.log = log }

  nonisolated func untilHeld(_ count: Int) async { await arrivals.untilCount(count) }

  nonisolated func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let isHeld = held.withLock { held in
      guard held != nil else { return false }
      held?.append { [log] in log.append(entry, outcome: outcome) }
      return true
    }
    if !isHeld { log.append(entry, outcome: outcome) }
    arrivals.add(())
  }

  func open() {
    for append in held.withLock({ $0.take() }) ?? [] { append() }
  }

  func hold() { held.withLock { $0 = [] } }

  nonisolated func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    log.records(after: position)
  }

  nonisolated func head() async throws(LogError) -> UInt64 { try await log.head() }
  nonisolated func truncate(through position: UInt64) async throws(LogError) {
    try await log.truncate(through: position)
  }
}

/// A log that has an entry and never delivers it.
final class SilentLog: OrderedLog {
  let isFollowed = LockedValue(false)

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {}

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    isFollowed.withLock { $0 = true }
    return AsyncThrowingStream { _ in }
  }

  func head() async throws(LogError) -> UInt64 { 3 }
  func truncate(through position: UInt64) async throws(LogError) {}
}

/// A log that reports no outcome of an append.
final class MuteLog: OrderedLog {
  private let log = MemoryLog()

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    log.append(entry) { _ in }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> { log.records(after: position) }
  func head() async throws(LogError) -> UInt64 { try await log.head() }

  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
}

/// A log whose entries can be made to break off once.
final class BreakingLog: OrderedLog {
  private let log = MemoryLog()
  private let stream = LockedValue<AsyncThrowingStream<[LogRecord], any Error>.Continuation?>(nil)
  private let isBroken = LockedValue(false)
  /// The number of remaining failures to read the head.
  let headFailures = LockedValue(0)

  func breakOff() {
    isBroken.withLock { $0 = true }
    stream.withLock { $0 }?.finish(throwing: LogError.unavailable("It broke off."))
  }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    log.append(entry, outcome: outcome)
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    if isBroken.withLock({ $0 }) { return log.records(after: position) }
    return AsyncThrowingStream { continuation in stream.withLock { $0 = continuation } }
  }

  func head() async throws(LogError) -> UInt64 {
    let isAway = headFailures.withLock { failures in
      guard failures > 0 else { return false }
      failures -= 1
      return true
    }
    if isAway { throw .unavailable("It is away.") }
    return try await log.head()
  }

  func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
}

/// A log that holds one entry back until it is released; later entries pass.
private final class HeldLog: OrderedLog {
  let memory = MemoryLog()
  private let held = LockedValue<(@Sendable () -> Void)?>(nil)
  private let (arrivals, arrived) = AsyncStream.makeStream(of: Void.self)
  private let (outcomes, told) = AsyncStream.makeStream(of: Void.self)
  /// The number of entries that pass before the held one.
  private let passing: LockedValue<Int>

  init(behind count: Int = 0) { passing = LockedValue(count) }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    let append: @Sendable () -> Void = { [memory, told] in
      memory.append(entry) { result in
        outcome(result)
        told.yield()
      }
    }
    let holds = passing.withLock { passing in
      passing -= 1
      return passing == -1
    }
    guard holds else { return append() }
    held.withLock { $0 = append }
    arrived.yield()
  }

  func untilHeld() async { for await _ in arrivals { break } }

  /// Returns when the outcome has been reported.
  func release() async {
    guard let append = held.withLock({ $0.take() }) else { return }
    append()
    for await _ in outcomes { break }
  }

  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
    memory.records(after: position)
  }
  func head() async throws(LogError) -> UInt64 { try await memory.head() }
  func truncate(through position: UInt64) async throws(LogError) { try await memory.truncate(through: position) }
}
