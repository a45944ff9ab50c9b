import Foundation
import Puredux
import PureduxDirectory
import PureduxTestSupport
import PureduxTesting
import Synchronization
import Testing

/// Checks the consistency of an instrument's events: each store once, its commits without a gap, and each effect's
/// beginning before its end.
private final class Ledger: StoreInstrument {
  private struct Account {
    var store: InstrumentedStore?
    var position = 0
    var isClosed = false
    var effects: Set<Int> = []
    var effectCount = 0
  }
  private struct Books {
    var accounts: [Int: Account] = [:]
    var faults: [String] = []
  }
  private let books = LockedValue(Books())
  private let callBack: @Sendable (InstrumentedStore) -> Void
  let timesCommits: Bool

  init(timing timesCommits: Bool = false, callBack: @escaping @Sendable (InstrumentedStore) -> Void = { _ in }) {
    self.timesCommits = timesCommits
    self.callBack = callBack
  }

  private func note(_ store: InstrumentedStore, _ change: (inout Account) -> String?) {
    books.withLock { books in
      if let fault = change(&books.accounts[store.number, default: Account()]) { books.faults.append(fault) }
    }
    callBack(store)
  }

  func opened(_ store: InstrumentedStore) {
    note(store) { account in
      defer { account.store = store }
      return account.store == nil ? nil : "opened twice"
    }
  }

  func closed(_ store: InstrumentedStore) {
    note(store) { account in
      defer { account.isClosed = true }
      return account.store == nil || account.isClosed ? "closed twice, or before it was opened" : nil
    }
  }

  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    note(store) { account in
      defer { account.position = commit.position }
      if account.isClosed { return "committed after the end" }
      if let waited = commit.waited, waited < .zero || waited > .seconds(600) { return "waited \(waited)" }
      return commit.position == account.position + commit.count ? nil : "\(commit) after \(account.position)"
    }
  }

  func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    note(store) { account in
      if account.isClosed { return "rejected after the end" }
      return commit.position == account.position && commit.count == 0 ? nil : "\(commit) after \(account.position)"
    }
  }

  func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    note(store) { account in
      switch event.kind {
      case .began:
        account.effectCount += 1
        return account.effects.insert(event.number).inserted ? nil : "began twice"
      case .retried: return account.effects.contains(event.number) ? nil : "retried without a beginning"
      case .ended: return account.effects.remove(event.number) != nil ? nil : "ended without a beginning"
      case .turnedAway: return event.number == 0 ? nil : "turned away with a number"
      }
    }
  }

  var faults: [String] { books.withLock { $0.faults } }
  var stores: [InstrumentedStore] { books.withLock { $0.accounts.values.compactMap(\.store) } }
  var openCount: Int { books.withLock { $0.accounts.values.count { !$0.isClosed } } }
  var runningCount: Int { books.withLock { $0.accounts.values.reduce(0) { $0 + $1.effects.count } } }
  var effectCount: Int { books.withLock { $0.accounts.values.reduce(0) { $0 + $1.effectCount } } }
  var commitCount: Int { books.withLock { $0.accounts.values.reduce(0) { $0 + $1.position } } }
}

private struct Broken: Error {}

/// Calls a directory from within each event, and returns after that.
private final class Returning: StoreInstrument {
  let answers = Record<Int>()
  private let open: LockedValue<Set<String>>
  private let directory = LockedValue<StoreDirectory<String, Int, Int>?>(nil)

  /// - Parameter events: The events in which it does so, once each.
  init(in events: Set<String>) { open = LockedValue(events) }

  func use(_ directory: StoreDirectory<String, Int, Int>?) { self.directory.withLock { $0 = directory } }

  func directory(_ event: DirectoryEvent) {
    let name = Self.name(of: event.kind)
    guard open.withLock({ $0.remove(name) }) != nil, let directory = directory.withLock({ $0 }) else { return }
    Task.immediate { [answers] in
      answers.add((try? await directory.withStore(event.key) { await $0.state }) ?? -1)
    }
  }
}

@Suite(.timeLimit(.minutes(15))) struct InstrumentPressureTests {
  @Test func `its events are consistent, however stores end and whatever their effects do`() async throws {
    let ledger = Ledger(timing: true)
    let rounds = isSanitized ? 40 : 400
    await withTaskGroup { tasks in
      for worker in 0..<4 {
        tasks.addTask {
          for round in 0..<rounds {
            let store = RootStore<Int, Int>(
              initialState: 0,
              options: StoreOptions(reporting: { _ in }, name: "\(worker)", instrument: ledger),
              interceptors: .effects { action, _ in
                switch action % 6 {
                case 0: .run { _ in throw Broken() }.retried(.constant(.zero, attempts: 3))
                case 1: .run { dispatch in try await dispatch.sleep(for: .seconds(600)) }.id("latest")
                case 2: .cancel("latest")
                case 3: .run { dispatch in dispatch(5) }.id("turn", .inTurn(limit: 1))
                case 4: .run { _ in await untilCancelled() }.id("first", .first)
                default: nil
                }
              },
              middleware: [.guarding { action, _ in action % 7 == 6 ? "No." : nil }]
            ) { $0 += $1 }
            let child = store.childStore(initialState: 0) { $0 += $1 }
            for action in 0..<24 { _ = action % 2 == 0 ? store.dispatch(action) : child.dispatch(action) }
            switch round % 4 {
            case 0: break
            case 1: await store.shutdown()
            case 2: await store.shutdown(interceptors: .finish(within: .milliseconds(1)))
            default: try? await child.send(5)
            }
          }
        }
      }
      tasks.addTask {
        while ledger.stores.count < 4 * rounds {
          for store in ledger.stores.suffix(8) { _ = await store.statistics }
          await Task.yield()
        }
      }
    }
    while ledger.openCount > 0 || ledger.runningCount > 0 { await Task.yield() }
    #expect(ledger.faults.isEmpty)
    #expect(ledger.stores.count == 4 * rounds)
    for store in ledger.stores.suffix(20) { #expect(await store.statistics == nil) }
  }

  @Test func `statistics read during a store's release are those from before, or none`() async {
    final class Newest: StoreInstrument {
      let store = LockedValue<InstrumentedStore?>(nil)
      func opened(_ store: InstrumentedStore) { self.store.withLock { $0 = store } }
    }
    let newest = Newest()
    var faults = 0
    for round in 0..<1_000 {
      let begun = Flag()
      let root = LockedValue<RootStore<Int, Int>?>(
        RootStore(initialState: 0, options: StoreOptions(instrument: newest)) { $0 += $1 })
      // A released store has no subscriptions, so figures without one are from after the release.
      let states = root.withLock { $0 }?.states()
      await root.withLock { $0 }?.settled()
      let store = newest.store.withLock { $0 }
      // Releases on a thread of its own: the tasks that read the figures may have to wait for each other's.
      Thread.detachNewThread {
        while !begun.isRaised { sched_yield() }
        for _ in 0..<round % 300 { _ = begun.isRaised }
        root.releasingOutside { $0.take() }
      }
      begun.raise()
      while let statistics = await store?.statistics { if statistics.subscriptions == 0 { faults += 1 } }
      withExtendedLifetime(states) {}
    }
    #expect(faults == 0)
  }

  @Test func `an instrument may call back from within each of its functions`() async throws {
    struct Caller: StoreInstrument {
      let store = LockedBox()
      let count = Record<String>()

      final class LockedBox: Sendable {
        let root = LockedValue<RootStore<Int, Int>?>(nil)
        let first = LockedValue<Set<String>>([])
        func isFirst(_ name: String) -> Bool { first.withLock { $0.insert(name).inserted } }
      }

      private func callBack(_ name: String, _ instrumented: InstrumentedStore) {
        guard store.isFirst(name) else { return }
        let root = store.root.withLock { $0 }
        Task.immediate {
          _ = await instrumented.statistics
          if let root {
            root.dispatch(100)
            try? await root.send(1_000)
            _ = await root.state
            for await _ in root.states() { break }
            if name == "closed" || name == "retried" { await root.shutdown() }
          }
          count.add(name)
        }
      }

      func opened(_ store: InstrumentedStore) { callBack("opened", store) }
      func closed(_ store: InstrumentedStore) { callBack("closed", store) }
      func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
        callBack("committed", store)
      }
      func rejected<Action: Sendable>(
        _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
      ) { callBack("rejected", store) }
      func effect(_ event: EffectEvent, in store: InstrumentedStore) { callBack(Self.name(of: event.kind), store) }
      func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async {
        callBack("run", store)
        await work()
      }
    }
    let caller = Caller()
    let store = RootStore<Int, Int>(
      initialState: 0,
      options: StoreOptions(
        reporting: { _ in }, instrument: CombinedInstrument(caller, CombinedInstrument(), CombinedInstrument(caller))),
      interceptors: .effects { action, _ in
        switch action {
        case 1: .run { _ in throw Broken() }.retried(.constant(.zero, attempts: 2))
        case 2: .run { _ in await untilCancelled() }.id("turn", .inTurn(limit: 0))
        default: nil
        }
      },
      middleware: [.guarding { action, _ in action == 0 ? "No." : nil }]
    ) { $0 += $1 }
    caller.store.root.withLock { $0 = store }
    for action in [0, 2, 2, 1] { store.dispatch(action) }
    await caller.count.untilCount(9)
    #expect(
      Set(caller.count.all) == [
        "opened", "rejected", "committed", "began", "run", "turnedAway", "retried", "ended", "closed",
      ])
    caller.store.root.withLock { $0 = nil }
  }

  @Test(arguments: ["opening", "opened", "failed", "closed"])
  func `an instrument may request from a directory the store of its event`(event: String) async throws {
    let instrument = Returning(in: [event])
    let fails = Flag()
    if event == "failed" { fails.raise() }
    let directory = StoreDirectory<String, Int, Int>(
      idleLimit: .zero, clock: ManualClock(), name: "rooms", instrument: instrument
    ) { _ in
      if fails.isRaised {
        fails.lower()
        throw Broken()
      }
      return RootStore(initialState: 7) { $0 += $1 }
    }
    instrument.use(directory)
    let state = try? await directory.withStore("one") { store in
      let state = await store.state
      if event == "closed" { await store.shutdown() }
      return state
    }
    #expect(state == (event == "failed" ? nil : 7))
    if event == "closed" { try await directory.withStore("one") { _ in } }
    await instrument.answers.untilCount(1)
    #expect(instrument.answers.all == [7])
    instrument.use(nil)
    await directory.shutdown()
    #expect(await directory.keys.isEmpty)
  }

  @Test func `a clock may show any time`() async throws {
    let clock = ManualClock()
    let waits = Record<Duration?>()
    struct Waits: StoreInstrument {
      let waits: Record<Duration?>
      var timesCommits: Bool { true }
      func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
        waits.add(commit.waited)
      }
    }
    let executor = ManualExecutor()
    let store = RootStore<Int, Int>(
      initialState: 0,
      options: StoreOptions(executor: .serial(executor), clock: clock, instrument: Waits(waits: waits))
    ) { $0 += $1 }
    for years in [0, 300, 1_000, 50_000] {
      clock.advance(by: .seconds(years * 365 * 86_400))
      executor.hold()
      store.dispatch(1)
      clock.advance(by: .seconds(2))
      executor.letGo()
      await executor.untilIdle()
    }
    #expect(waits.all == Array(repeating: .seconds(2), count: 4))
    withExtendedLifetime(store) {}
  }

  @Test func `a million commits are reported in order`() async throws {
    let ledger = Ledger()
    let count = isSanitized ? 50_000 : 1_000_000
    let store = RootStore<Int, Int>(initialState: 0, options: StoreOptions(instrument: ledger)) { $0 &+= $1 }
    await onThreads(2) { for number in 0..<count / 2 { store.dispatch(number) } }
    await store.shutdown()
    #expect(ledger.commitCount == count)
    #expect(ledger.faults.isEmpty)
  }

  @Test func `a directory of ten thousand keys reports each`() async throws {
    final class Events: StoreInstrument {
      let counts = LockedValue<[String: Int]>([:])
      func directory(_ event: DirectoryEvent) { counts.withLock { $0[Self.name(of: event.kind), default: 0] += 1 } }
    }
    let events = Events()
    let ledger = Ledger()
    let keys = isSanitized ? 1_000 : 10_000
    let directory = StoreDirectory<Int, Int, Int>(
      idleLimit: .zero, countLimit: 100, name: "rooms", instrument: events
    ) { key in
      if key % 10 == 0 { throw Broken() }
      return RootStore(initialState: 0, options: StoreOptions(instrument: ledger)) { $0 += $1 }
    }
    await withTaskGroup { tasks in
      for worker in 0..<4 {
        tasks.addTask {
          for key in 0..<keys where key % 4 == worker { try? await directory.withStore(key) { try await $0.send(1) } }
        }
      }
    }
    await directory.shutdown()
    while ledger.openCount > 0 { await Task.yield() }
    let (there, failed) = (keys - keys / 10, keys / 10)
    #expect(events.counts.withLock { $0 } == ["opening": keys, "opened": there, "failed": failed, "closed": there])
    #expect(ledger.stores.count == there)
    #expect(ledger.faults.isEmpty)
  }
}
