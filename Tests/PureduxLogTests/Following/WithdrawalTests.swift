import Foundation
import Puredux
import PureduxLogTesting
import PureduxTestSupport
import Synchronization
import Testing

@testable import PureduxLog

/// The memory and the time of callers that have given up: nothing of them remains.
@Suite(.timeLimit(.minutes(15))) struct WithdrawalTests {
  /// An object that is counted while it is alive.
  final class Token: Sendable {
    final class Counts: Sendable {
      let alive = Atomic(0)
      var value: Int { alive.load(ordering: .sequentiallyConsistent) }
    }
    private let counts: Counts
    init(_ counts: Counts) {
      self.counts = counts
      counts.alive.wrappingAdd(1, ordering: .sequentiallyConsistent)
    }
    deinit { counts.alive.wrappingSubtract(1, ordering: .sequentiallyConsistent) }
  }

  struct Action: Sendable {
    var token: Token?
    static var codings: LogCodings<Int, Action> {
      LogCodings(
        actions: LogCoding { _ in
          [UInt8](repeating: 7, count: 1_000)
        } decode: { _, _ in
          Action()
        }, states: nil)
    }
  }

  typealias CountingStore = RootStore<Int, Action>
  typealias Child = StateStore<Int, Action>

  private func store(
    _ log: any OrderedLog, options: LogOptions, clock: any Clock<Duration> = ContinuousClock(),
    executor: StoreExecutor = .own
  ) async throws -> CountingStore {
    try await RootStore(
      following: log, initialState: 0, codings: Action.codings,
      options: FollowingOptions(log: options, store: StoreOptions(executor: executor, clock: clock))
    ) { count, _ in count += 1 }
  }

  /// The ways to wait for an action that has not been given to the log.
  enum Way: CaseIterable, Sendable {
    case send, reading, projection, child, within, performed, firstAction, firstActionWithin

    var isSend: Bool { self != .firstAction && self != .firstActionWithin }

    fileprivate func wait(
      _ counts: Token.Counts, _ store: CountingStore, _ child: Child
    ) async throws {
      let action = Action(token: Token(counts))
      switch self {
      case .send: try await store.send(action)
      case .reading: _ = try await store.send(action) { $0 }
      case .projection: try await store.projection(action: { (action: Action) in action }, state: { $0 }).send(action)
      case .child: try await child.send(action)
      case .within: try await store.send(action, within: .seconds(5))
      case .performed: try await store.perform(action)
      case .firstAction: try await store.firstAction(where: { [action] _ in action.token == nil })
      case .firstActionWithin:
        try await store.firstAction(where: { [action] _ in action.token == nil }, within: .seconds(5))
      }
    }
  }

  @Test("nothing is retained of callers that have given up while the log is away", arguments: Way.allCases)
  func memory(way: Way) async throws {
    let (log, clock, counts) = (GatedLog(), ManualClock(), Token.Counts())
    var options = LogOptions.once
    (options.entriesUnderWay, options.actionsPerEntry) = (1, 1)
    let store = try await store(log, options: options, clock: clock)
    let child = store.childStore(initialState: 0, stateMapping: { parent, _ in parent }) { _, _ in }
    store.dispatch(Action())
    await log.untilHeld(1)
    // One action waits before the others and one after them, so that the others' places are in between.
    store.dispatch(Action())
    let before = await store.statistics.log
    let count = 200
    let waits = (0..<count).map { _ in Task { try await way.wait(counts, store, child) } }
    if way.isSend {
      while await store.statistics.log?.pendingActions != 2 + count { await Task.yield() }
      #expect(await store.statistics.log?.pendingBytes == 2 * 1_100 + count * 1_100)
    } else {
      while counts.value < count { await Task.yield() }
      if way == .firstActionWithin { await clock.untilAsleep(count + 1) }
    }
    store.dispatch(Action())
    if way == .within || way == .firstActionWithin {
      clock.advance(by: .seconds(5))
    } else {
      for wait in waits { wait.cancel() }
    }
    for wait in waits {
      switch await wait.result {
      case .failure(StoreError.withdrawn) where way.isSend: break
      case .failure(is CancellationError) where way == .firstAction: break
      case .failure(is TimedOut) where way == .firstActionWithin: break
      case let other: Issue.record("\(other)")
      }
    }
    // Waits until the tree has performed the requests of their ends.
    let after = await store.statistics.log
    #expect(counts.value == 0)
    #expect(after?.pendingActions == 3 && before?.pendingActions == 2)
    #expect(after?.pendingBytes == 3 * 1_100)
    await log.open()
    while await store.state < 3 { await Task.yield() }
    #expect(await store.state == 3)
    #expect(await store.statistics.log?.pendingBytes == 0)
    await store.shutdown()
  }

  @Test("an action whose sender has given up before its turn is released at once", arguments: [false, true])
  func beforeTheTurn(followsLog: Bool) async throws {
    let (executor, clock, counts) = (ManualExecutor(), ManualClock(), Token.Counts())
    let store =
      followsLog
      ? try await store(MemoryLog(), options: .once, clock: clock, executor: .serial(executor))
      : CountingStore(initialState: 0, options: StoreOptions(executor: .serial(executor), clock: clock)) { count, _ in
        count += 1
      }
    await executor.untilIdle()
    executor.hold()
    store.dispatch(Action())
    store.dispatch(Action())
    let sends = (0..<3).map { _ in
      Task { try await store.send(Action(token: Token(counts)), within: .seconds(5)) }
    }
    await executor.untilWaiting(4)
    // The first job is the drain, which leaves the rest to the senders. The others are the senders, whose places are
    // after that.
    for _ in 0..<4 { await executor.step() }
    await clock.untilAsleep(3)
    #expect(counts.value == 3)
    clock.advance(by: .seconds(5))
    for send in sends { await #expect(throws: StoreError.withdrawn) { try await send.value } }
    #expect(counts.value == 0)
    executor.letGo()
    #expect(await store.state == 2)
    await store.shutdown()
  }

  // MARK: The queue

  @Test(
    "a queue of which elements are withdrawn is as an array",
    arguments: (0..<10).map { _ in UInt64.random(in: 0 ... .max) })
  func queue(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var queue = WithdrawableQueue<Int>()
    var model: [(id: UInt64, element: Int)] = []
    var last: UInt64 = 0
    for step in 0..<2_000 {
      var isSame: Bool
      // The queue alternately grows and shrinks.
      switch Int.random(in: 0..<(step / 500 % 2 == 0 ? 5 : 8), using: &random) {
      case 0...2:
        last += UInt64.random(in: 1...3, using: &random)
        queue.append(step, id: last)
        model.append((last, step))
        isSame = true
      case 3:
        isSame = queue.popFirst() == (model.isEmpty ? nil : model.removeFirst().element)
      case 4:
        let id = UInt64.random(in: 0...last + 1, using: &random)
        var changed: [UInt64] = []
        queue.update(after: id) { id, element in
          element += 1
          changed.append(id)
          return changed.count < 3
        }
        let places = model.indices.filter { model[$0].id > id }.prefix(3)
        for place in places { model[place].element += 1 }
        isSame = changed == places.map { model[$0].id }
      default:
        let id = Bool.random(using: &random) ? model.randomElement(using: &random)?.id ?? 0 : last / 2
        let expected = model.firstIndex { $0.id == id }.map { model.remove(at: $0).element }
        isSame = queue.update(id) { $0 } == expected
        isSame = queue.remove(id) == expected && isSame
      }
      isSame = isSame && queue.count == model.count && queue.isEmpty == model.isEmpty
      isSame = isSame && queue.firstID == model.first?.id && queue.lastID == model.last?.id
      isSame = isSame && queue.first == model.first?.element
      // The memory is in proportion to the number of elements.
      isSame = isSame && queue.slotCount <= 2 * queue.count + 33
      guard isSame else {
        Issue.record("step \(step), seed \(seed)")
        return
      }
    }
  }

  enum Order: CaseIterable, Sendable { case ascending, descending, random }

  @Test("withdrawing many takes a time that grows as their number does", arguments: Order.allCases)
  func cost(order: Order) {
    /// The processor time of this thread, which excludes other work on the machine.
    func seconds(withdrawing count: Int) -> Double {
      var least = Double.infinity
      for _ in 0..<3 {
        var outbox = Outbox(limits: Outbox.Limits(actions: 1, entries: 1))
        outbox.append([1], at: .zero)
        _ = outbox.next(at: .zero)
        var ids = (0..<count).map { _ in outbox.append([], at: .zero) }
        outbox.append([1], at: .zero)
        switch order {
        case .ascending: break
        case .descending: ids.reverse()
        case .random: ids.shuffle()
        }
        let start = threadSeconds()
        for id in ids { _ = outbox.withdraw(id) }
        least = min(least, threadSeconds() - start)
        #expect(outbox.count == 2)
      }
      return least
    }
    // The ratio would be 64 if linear, and 4,096 if quadratic: caches and a sanitizer change it by less than eight.
    let ratio = seconds(withdrawing: 64_000) / seconds(withdrawing: 1000)
    #expect(ratio < 512)
  }

  private func threadSeconds() -> Double {
    var time = timespec()
    // SAFETY: the pointer is used during the call only.
    unsafe clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
