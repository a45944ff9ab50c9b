import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import PureduxLog

/// Leases whose claims are lost, and leases of stores that end.
@Suite(.timeLimit(.minutes(15))) struct LeaseLossTests {
  struct Shop: Codable, Sendable, Identifiable {
    var id: Int { 1 }
    var lease = Lease()
    var jobs: [Int] = []
    var done: [Int] = []
  }

  enum ShopAction: Codable, Sendable {
    case lease(Lease.Claim)
    case order(Int)
    case done(Int)
  }

  typealias ShopStore = RootStore<Shop, ShopAction>

  static func reduce(_ shop: inout Shop, _ action: ShopAction) {
    switch action {
    case .lease(let claim): shop.lease.apply(claim)
    case .order(let job): shop.jobs.append(job)
    case .done(let job):
      shop.jobs.removeAll { $0 == job }
      shop.done.append(job)
    }
  }

  private func leaseholder() -> Leaseholder<Shop, ShopAction> {
    Leaseholder(lease: { $0.lease }, action: ShopAction.lease, duration: .seconds(10))
  }

  // MARK: Lost claims

  /// How a claim is lost without a trace in the state.
  enum Loss: CaseIterable, Sendable { case sealed, refused, admission, middleware }

  enum Moment: CaseIterable, Sendable { case first, renewal, takeover, afterRelease }

  @Test("a claim that is lost is repeated", arguments: Loss.allCases, Moment.allCases)
  func repeated(loss: Loss, moment: Moment) async throws {
    let (clock, log) = (ManualClock(), LosingLog())
    let losing = LockedValue<Gate?>(nil)
    let loses = { @Sendable (action: ShopAction) in
      guard case .lease = action, let gate = losing.withLock({ $0.take() }) else { return false }
      gate.open()
      return true
    }
    var middleware: [Middleware<Shop, ShopAction>] = []
    if loss == .admission {
      middleware = [.admission { action, _, next in if !loses(action) { next(action) } }]
    } else if loss == .middleware {
      middleware = [Middleware { action, _, next in if !loses(action) { next(action) } }]
    }
    var options = LogOptions.once
    options.newestRules = 1
    let store = try await ShopStore(
      following: log, initialState: Shop(),
      options: FollowingOptions(log: options, store: StoreOptions(clock: clock)), middleware: middleware,
      reducer: Self.reduce)
    let holding = leaseholder()
    let isLost = Gate()
    let lose = { @Sendable in
      switch loss {
      case .sealed, .refused: log.lose(bySeal: loss == .sealed, isLost)
      case .admission, .middleware: losing.withLock { $0 = isLost }
      }
    }
    switch moment {
    case .first:
      lose()
      holding.hold(store, effects: [])
    case .renewal:
      holding.hold(store, effects: [])
      await store.settled()
      lose()
      clock.advance(by: .seconds(4))
    case .takeover:
      try await store.send(.lease(Lease.Claim(replica: 7, term: 1, renewals: 0)))
      holding.hold(store, effects: [])
      await store.settled()
      lose()
      clock.advance(by: .seconds(13))
    case .afterRelease:
      holding.hold(store, effects: [])
      await store.settled()
      let held = await store.state
      try await store.send(try #require(holding.release(in: held)))
      await store.settled()
      lose()
      clock.advance(by: .seconds(13))
    }
    await isLost.wait()
    await store.settled()
    let before = await store.state
    #expect(moment == .renewal ? before.lease.renewals == 0 : !holding.holds(before))
    clock.advance(by: .seconds(4))
    await store.settled()
    let after = await store.state
    #expect(holding.holds(after) && after.lease.renewals == (moment == .renewal ? 1 : 0))
    // The lease is still renewed.
    clock.advance(by: .seconds(4))
    await store.settled()
    #expect(await store.state.lease.renewals == after.lease.renewals + 1)
    await store.shutdown()
  }

  @Test(
    "while the log is away one claim waits, however long that takes, and whatever the limit for `send`",
    arguments: [nil, .seconds(1)] as [Duration?])
  func oneWaits(limit: Duration?) async throws {
    let (clock, log) = (ManualClock(), GatedLog())
    var options = LogOptions.once
    options.sendLimit = limit
    let store = try await ShopStore(
      following: log, initialState: Shop(),
      options: FollowingOptions(log: options, store: StoreOptions(clock: clock)), reducer: Self.reduce)
    let holding = leaseholder()
    holding.hold(store, effects: [])
    await log.untilHeld(1)
    for _ in 0..<10 {
      // With a limit, a task of the store sleeps between its looks for overdue actions.
      if limit != nil { await clock.untilAsleep(1) }
      clock.advance(by: .seconds(20))
      for _ in 0..<5 { _ = await store.statistics }
      #expect(await store.statistics.log?.pendingActions == 1)
    }
    await log.open()
    #expect(holding.holds(await store.state))
    #expect(try await log.head() == 1)
    // The lease is still renewed.
    await store.settled()
    clock.advance(by: .seconds(4))
    await store.settled()
    #expect(await store.state.lease.renewals == 1)
    await store.shutdown()
  }

  // MARK: A store that stops

  enum Holding: CaseIterable, Sendable { case held, made, lifted }

  @Test("a store that stops cancels the work under its lease, and no other work", arguments: Holding.allCases)
  func stopped(way: Holding) async throws {
    let (log, holding, begun) = (MemoryLog(), leaseholder(), Record<Int>())
    let sleep = Effect<ShopAction>.run { dispatch in try await dispatch.sleep(for: .seconds(1_000_000)) }
    let work = StateEffect<Shop, ShopAction>.forEach({ $0.jobs.map(Job.init) }) { job in
      begun.add(job.id)
      return sleep
    }
    let effects = Interceptor<Shop, ShopAction>.effects(ofState: holding.effects([work]))
    let interceptor: Interceptor<Shop, ShopAction> =
      switch way {
      case .held: Interceptor(combining: [])
      case .made: effects
      case .lifted: effects.lifted(state: { $0 }, action: { (action: ShopAction) in action }, into: { $0 })
      }
    func open(_ interceptor: Interceptor<Shop, ShopAction>) async throws -> ShopStore {
      var options = LogOptions.once
      options.opensWhereStopped = true
      return try await ShopStore(
        following: log, initialState: Shop(),
        options: FollowingOptions(log: options, store: StoreOptions(clock: ManualClock())), interceptors: interceptor,
        reducer: Self.reduce)
    }
    let store = try await open(interceptor)
    if way == .held { holding.hold(store, effects: [work]) }
    store.subscribe(effect: .while({ _ in true }) { sleep })
    try await store.send(.order(1))
    await store.settled()
    #expect(begun.all == [1])
    // Written by a newer version of this library.
    _ = try await log.append([0x50, 0x44, 0x58, 9])
    for await phase in store.logPhases() { if case .stopped = phase { break } }
    await store.settled()
    #expect(await store.statistics.runningTasks == 1)
    #expect(holding.holds(await store.state))
    await store.shutdown()
    // Under the same number, the state of a stopped store says that it holds the lease.
    let again = try await open(Interceptor(combining: []))
    #expect(holding.holds(await again.state))
    holding.hold(again, effects: [work])
    await again.settled()
    #expect(begun.all == [1])
    #expect(await again.statistics.runningTasks == 0)
    await again.shutdown()
  }

  // MARK: The end of a store

  enum End: CaseIterable, Sendable { case cancelled, finished, released }

  enum Way: CaseIterable, Sendable {
    case held, made, projection, lifted, liftedEffect, dictionary, keyed, array, nested
  }

  @Test(
    "a store that ends releases its lease, and the next replica need not wait", arguments: End.allCases, Way.allCases)
  func released(end: End, way: Way) async throws {
    let log = MemoryLog()
    let (firstHolding, secondHolding) = (leaseholder(), leaseholder())
    func open(
      _ holding: Leaseholder<Shop, ShopAction>, _ interceptor: Interceptor<Shop, ShopAction>
    ) async throws -> ShopStore {
      try await ShopStore(
        following: log, initialState: Shop(),
        options: FollowingOptions(log: .once, store: StoreOptions(clock: ManualClock())), interceptors: interceptor,
        reducer: Self.reduce)
    }
    let effects = firstHolding.effects([])
    let made = Interceptor<Shop, ShopAction>.effects(ofState: effects[0])
    func byKey(_ interceptor: Interceptor<Shop, ShopAction>) -> Interceptor<Shop, ShopAction> {
      interceptor.lifted(
        elements: { (shop: Shop) in [1: shop] }, action: { (action: ShopAction) in (1, action) }, into: { $1 })
    }
    let interceptor: Interceptor<Shop, ShopAction> =
      switch way {
      case .made: made
      case .lifted: made.lifted(state: { $0 }, action: { (action: ShopAction) in action }, into: { $0 })
      case .liftedEffect: .effects(ofState: effects[0].lifted(state: { (shop: Shop) in shop }, into: { $0 }))
      case .dictionary: byKey(made)
      case .keyed:
        made.lifted(
          elements: { (shop: Shop) -> Keyed<Int, Shop> in [1: shop] }, action: { (action: ShopAction) in (1, action) },
          into: { $1 })
      case .array:
        made.lifted(
          elements: { (shop: Shop) in [shop, shop] }, action: { (action: ShopAction) in (1, action) }, into: { $1 })
      case .nested: byKey(byKey(made))
      case .held, .projection: Interceptor(combining: [])
      }
    var first: ShopStore? = try await open(firstHolding, interceptor)
    switch way {
    case .held: firstHolding.hold(first!, effects: [])
    case .projection:
      firstHolding.hold(first!.projection(action: { (action: ShopAction) in action }, state: { $0 }), effects: [])
    default: break
    }
    await first!.settled()
    #expect(firstHolding.holds(await first!.state))
    let second = try await open(secondHolding, Interceptor(combining: []))
    secondHolding.hold(second, effects: [])
    switch end {
    case .cancelled: await first!.shutdown()
    // The clock stands still: the shutdown waits for no renewal.
    case .finished: await first!.shutdown(interceptors: .finish(within: .seconds(5)), clock: ManualClock())
    case .released:
      let states = first!.states()
      first = nil
      for await _ in states {}
    }
    try await expectHeld(by: secondHolding, second, log)
  }

  /// Expects that a replica has taken a lease over at once, and shuts its store down.
  private func expectHeld(
    by holding: Leaseholder<Shop, ShopAction>, _ store: ShopStore, _ log: MemoryLog
  ) async throws {
    while try await log.head() > store.statistics.log?.position ?? 0 { await Task.yield() }
    await store.settled()
    let state = await store.state
    #expect(holding.holds(state) && state.lease.term == 2)
    await store.shutdown()
  }

  @Test(
    "a store's lease is released, whichever store on its path ends", arguments: [false, true], [0, 1, 2])
  func above(isFinished: Bool, level: Int) async throws {
    let log = MemoryLog()
    let (firstHolding, secondHolding) = (leaseholder(), leaseholder())
    func open() async throws -> ShopStore {
      try await ShopStore(
        following: log, initialState: Shop(),
        options: FollowingOptions(log: .once, store: StoreOptions(clock: ManualClock())), reducer: Self.reduce)
    }
    let root = try await open()
    let child = root.childStore(initialState: 0, stateMapping: { shop, _ in shop }) { _, _ in }
    let grandchild = child.childStore(initialState: 0, stateMapping: { shop, _ in shop }) { _, _ in }
    firstHolding.hold(grandchild, effects: [])
    await grandchild.settled()
    #expect(firstHolding.holds(await root.state))
    let second = try await open()
    secondHolding.hold(second, effects: [])
    let ending: any OwningStore<Shop, ShopAction> = [root, child, grandchild][level]
    if isFinished {
      await ending.shutdown(interceptors: .finish(within: .seconds(5)), clock: ManualClock())
    } else {
      await ending.shutdown()
    }
    try await expectHeld(by: secondHolding, second, log)
    await root.shutdown()
  }

  struct ElementAction: Codable, Sendable {
    let id: Int
    let action: ShopAction
  }

  @Test("each element whose interceptor holds a lease releases its own, once")
  func elements() async throws {
    let log = MemoryLog()
    let holding = leaseholder()
    let interceptor: Interceptor<[Int: Shop], ElementAction> =
      Interceptor.effects(ofState: holding.effects([]))
      .lifted(elements: { $0 }, action: { ($0.id, $0.action) }, into: { .init(id: $0, action: $1) })
    let store = try await RootStore<[Int: Shop], ElementAction>(
      following: log, initialState: [1: Shop(), 2: Shop()],
      options: FollowingOptions(log: .once, store: StoreOptions(clock: ManualClock())), interceptors: interceptor
    ) { shops, action in
      if var shop = shops[action.id] {
        Self.reduce(&shop, action.action)
        shops[action.id] = shop
      }
    }
    await store.settled()
    #expect(await store.state.values.allSatisfy(holding.holds))
    await store.shutdown()
    #expect(await store.state.values.allSatisfy { $0.lease.releasedBy == holding.replica && $0.lease.term == 1 })
  }

  @Test("work that a finishing store has begun under its lease is done before the lease is released")
  func afterTheWork() async throws {
    let (begun, goesOn) = (Gate(), Gate())
    let log = MemoryLog()
    let holding = leaseholder()
    let work = StateEffect<Shop, ShopAction>.forEach({ $0.jobs.map(Job.init) }) { job in
      .run { dispatch in
        begun.open()
        await goesOn.wait()
        try await dispatch.send(.done(job.id))
      }
    }
    let store = try await ShopStore(
      following: log, initialState: Shop(),
      options: FollowingOptions(log: .once, store: StoreOptions(clock: ManualClock())), reducer: Self.reduce)
    holding.hold(store, effects: [work])
    try await store.send(.order(1))
    await begun.wait()
    let watching = store.states()
    let ending = Task { await store.shutdown(interceptors: .finish(within: .seconds(5)), clock: ManualClock()) }
    while store.dispatch(.order(2)) == .enqueued { await Task.yield() }
    #expect(holding.holds(await store.state))
    goesOn.open()
    await ending.value
    var last: Shop?
    for await state in watching {
      #expect(state.lease.holder == holding.replica || state.done.contains(1))
      last = state
    }
    #expect(last?.done.contains(1) == true && last?.lease.holder == nil && last?.lease.releasedBy == holding.replica)
  }

  private struct Job: Identifiable, Equatable, Sendable { let id: Int }
}

/// A log that loses one entry on request: it refuses the entry, or is sealed before it.
private final class LosingLog: LogAround {
  let log: any OrderedLog = MemoryLog()
  private let losing = LockedValue<(bySeal: Bool, isLost: Gate)?>(nil)

  func lose(bySeal: Bool, _ isLost: Gate) { losing.withLock { $0 = (bySeal, isLost) } }

  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
    guard let losing = losing.withLock({ $0.take() }) else { return log.append(entry, outcome: outcome) }
    if losing.bySeal {
      log.append(LogEntry.encode(LogEntry.Seal(rules: 1, time: 0, reason: "newer rules"))) { _ in }
      log.append(entry, outcome: outcome)
    } else {
      Task { outcome(.failure(.refused("Not this entry."))) }
    }
    losing.isLost.open()
  }
}
