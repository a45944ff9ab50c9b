import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

private typealias Policy = Puredux.Buffering

/// Drives the backlog as its channel does, but without concurrency. Waiters are numbers.
private final class BacklogDriver {
  var backlog = Backlog()
  var garbage = Backlog.Garbage()

  func subscribe(_ policy: Policy = .unbounded, first: Int? = 0) -> Int {
    let cursor = backlog.subscribe(policy)
    #expect(activate(cursor, first: first) == nil)
    return cursor
  }

  /// Returns the waiter that receives the first state.
  func activate(_ cursor: Int, first: Int?) -> Int? { backlog.activate(cursor, first: first).map { Int($0.bits) } }

  /// The states that newer ones have replaced in place.
  private var replaced: [Int] = []

  /// Publishes, and returns the waiters that receive the state, in order.
  @discardableResult func publish(_ state: Int) -> [Int] {
    var woken: ContiguousArray<Cursors.Parked> = []
    if let replaced = backlog.publish(state, waking: &woken, garbage: &garbage) { self.replaced.append(replaced) }
    return woken.map { Int($0.waiter.bits) }
  }

  func take(_ cursor: Int) -> Int? {
    if case .state(let state) = backlog.take(cursor, garbage: &garbage) as Backlog.Taken<Int> { state } else { nil }
  }

  func takeAll(_ cursor: Int) -> [Int] {
    var states: [Int] = []
    while let state = take(cursor) { states.append(state) }
    return states
  }

  func takeAhead(_ cursor: Int, limit: Int) -> [Int] {
    var ahead = StatesAhead()
    let taken: Backlog.Taken<Int> = backlog.takeAhead(cursor, limit: limit, into: &ahead, garbage: &garbage)
    guard case .state(let first) = taken else {
      return []
    }
    return [first] + sequence(state: 0) { _ in ahead.popFirst() }
  }

  var kept: Set<Int> {
    Set(backlog.kept.all()).union(
      (0..<backlog.cursors.count).flatMap { backlog.own.all(of: $0).map { Backlog.Shared<Int>.state(of: $0) } })
  }

  var dropped: [Int] {
    replaced + garbage.states.all() + garbage.shared.flatMap { $0.all.map { Backlog.Shared<Int>.state(of: $0) } }
  }

  func trim() {
    while backlog.cursors.needsTrim { backlog.trim(into: &garbage) }
  }

  /// Cancels, and returns the waiters to end.
  func cancel(_ cursor: Int) -> [Int] { backlog.cancel(cursor, garbage: &garbage).map { Int($0.bits) } }

  func takeOrWait(_ cursor: Int, _ waiter: Int) -> Backlog.Taken<Int> {
    backlog.takeOrWait(cursor, AnyWaiter(bits: UInt(waiter)), garbage: &garbage)
  }

  func hasEnded(_ cursor: Int) -> Bool {
    if case .end = backlog.take(cursor, garbage: &garbage) as Backlog.Taken<Int> { true } else { false }
  }

  /// Parks a waiter. Returns whether there was nothing to take.
  func park(_ cursor: Int, _ waiter: Int) -> Bool {
    if case .nothing = takeOrWait(cursor, waiter) { true } else { false }
  }
}

@Suite struct BacklogTests {
  private static let policies: [Policy] = [.unbounded, .newest(1), .newest(3), .oldest(1), .oldest(3)]

  // MARK: Subscribing

  @Test(arguments: [true, false])
  func `a consumer that has received a state no longer waits, even if others wait after it`(isLate: Bool) {
    let (first, second) = (AnyWaiter(bits: 1), AnyWaiter(bits: 2))
    var cursors = Cursors()
    let id = cursors.subscribe(.unbounded)
    if isLate { _ = cursors.activate(id, hasFirst: false) }
    for waiter in [first, second] { cursors.wait(waiter, at: id) }
    #expect([first, second].allSatisfy { cursors.isAwaited(id, by: $0) })
    if isLate {
      var woken: ContiguousArray<Cursors.Parked> = []
      _ = cursors.publish(waking: &woken)
      #expect(woken.map(\.waiter) == [first])
    } else if case .handedTo(let waiter) = cursors.activate(id, hasFirst: true) {
      #expect(waiter == first)
    } else {
      Issue.record("not handed over")
    }
    #expect(!cursors.isAwaited(id, by: first))
    #expect(cursors.isAwaited(id, by: second))
  }

  @Test(arguments: policies)
  fileprivate func `a cursor sees nothing before its activation, then its first state and the later ones`(
    policy: Policy
  ) {
    let driver = BacklogDriver()
    let cursor = driver.backlog.subscribe(policy)
    driver.publish(1)
    #expect(driver.take(cursor) == nil)
    #expect(driver.activate(cursor, first: 2) == nil)
    #expect(driver.take(cursor) == 2)
    driver.publish(3)
    #expect(driver.takeAll(cursor) == [3])
  }

  @Test(arguments: policies)
  fileprivate func `consumers that wait before the activation are served in order`(policy: Policy) {
    let driver = BacklogDriver()
    let cursor = driver.backlog.subscribe(policy)
    #expect(driver.park(cursor, 100))
    #expect(driver.park(cursor, 101))
    #expect(driver.park(cursor, 102))
    #expect(driver.publish(1) == [])
    #expect(driver.activate(cursor, first: 2) == 100)
    #expect(driver.publish(3) == [101])
    #expect(driver.publish(4) == [102])
    #expect(driver.publish(5) == [])
    #expect(driver.takeAll(cursor) == [5])
  }

  @Test(arguments: policies)
  fileprivate func `a cursor activated without a state waits for the next`(policy: Policy) {
    let driver = BacklogDriver()
    let cursor = driver.backlog.subscribe(policy)
    #expect(driver.park(cursor, 100))
    #expect(driver.activate(cursor, first: nil) == nil)
    #expect(driver.publish(1) == [100])
  }

  @Test func `a refused cursor has ended`() {
    let driver = BacklogDriver()
    let cursor = driver.backlog.subscribe(.unbounded)
    driver.backlog.refuse(cursor, garbage: &driver.garbage)
    #expect(driver.hasEnded(cursor))
    #expect(driver.backlog.cursors.subscriberCount == 0)
  }

  @Test func `the place of a cursor cancelled before its activation is reused after the activation`() {
    let driver = BacklogDriver()
    let keeper = driver.subscribe()
    let gone = driver.backlog.subscribe(.unbounded)
    driver.backlog.remove(gone, garbage: &driver.garbage)
    let next = driver.backlog.subscribe(.unbounded)
    #expect(next != gone)
    #expect(driver.activate(gone, first: 1) == nil)
    #expect(driver.backlog.subscribe(.unbounded) == gone)
    #expect(driver.take(keeper) == 0)
  }

  @Test func `the place of a cancelled cursor is reused after its subscription and activation`() {
    let driver = BacklogDriver()
    let keeper = driver.subscribe()
    let cursor = driver.backlog.subscribe(.unbounded)
    #expect(driver.cancel(cursor).count == 0)
    #expect(driver.activate(cursor, first: 1) == nil)
    #expect(driver.hasEnded(cursor))
    #expect(driver.backlog.subscribe(.unbounded) != cursor)
    driver.backlog.remove(cursor, garbage: &driver.garbage)
    #expect(driver.backlog.subscribe(.unbounded) == cursor)
    #expect(driver.take(keeper) == 0)
  }

  // MARK: Publishing

  @Test func `while all cursors wait, no state is stored`() {
    let driver = BacklogDriver()
    let cursors = Self.policies.map { driver.subscribe($0) }
    for cursor in cursors { #expect(driver.takeAll(cursor) == [0]) }
    for state in 1...10 {
      for cursor in cursors { #expect(driver.park(cursor, cursor)) }
      #expect(driver.publish(state).sorted() == cursors.sorted())
      #expect(driver.backlog.kept.count == 0)
    }
    #expect(driver.garbage.isEmpty)
  }

  @Test func `a state is stored once for all cursors that must still read it`() {
    let driver = BacklogDriver()
    let cursors = (0..<100).map { _ in driver.subscribe() }
    for state in 1...10 { driver.publish(state) }
    #expect(driver.backlog.kept.count == 10)
    for cursor in cursors.dropLast() { #expect(driver.takeAll(cursor) == Array(0...10)) }
    #expect(driver.backlog.kept.count == 10)
    #expect(driver.takeAll(cursors[99]) == Array(0...10))
    #expect(driver.backlog.kept.count == 0)
  }

  @Test func `states taken ahead by an unbounded cursor belong to it alone`() {
    let driver = BacklogDriver()
    let (fast, slow) = (driver.subscribe(), driver.subscribe())
    for state in 1...9 { driver.publish(state) }
    #expect(driver.takeAhead(fast, limit: 4) == [0, 1, 2, 3, 4])
    #expect(driver.backlog.kept.count == 9, "the other has still to read all")
    #expect(driver.takeAhead(slow, limit: 6) == [0, 1, 2, 3, 4, 5, 6])
    #expect(driver.backlog.kept.count == 5)
    #expect(driver.takeAhead(fast, limit: 31) == [5, 6, 7, 8, 9])
    #expect(driver.park(fast, 1))
    #expect(driver.takeAll(slow) == [7, 8, 9])
    #expect(driver.backlog.kept.count == 0)
    #expect(driver.publish(10) == [1])
  }

  @Test(arguments: policies.dropFirst())
  fileprivate func `a bounded cursor takes nothing ahead`(policy: Policy) {
    let driver = BacklogDriver()
    let cursor = driver.subscribe(policy)
    for state in 1...9 { driver.publish(state) }
    #expect(driver.takeAhead(cursor, limit: 4).count == 1)
  }

  @Test func `a stalled newest cursor keeps its newest states, and older ones become garbage`() {
    let driver = BacklogDriver()
    let cursor = driver.subscribe(.newest(3))
    for state in 1...10 { driver.publish(state) }
    #expect(driver.backlog.kept.count == 3)
    #expect(driver.dropped.sorted() == Array(0...7))
    #expect(driver.takeAll(cursor) == [8, 9, 10])
    #expect(driver.backlog.kept.count == 0)
  }

  @Test(arguments: [1, 3, 100])
  func `a state replaces those that stalled newest cursors have passed, and nothing else is touched`(limit: Int32) {
    let driver = BacklogDriver()
    let cursors = (0..<10).map { _ in driver.subscribe(.newest(limit)) }
    for state in 1...Int(limit) + 1 { driver.publish(state) }
    driver.garbage.removeAll()
    for state in Int(limit) + 2...500 { driver.publish(state) }
    #expect(driver.garbage.isEmpty)
    #expect(driver.backlog.kept.all() == Array(501 - Int(limit)...500))
    for cursor in cursors { #expect(driver.takeAll(cursor) == Array(501 - Int(limit)...500)) }
  }

  @Test func `stalled newest cursors are counted together, however many and however different they are`() {
    let driver = BacklogDriver()
    let cursors = (1...500).map { driver.subscribe(.newest(Int32($0))) }
    for state in 1...1000 {
      driver.publish(state)
      #expect(driver.backlog.cursors.groupCount == 1)
      #expect(driver.backlog.kept.count == min(state, 500))
    }
    #expect(driver.kept == Set(501...1000))
    for (index, cursor) in cursors.enumerated().reversed() {
      #expect(driver.backlog.kept.count == index + 1)
      #expect(driver.take(cursor) == 1000 - index)
      driver.backlog.remove(cursor, garbage: &driver.garbage)
    }
    #expect(driver.backlog.kept.count == 0)
  }

  @Test func `many first states that are passed at once are removed a few at a time`() {
    let driver = BacklogDriver()
    let cursors = (0..<1000).map { driver.subscribe(.newest(2), first: -$0) }
    driver.publish(1)
    #expect(driver.kept.count == 1001)
    driver.publish(2)
    while driver.backlog.cursors.needsTrim {
      let before = driver.dropped.count
      driver.backlog.trim(into: &driver.garbage)
      #expect(driver.dropped.count - before <= 64)
    }
    #expect(driver.kept == [1, 2])
    for cursor in cursors { #expect(driver.takeAll(cursor) == [1, 2]) }
  }

  @Test func `a stalled oldest cursor keeps its oldest and nothing in the backlog`() {
    let driver = BacklogDriver()
    let cursor = driver.subscribe(.oldest(3))
    for state in 1...10 { driver.publish(state) }
    #expect(driver.backlog.kept.count == 0)
    #expect(driver.take(cursor) == 0)
    driver.publish(11)
    driver.publish(12)
    #expect(driver.takeAll(cursor) == [1, 2, 11])
  }

  @Test func `oldest cursors that keep the same state keep one copy of it`() {
    let driver = BacklogDriver()
    let cursors = (0..<10).map { _ in driver.subscribe(.oldest(3)) }
    for cursor in cursors { #expect(driver.take(cursor) == 0) }
    for state in 1...5 { driver.publish(state) }
    for place in 0..<3 {
      let copies = cursors.compactMap {
        driver.backlog.own.all(of: $0).dropFirst(place).first.map { ObjectIdentifier($0) }
      }
      #expect(copies.count == cursors.count)
      #expect(Set(copies).count == 1)
    }
    for cursor in cursors { #expect(driver.takeAll(cursor) == [1, 2, 3]) }
  }

  // MARK: Limits

  @Test(arguments: 0..<50)
  func `limits are counted as a dictionary counts them`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    var (counts, other) = (Cursors.NewestPlaces.LimitCounts(), Cursors.NewestPlaces.LimitCounts())
    var (model, otherModel): ([Int32: Int32], [Int32: Int32]) = ([:], [:])
    for _ in 0..<400 {
      let limit = Int32.random(in: 1...60, using: &random)
      switch Int.random(in: 0..<20, using: &random) {
      case 0:
        counts.takeAll(of: &other)
        model.merge(otherModel, uniquingKeysWith: +)
        otherModel = [:]
        #expect(other.isEmpty && other.counts.isEmpty)
      case 1..<7:
        counts.removeOne(of: limit)
        if let number = model[limit] { model[limit] = number == 1 ? nil : number - 1 }
      case 7..<14:
        counts.add(1, of: limit)
        model[limit, default: 0] += 1
      default:
        other.add(2, of: limit)
        otherModel[limit, default: 0] += 2
      }
      #expect(counts.counts.map(\.limit) == model.keys.sorted(), "seed \(seed)")
      #expect(counts.counts.allSatisfy { model[$0.limit] == $0.number }, "seed \(seed)")
      #expect(counts.total == model.values.reduce(0) { $0 + Int($1) } && counts.largest == Int(model.keys.max() ?? 0))
    }
  }

  // MARK: Ending

  @Test(arguments: policies)
  fileprivate func `after the finish, unread states are read, and then the end`(policy: Policy) {
    let driver = BacklogDriver()
    let reader = driver.subscribe(policy)
    let waiting = driver.subscribe(policy)
    #expect(driver.take(waiting) == 0)
    #expect(driver.park(waiting, 100))
    #expect(driver.park(waiting, 101))
    #expect(driver.publish(1) == [100])
    #expect(driver.backlog.cursors.finish().map { Int($0.bits) } == [101])
    #expect(driver.publish(2) == [])
    #expect(driver.takeAll(reader).last == (policy == .oldest(1) ? 0 : 1))
    #expect(driver.hasEnded(reader))
    #expect(driver.hasEnded(waiting))
    #expect(driver.backlog.cursors.subscriberCount == 0)
    #expect(driver.backlog.kept.count == 0)
  }

  @Test(arguments: policies)
  fileprivate func `a cancelled cursor wakes its consumers and holds nothing`(policy: Policy) {
    let driver = BacklogDriver()
    let other = driver.subscribe()
    let cursor = driver.subscribe(policy)
    #expect(driver.take(cursor) == 0)
    #expect(driver.take(other) == 0)
    #expect(driver.park(other, 1))
    #expect(driver.park(cursor, 100))
    #expect(driver.park(cursor, 101))
    #expect(driver.cancel(cursor) == [100, 101])
    #expect(driver.cancel(cursor).count == 0)
    #expect(driver.hasEnded(cursor))
    #expect(driver.publish(1) == [1])
    driver.backlog.remove(cursor, garbage: &driver.garbage)
    #expect(driver.backlog.cursors.subscriberCount == 1)
  }

  @Test(arguments: policies)
  fileprivate func `states stored for one cursor alone are released with it`(policy: Policy) {
    let driver = BacklogDriver()
    let cursor = driver.subscribe(policy)
    for state in 1...10 { driver.publish(state) }
    driver.backlog.remove(cursor, garbage: &driver.garbage)
    #expect(driver.backlog.kept.count == 0)
    #expect(driver.backlog.cursors.subscriberCount == 0)
    #expect(Set(driver.dropped).isSuperset(of: policy == .oldest(1) || policy == .oldest(3) ? [0] : [0, 10]))
  }

  @Test func `a large backlog goes a little at a time`() {
    let driver = BacklogDriver()
    let stalled = driver.subscribe()
    for state in 1...1000 { driver.publish(state) }
    driver.backlog.remove(stalled, garbage: &driver.garbage)
    var steps = 1
    while driver.backlog.cursors.needsTrim {
      let before = driver.dropped.count
      driver.backlog.trim(into: &driver.garbage)
      #expect(driver.dropped.count - before <= 64)
      steps += 1
    }
    #expect(steps > 10)
    #expect(driver.backlog.kept.count == 0)
  }

  // MARK: At random

  /// A model with a buffer for each subscriber and nothing shared.
  private struct Naive {
    struct Subscriber {
      let policy: Policy
      var buffer: [Int]
      var waiters: [Int] = []

      /// Returns the waiter that receives the state.
      mutating func receive(_ state: Int) -> Int? {
        if !waiters.isEmpty { return waiters.removeFirst() }
        switch policy {
        case .unbounded: buffer.append(state)
        case .newest(let limit): buffer = Array((buffer + [state]).suffix(Int(limit)))
        case .oldest(let limit): if buffer.count < limit { buffer.append(state) }
        }
        return nil
      }
    }
    var subscribers: [Int: Subscriber] = [:]
    var readable: Set<Int> { Set(subscribers.values.flatMap(\.buffer)) }
  }

  @Test(arguments: 0..<50)
  func `a random run agrees with a buffer for each subscriber`(round: Int) {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededGenerator(seed: seed)
    let driver = BacklogDriver()
    var naive = Naive()
    var waiter = 0
    for state in 1...2000 {
      let cursor = naive.subscribers.keys.sorted().randomElement(using: &random)
      switch Int.random(in: 0..<10, using: &random) {
      case 0 where naive.subscribers.count < 8:
        let policy = Self.policies.randomElement(using: &random) ?? .unbounded
        let new = driver.subscribe(policy, first: state)
        naive.subscribers[new] = Naive.Subscriber(policy: policy, buffer: [state])
      case 1..<5:
        let woken = driver.publish(state)
        let expected = naive.subscribers.keys.sorted().compactMap { naive.subscribers[$0]?.receive(state) }
        #expect(woken.sorted() == expected.sorted(), "seed \(seed)")
      case 5:
        guard let cursor, let subscriber = naive.subscribers[cursor] else { continue }
        let limit = Int.random(in: 0...6, using: &random)
        let taken = driver.takeAhead(cursor, limit: limit)
        #expect(taken == Array(subscriber.buffer.prefix(taken.count)), "seed \(seed)")
        let ahead = subscriber.policy == .unbounded ? min(limit, subscriber.buffer.count - 1) : 0
        #expect(taken.count == min(1 + (ahead >= 4 ? ahead : 0), subscriber.buffer.count), "seed \(seed)")
        naive.subscribers[cursor]?.buffer.removeFirst(taken.count)
      case 6..<9:
        guard let cursor, let buffer = naive.subscribers[cursor]?.buffer else { continue }
        waiter += 1
        switch driver.takeOrWait(cursor, waiter) {
        case .state(let state):
          #expect(state == buffer.first, "seed \(seed)")
          naive.subscribers[cursor]?.buffer.removeFirst()
        case .nothing:
          #expect(buffer.isEmpty, "seed \(seed)")
          naive.subscribers[cursor]?.waiters.append(waiter)
        case .end: Issue.record("ended, seed \(seed)")
        }
      default:
        guard let cursor else { continue }
        let waiters = naive.subscribers.removeValue(forKey: cursor)?.waiters
        #expect(driver.cancel(cursor) == waiters, "seed \(seed)")
        driver.backlog.remove(cursor, garbage: &driver.garbage)
      }
      driver.trim()
      #expect(driver.backlog.cursors.subscriberCount == naive.subscribers.count, "seed \(seed)")
      if state.isMultiple(of: 8) { #expect(driver.kept == naive.readable, "seed \(seed)") }
    }
    _ = driver.backlog.cursors.finish()
    for (cursor, subscriber) in naive.subscribers {
      #expect(driver.takeAll(cursor) == subscriber.buffer, "seed \(seed)")
      #expect(driver.hasEnded(cursor))
    }
    #expect(driver.backlog.kept.count == 0)
  }

  @Test(arguments: 0..<30)
  func `in random runs with any limits, exactly the readable states are stored`(round: Int) {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededGenerator(seed: seed)
    let driver = BacklogDriver()
    var naive = Naive()
    // The limits range from many different ones to a few frequent ones, and the subscribers from mostly reading to
    // mostly stalled.
    let limits = (0..<[2, 5, 40][round % 3]).map { _ in
      [Int32.random(in: 1...4, using: &random), Int32.random(in: 1...100, using: &random), .max].randomElement(
        using: &random)
        ?? 1
    }
    let publications = [3, 6, 12].randomElement(using: &random) ?? 3
    for state in 1...1000 {
      let cursor = naive.subscribers.keys.sorted().randomElement(using: &random)
      switch Int.random(in: 0..<8 + publications, using: &random) {
      case 0 where naive.subscribers.count < 30:
        let limit = limits.randomElement(using: &random) ?? 1
        let policy: Policy =
          switch Int.random(in: 0..<20, using: &random) {
          case 0: .unbounded
          case 1: .oldest(limit)
          default: .newest(limit)
          }
        let first = Bool.random(using: &random) ? state : nil
        let new = driver.subscribe(policy, first: first)
        naive.subscribers[new] = Naive.Subscriber(policy: policy, buffer: first.map { [$0] } ?? [])
      case 1:
        // Reads until nothing is left, and may then wait for more.
        guard let cursor, let buffer = naive.subscribers[cursor]?.buffer else { continue }
        #expect(driver.takeAll(cursor) == buffer, "seed \(seed)")
        naive.subscribers[cursor]?.buffer = []
        if Bool.random(using: &random) {
          #expect(driver.park(cursor, state), "seed \(seed)")
          naive.subscribers[cursor]?.waiters.append(state)
        }
      case 2..<6:
        guard let cursor, let buffer = naive.subscribers[cursor]?.buffer else { continue }
        let taken =
          Bool.random(using: &random) ? driver.takeAhead(cursor, limit: 31) : driver.take(cursor).map { [$0] } ?? []
        #expect(taken == Array(buffer.prefix(taken.count)), "seed \(seed)")
        #expect(taken.isEmpty == buffer.isEmpty, "seed \(seed)")
        naive.subscribers[cursor]?.buffer.removeFirst(taken.count)
      case 6 where Bool.random(using: &random):
        guard let cursor, let waiters = naive.subscribers.removeValue(forKey: cursor)?.waiters else { continue }
        #expect(driver.cancel(cursor) == waiters, "seed \(seed)")
        driver.trim()
        #expect(driver.kept == naive.readable, "seed \(seed)")
        driver.backlog.remove(cursor, garbage: &driver.garbage)
      default:
        let woken = driver.publish(state)
        let expected = naive.subscribers.keys.sorted().compactMap { naive.subscribers[$0]?.receive(state) }
        #expect(woken.sorted() == expected.sorted(), "seed \(seed)")
      }
      driver.trim()
      if state.isMultiple(of: 8) { #expect(driver.kept == naive.readable, "seed \(seed)") }
    }
    _ = driver.backlog.cursors.finish()
    for (cursor, subscriber) in naive.subscribers {
      #expect(driver.takeAll(cursor) == subscriber.buffer, "seed \(seed)")
      #expect(driver.hasEnded(cursor))
    }
    #expect(driver.kept.isEmpty)
  }
}
