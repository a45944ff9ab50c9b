import Foundation
import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

/// Middleware that decides before the log (G11, G13).
@Suite(.timeLimit(.minutes(15))) struct AdmissionTests {
  private func refusing(_ refused: String, told: Record<String> = Record()) -> Middleware<Ledger, String> {
    .admission { action, context, next in
      told.add(action)
      if action == refused { return context.reject("Refused.") }
      next(action)
    }
  }

  @Test("without a log, it is ordinary middleware at its place", arguments: [false, true])
  func withoutLog(isNested: Bool) async throws {
    let order = Record<String>()
    func telling(_ name: String) -> @Sendable (String, MiddlewareContext<Ledger, String>, (String) -> Void) -> Void {
      { action, context, next in
        order.add(name)
        next(action)
        order.add("\(name) \(context.state.entries.count)")
      }
    }
    let parts: [Middleware<Ledger, String>] = [
      Middleware(telling("a")), .admission(telling("b")), Middleware(telling("c")), refusing("no"),
    ]
    let store = LedgerStore(initialState: Ledger(), middleware: isNested ? [Middleware(parts)] : parts) {
      $0.entries.append($1)
    }
    try await store.send("x")
    #expect(order.all == ["a", "b", "c", "c 1", "b 1", "a 1"])
    await #expect(throws: StoreError.rejected(reason: "Refused.")) { try await store.send("no") }
    #expect(await store.state.entries == ["x"])
  }

  @Test(
    "a refused action is not stored, and makes no tree; an admitted action is decided once",
    arguments: [false, true])
  func notStored(isNested: Bool) async throws {
    let directory = try TemporaryDirectory()
    let log = try FileLog(directory: directory.path)
    let told = Record<String>()
    let files = { try FileManager.default.contentsOfDirectory(atPath: directory.path).filter { $0 != "lock" } }
    let others = Middleware<Ledger, String> { action, _, next in next(action + "!") }
    func open() async throws -> LedgerStore {
      let admission = refusing("no", told: told)
      let all = [others, admission]
      return try await ledger(log["auctions/1"], options: .once, middleware: isNested ? [Middleware(all)] : all)
    }
    let first = try await open()
    let before = try files()
    for _ in 0..<20 {
      await #expect(throws: StoreError.rejected(reason: "Refused.")) { try await first.send("no") }
      #expect(first.dispatch("no") == .enqueued)
    }
    #expect(await first.state.entries == [])
    await first.shutdown()
    #expect(try files() == before && before.isEmpty)
    #expect(try await log["auctions/1"].head() == 0)
    let second = try await open()
    try await second.send("yes")
    // Admission comes before the other middleware, which decides at the commit.
    #expect(await second.state.entries == ["yes!"])
    #expect(told.all.filter { $0 != "no" } == ["yes"])
    #expect(try files().count == 1)
    await second.shutdown()
    let third = try await open()
    #expect(await third.state.entries == ["yes!"])
    #expect(told.all.filter { $0 != "no" } == ["yes"])
    await third.shutdown()
    await log.close()
  }

  @Test("a guard decides before the log and at the commit, under the same rules")
  func guarding() async throws {
    let log = GatedLog()
    await log.open()
    let asked = Record<String>()
    // From rules 2 on, "old" is refused.
    let guarding = Middleware<Ledger, String>.guarding(atAdmission: true) { action, ledger in
      asked.add(action)
      if action == "old", LogRules.current >= 2 { return "Nothing old." }
      return ledger.entries.contains(action) ? "There is one." : nil
    }
    var options = LogOptions.once
    (options.rules, options.newestRules) = (1, 2)
    let store = try await ledger(log, options: options, middleware: [guarding])
    // A version that knows the next rules does not enforce them yet.
    try await store.send("old")
    #expect(asked.all == ["old", "old"])
    await #expect(throws: StoreError.rejected(reason: "There is one.")) { try await store.send("old") }
    #expect(try await log.head() == 1)
    #expect(asked.all.count == 3)
    // The commit refuses one of two simultaneous actions.
    await log.hold()
    let sends = (0..<2).map { _ in Task { try await store.send("new") } }
    while await store.statistics.log?.pendingActions != 2 { await Task.yield() }
    await log.open()
    let outcomes = [await sends[0].result, await sends[1].result]
    #expect(outcomes.count { if case .success = $0 { true } else { false } } == 1)
    #expect(await store.state.entries == ["old", "new"])
    await store.shutdown()
  }

  @Test("a guard at admission is called once without a log, and in a child store", arguments: [false, true])
  func guardingOnce(isChild: Bool) async throws {
    let asked = Record<String>()
    let guarding = Middleware<Ledger, String>.guarding(atAdmission: true) { action, _ in
      asked.add(action)
      return action == "no" ? "No." : nil
    }
    let root = LedgerStore(initialState: Ledger(), middleware: isChild ? [] : [guarding]) { $0.entries.append($1) }
    let followed = try await ledger(MemoryLog())
    let child = (isChild ? followed : root).childStore(
      initialState: 0, stateMapping: { (ledger, _) in ledger }, middleware: isChild ? [guarding] : []
    ) { count, _ in count += 1 }
    try await child.send("yes")
    await #expect(throws: StoreError.rejected(reason: "No.")) { try await child.send("no") }
    #expect(asked.all == ["yes", "no"])
    await child.shutdown()
    await followed.shutdown()
  }

  @Test("it runs where the action is given, and nowhere else")
  func otherReplicas() async throws {
    let log = MemoryLog()
    let (here, there) = (Record<String>(), Record<String>())
    let first = try await ledger(log, options: .once, middleware: [refusing("no", told: here)])
    // Admission that differs between replicas does not affect actions that others have admitted.
    let second = try await ledger(log, options: .once, middleware: [refusing("yes", told: there)])
    try await first.send("yes")
    #expect(await second.state { $0.entries.count == 1 }.entries == ["yes"])
    #expect(here.all == ["yes"] && there.all == [])
    await #expect(throws: StoreError.rejected(reason: "Refused.")) { try await first.send("no") }
    try await second.send("no")
    #expect(await first.state { $0.entries.count == 2 }.entries == ["yes", "no"])
    #expect(here.all == ["yes", "no"] && there.all == ["no"])
    #expect(try await log.head() == 2)
  }

  @Test("it replaces, multiplies and stops actions, based on the state committed so far")
  func passing() async throws {
    let log = GatedLog()
    await log.open()
    let seen = Record<[Int]>()
    let store = try await ledger(
      log, options: .once,
      middleware: [
        .admission { action, context, next in
          let before = context.state.entries.count
          switch action {
          case "other": next("another")
          case "both":
            next("one")
            next("two")
          case "nothing": break
          default: next(action)
          }
          seen.add([before, context.state.entries.count])
          #expect(!context.isCommitted && !context.isReplay && context.store == .root)
        },
        // This middleware runs at the commit.
        Middleware { action, context, next in
          #expect(!seen.all.isEmpty)
          if action == "last" && context.state.entries.contains("last") { return context.reject("There is one.") }
          next(action)
        },
      ])
    try await store.send("other")
    #expect(try await store.send("both") { $0.entries } == ["another", "one", "two"])
    await #expect(throws: StoreError.rejected(reason: nil)) { try await store.send("nothing") }
    #expect(seen.all == [[0, 0], [1, 1], [3, 3]])
    // Both of two simultaneous actions are admitted; the rule at the commit decides.
    await log.hold()
    let sends = (0..<2).map { _ in Task { try await store.send("last") } }
    while await store.statistics.log?.pendingActions != 2 { await Task.yield() }
    #expect(seen.all.suffix(2) == [[3, 3], [3, 3]])
    await log.open()
    let outcomes = [await sends[0].result, await sends[1].result]
    #expect(outcomes.count { if case .success = $0 { true } else { false } } == 1)
    #expect(await store.state.entries == ["another", "one", "two", "last"])
    await store.shutdown()
  }

  @Test("it runs after the middleware of children, of nested children, and of parts")
  func children() async throws {
    let told = Record<String>()
    let store = try await ledger(MemoryLog(), options: .once, middleware: [refusing("no.", told: told)])
    let child = store.childStore(
      initialState: 0, stateMapping: { (root: $0, own: $1) },
      middleware: [Middleware { action, _, next in next(action + ".") }]
    ) { count, _ in count += 1 }
    let plain = child.childStore(initialState: 0, stateMapping: { state, _ in state }) { count, _ in count += 1 }
    let ofPart = store.part(\.entries.count).childStore(initialState: 0) { count, _ in count += 1 }
    for store in [child.store(), plain.store()] {
      await #expect(throws: StoreError.rejected(reason: "Refused.")) { try await store.send("no") }
    }
    await #expect(throws: StoreError.rejected(reason: "Refused.")) { try await ofPart.send("no.") }
    try await plain.send("yes")
    #expect(told.all == ["no.", "no.", "no.", "yes."])
    #expect(await store.state.entries == ["yes."])
    #expect(await child.state.own == 1)
    await #expect(throws: StoreError.rejected(reason: "Refused.")) { try await plain.send("no") { $0.own } }
    await store.shutdown()
  }

  @Test("actions of effects pass it, and so do its own actions, later")
  func effects() async throws {
    let told = Record<String>()
    let errors = Record<StoreError>()
    let store = try await ledger(
      MemoryLog(), options: .once,
      interceptor: { action, dispatch in
        guard action == "ask" else { return }
        dispatch("answer")
        do throws(StoreError) { try await dispatch.send("no") } catch { errors.add(error) }
      },
      middleware: [
        .admission { action, context, next in
          told.add(action)
          if action == "no" { return context.reject("Refused.") }
          if action == "answer" { context.dispatch("more") }
          next(action)
        }
      ])
    try await store.perform("ask")
    #expect(await store.state { $0.entries.count == 3 }.entries == ["ask", "answer", "more"])
    await errors.untilCount(1)
    #expect(errors.all == [.rejected(reason: "Refused.")])
    #expect(Set(told.all) == ["ask", "answer", "more", "no"] && told.all.count == 4)
    await store.shutdown()
  }

  @Test("it receives a child's last action, and a history records only admitted actions")
  func ends() async throws {
    let log = MemoryLog()
    let history = History<Ledger, String>(limit: 10)
    let store = try await RootStore<Ledger, String>(
      following: log, initialState: Ledger(), options: FollowingOptions(log: .once, history: history),
      middleware: [refusing("left")]
    ) { $0.entries.append($1) }
    for last in ["left", "gone"] {
      let child = store.childStore(initialState: 0, atEnd: last) { count, _ in count += 1 }
      await child.shutdown()
    }
    #expect(await store.state.entries == ["gone"])
    #expect(history.entries.map(\.action) == ["gone"])
    #expect(try await log.head() == 1)
    await store.shutdown()
  }
}
