import Puredux
import PureduxLog
import PureduxLogTesting
import PureduxTestSupport
import Testing

/// Work for one replica at a time.
@Suite(.timeLimit(.minutes(15))) struct LeaseTests {
  struct Job: Codable, Sendable, Hashable, Identifiable {
    let id: Int
  }

  struct Shop: Codable, Sendable {
    var lease = Lease()
    var pending: [Job] = []
    var done: [Int: Int] = [:]
  }

  enum ShopAction: Codable, Sendable, Equatable {
    case lease(Lease.Claim)
    case order(Job)
    case done(Int)
  }

  struct Replica {
    let store: RootStore<Shop, ShopAction>
    let holding: Leaseholder<Shop, ShopAction>
    let subscriptions: [Subscription]
  }

  func replica(
    _ log: any OrderedLog, _ begun: Events<Int>, clock: ManualClock,
    executor: StoreExecutor = .own, beforeClaim: @escaping @Sendable () -> Void = {}
  ) async throws -> Replica {
    let store = try await RootStore<Shop, ShopAction>(
      following: log, initialState: Shop(),
      options: FollowingOptions(store: StoreOptions(executor: executor, clock: clock), fingerprint: .unchecked)
    ) { shop, action in
      if case .lease = action { beforeClaim() }
      switch action {
      case .lease(let claim): shop.lease.apply(claim)
      case .order(let job): shop.pending.append(job)
      case .done(let id):
        shop.pending.removeAll { $0.id == id }
        shop.done[id, default: 0] += 1
      }
    }
    let holding = Leaseholder<Shop, ShopAction>(lease: { $0.lease }, action: ShopAction.lease, duration: .seconds(10))
    let work = StateEffect<Shop, ShopAction>.forEach({ $0.pending }) { job in
      .run { dispatch in
        await begun.add(job.id)
        dispatch(.done(job.id))
      }
    }
    return Replica(store: store, holding: holding, subscriptions: holding.hold(store, effects: [work]))
  }

  @Test("each job is begun by the replica that holds the lease, and another one takes over after its end")
  func takeover() async throws {
    let log = MemoryLog()
    let (firstBegun, secondBegun) = (Events<Int>(), Events<Int>())
    let (firstClock, secondClock) = (ManualClock(), ManualClock())
    let first = try await replica(log, firstBegun, clock: firstClock)
    _ = await first.store.state { first.holding.holds($0) }
    let second = try await replica(log, secondBegun, clock: secondClock)
    for id in 0..<20 { try await second.store.send(.order(Job(id: id))) }
    #expect(await second.store.state { $0.done.count == 20 }.done.values.allSatisfy { $0 == 1 })
    // The holder renews the lease repeatedly before it expires for the others.
    for _ in 0..<10 {
      let renewals = await first.store.state.lease.renewals
      await first.store.settled()
      firstClock.advance(by: .seconds(4))
      _ = await second.store.state { $0.lease.renewals > renewals }
      await second.store.settled()
      secondClock.advance(by: .seconds(9))
    }
    #expect(await firstBegun.all.sorted() == Array(0..<20))
    #expect(await secondBegun.all.isEmpty)
    #expect(await second.store.state.lease.term == 1)
    // The holder disappears without releasing the lease, like a process that dies.
    for subscription in first.subscriptions { subscription.cancel() }
    await first.store.shutdown()
    for id in 20..<30 { try await second.store.send(.order(Job(id: id))) }
    await second.store.settled()
    #expect(await secondBegun.all.isEmpty)
    secondClock.advance(by: .seconds(13))
    let end = await second.store.state { $0.done.count == 30 }
    #expect(end.lease.term == 2 && second.holding.holds(end))
    #expect(await secondBegun.all.sorted() == Array(20..<30))
    await second.store.shutdown()
  }

  @Test("a lease that is lifted to a part writes nothing while the part is absent, and can be released with it")
  func partWithWork() async throws {
    let log = MemoryLog()
    let holding = Leaseholder<Shop, ShopAction>(lease: { $0.lease }, action: ShopAction.lease)
    let work = StateEffect<Shop, ShopAction>.forEach({ $0.pending }) { job in .run { $0(.done(job.id)) } }
    let whilePending = holding.effects([work]).map {
      $0.lifted(state: { (shop: Shop) in shop.pending.isEmpty ? nil : shop }, into: { $0 })
    }
    let releasing = StateEffect<Shop, ShopAction>.onChange(
      of: { $0.pending.isEmpty ? holding.release(in: $0) : nil },
      { release in
        guard let release else { return nil }
        return .run { dispatch in dispatch(release) }
      })
    let store = try await RootStore<Shop, ShopAction>(
      following: log, initialState: Shop(),
      options: FollowingOptions(store: StoreOptions(clock: ManualClock()), fingerprint: .unchecked),
      interceptors: .effects(ofState: whilePending + [releasing])
    ) { shop, action in
      switch action {
      case .lease(let claim): shop.lease.apply(claim)
      case .order(let job): shop.pending.append(job)
      case .done(let id):
        shop.pending.removeAll { $0.id == id }
        shop.done[id, default: 0] += 1
      }
    }
    await store.settled()
    #expect(try await log.head() == 0)
    try await store.send(.order(Job(id: 1)))
    let end = await store.state { $0.lease.releasedBy == holding.replica }
    #expect(end.done == [1: 1] && end.lease.term == 1)
    await store.settled()
    #expect(await store.statistics.runningTasks == 0)
    let head = try await log.head()
    await store.shutdown()
    #expect(try await log.head() == head)
  }

  final class Holder<Value: Sendable>: Sendable {
    private let current: LockedValue<Value>
    init(_ value: Value) { current = LockedValue(value) }
    var value: Value {
      get { current.withLock { $0 } }
      set { current.withLock { $0 = newValue } }
    }
  }

  /// A log that delivers late entries together.
  final class LateLog: OrderedLog {
    let log = MemoryLog()
    let isPaused = LockedValue(false)
    let goesOn = Gate()

    func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void) {
      log.append(entry, outcome: outcome)
    }

    func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error> {
      let read = Holder(position)
      return AsyncThrowingStream { [self] in
        // Once an entry has arrived and the pause is over, all entries are delivered.
        for try await _ in log.records(after: read.value) { break }
        if isPaused.withLock({ $0 }) { await goesOn.wait() }
        for try await records in log.records(after: read.value) {
          read.value = records.last?.position ?? read.value
          return records
        }
        return nil
      }
    }

    func head() async throws(LogError) -> UInt64 { try await log.head() }
    func truncate(through position: UInt64) async throws(LogError) { try await log.truncate(through: position) }
  }

  @Test("work that is given and withdrawn in one batch does not begin")
  func lostInOneBatch() async throws {
    let log = LateLog()
    let begun = Events<Int>()
    let isBehind = Holder(false)
    let late = try await replica(log, begun, clock: ManualClock(), executor: .serial(HeldExecutor())) {
      guard isBehind.value else { return }
      // Lets the tasks run that have been started by now.
      let ran = Latch()
      Task.detached {
        for _ in 1...10 { await Task.yield() }
        ran.open()
      }
      ran.wait()
    }
    _ = await late.store.state { late.holding.holds($0) }
    await late.store.settled()
    let clock = ManualClock()
    let other = try await replica(log.log, Events(), clock: clock)
    isBehind.value = true
    log.isPaused.withLock { $0 = true }
    for id in 0..<20 { try await other.store.send(.order(Job(id: id))) }
    await other.store.settled()
    clock.advance(by: .seconds(13))
    #expect(await other.store.state { $0.done.count == 20 }.lease.term == 2)
    log.isPaused.withLock { $0 = false }
    log.goesOn.open()
    #expect(await late.store.state { $0.done.count == 20 }.lease.term == 2)
    await late.store.settled()
    #expect(await begun.all.isEmpty)
    await late.store.shutdown()
    await other.store.shutdown()
  }

  @Test("a released lease can be taken at once")
  func release() async throws {
    let log = MemoryLog()
    let first = try await replica(log, Events(), clock: ManualClock())
    let held = await first.store.state { first.holding.holds($0) }
    let giveUp = try #require(first.holding.release(in: held))
    let second = try await replica(log, Events(), clock: ManualClock())
    try await first.store.send(giveUp)
    // A replica that released the lease does not take it again before the others do.
    #expect(second.holding.holds(await second.store.state { $0.lease.term == 2 }))
    await second.store.shutdown()
    await first.store.shutdown()
  }

  @Test("of several claims for one term the first in the log wins, and late ones change nothing")
  func claims() {
    var lease = Lease()
    lease.apply(Lease.Claim(replica: 1, term: 1, renewals: lease.renewals))
    lease.apply(Lease.Claim(replica: 2, term: 1, renewals: lease.renewals))
    #expect(lease.holder == 1 && lease.term == 1 && lease.renewals == 0)
    lease.apply(Lease.Claim(replica: 1, term: 1, renewals: lease.renewals))
    #expect(lease.renewals == 1)
    lease.apply(Lease.Claim(replica: 2, term: 3, renewals: lease.renewals))
    lease.apply(Lease.Claim(replica: 2, term: 1, renewals: lease.renewals, isRelease: true))
    #expect(lease.holder == 1 && lease.term == 1)
    // This replica was cut off, and has not seen that the holder is alive.
    lease.apply(Lease.Claim(replica: 2, term: 2, renewals: 0))
    #expect(lease.holder == 1 && lease.term == 1)
    lease.apply(Lease.Claim(replica: 2, term: 2, renewals: 1))
    lease.apply(Lease.Claim(replica: 1, term: 1, renewals: lease.renewals))
    #expect(lease.holder == 2 && lease.term == 2 && lease.renewals == 0)
    lease.apply(Lease.Claim(replica: 2, term: 2, renewals: lease.renewals, isRelease: true))
    #expect(lease.holder == nil && lease.term == 2)
    lease.apply(Lease.Claim(replica: 3, term: 3, renewals: lease.renewals))
    #expect(lease.holder == 3)
  }

  @Test("a store is made with the effects that hold its lease")
  func madeWithEffects() async throws {
    let holding = Leaseholder<Shop, ShopAction>(lease: { $0.lease }, action: ShopAction.lease)
    let work = StateEffect<Shop, ShopAction>.forEach({ $0.pending }) { job in .run { $0(.done(job.id)) } }
    let store = try await RootStore<Shop, ShopAction>(
      following: MemoryLog(), initialState: Shop(),
      options: FollowingOptions(store: StoreOptions(clock: ManualClock()), fingerprint: .unchecked),
      interceptors: .effects(ofState: holding.effects([work]))
    ) { shop, action in
      switch action {
      case .lease(let claim): shop.lease.apply(claim)
      case .order(let job): shop.pending.append(job)
      case .done(let id): shop.pending.removeAll { $0.id == id }
      }
    }
    try await store.send(.order(Job(id: 1)))
    let end = await store.state { $0.pending.isEmpty && $0.lease.holder != nil }
    #expect(holding.holds(end))
    await store.shutdown()
  }
}
