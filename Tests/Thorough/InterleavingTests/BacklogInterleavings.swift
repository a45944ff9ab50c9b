import PureduxTestSupport
import Testing

@testable import Puredux

private final class Census {
  var alive = 0
}

private final class State: Hashable, CustomStringConvertible {
  let number: Int
  private let census: Census

  init(_ number: Int, _ census: Census) {
    self.number = number
    self.census = census
    census.alive += 1
  }

  deinit { census.alive -= 1 }

  var description: String { "\(number)" }
  static func == (left: State, right: State) -> Bool { left.number == right.number }
  func hash(into hasher: inout Hasher) { hasher.combine(number) }
}

/// The backlog, with the steps that `Channel`, `Source` and `Subscriber` take around it.
private struct BacklogSystem: Interleaved {
  typealias Machine = Backlog
  typealias Policy = Puredux.Buffering

  /// A waiting consumer, and how many states it still reads before it releases the sequence.
  struct Consumer: Hashable {
    let wait: Wait
    let reading: Int
    let left: Int
  }

  /// A subscription, and the calls made on it.
  struct Plan {
    var policy: Policy
    /// How many states each consumer reads before it releases the sequence.
    var consumers = [Int.max]
    var isCancelled = false
    var hasFirst = true
    /// If set, subscribed before all else, with so many unread states.
    var behind: Int?
  }

  struct Subscriber: Hashable {
    var cursor = 0
    var holders: Int
    var ahead: [State] = []
    // The states that the subscriber must receive, computed without sharing.
    var buffer: [Int] = []
    var waiting: [Consumer] = []
    var isLive = false
    var isOver = false
    var last: Int?
  }

  indirect enum Step: AtomicStep {
    // Source.activate; Channel.publish in two steps: enter and handOver
    case activate(Int)
    case publish(left: Int)
    case handOver(State, [Consumer], then: Next<Step>)
    // Tree.close; AnyChannel.finish in its turn
    case close
    case finish
    case tell([Consumer], then: Next<Step>)
    // Subscriber.init(subscribedTo:)
    case subscribe(Int)
    case order(Int)
    case refuse(Int)
    // Subscriber.next
    case take(Int, left: Int)
    case keepAhead([State], Int, left: Int)
    case takeOrWait(Int, left: Int)
    // Subscriber.cancel, and the end of a subscriber
    case cancel(Int)
    case clearAhead(Int)
    case letGo(Int)
    case trim(then: Next<Step>)

    var place: StepPlace {
      switch self {
      case .publish, .activate, .finish: .entersExecutor
      case .handOver: .onExecutor
      default: .anywhere
      }
    }
  }

  enum Mistake {
    case handOverForgetsOne
    case cancelForgetsToTell
    case finishOvertakesActivations
    case aheadIsKeptInAStepOfItsOwn
    case refusedIsNotRemoved
  }

  struct Record: Hashable {
    var current = 0
    var isClosed = false
    var isFinished = false
    var activationsAwaited = 0
    var readings: [Subscriber] = []
    /// The waiting consumers, by participant: no participant waits twice.
    var consumers: [UInt: Consumer] = [:]
  }

  var printed = Printed(Machine())
  var record = Record()
  var crowd = Crowd<Step>()
  let plans: [Plan]
  let mistake: Mistake?
  let census = Census()

  init(_ plans: [Plan], publications: Int, mistake: Mistake? = nil) {
    self.plans = plans
    self.mistake = mistake
    for (id, plan) in plans.enumerated() {
      record.readings.append(Subscriber(holders: plan.consumers.count + (plan.isCancelled ? 1 : 0)))
      guard let behind = plan.behind else {
        crowd.join("subscriber \(id)", .step(.subscribe(id)))
        continue
      }
      record.readings[id].cursor = machine.subscribe(plan.policy)
      _ = machine.activate(record.readings[id].cursor, first: State(record.current, census))
      _ = activated(id)
      for _ in 0..<behind { _ = publish() }
      _ = joinHolders(of: id, isFirstHere: false)
    }
    crowd.join("publisher", .step(.publish(left: publications)))
  }

  func isReady(_ step: Step) -> Bool {
    if case .finish = step { record.activationsAwaited == 0 || mistake == .finishOvertakesActivations } else { true }
  }

  mutating func perform(_ step: Step, by me: Int) throws(Violation) -> Next<Step> {
    var garbage = Machine.Garbage()
    switch step {
    case .activate(let id):
      record.activationsAwaited -= 1
      let first = plans[id].hasFirst ? State(record.current, census) : nil
      let served = consumer(machine.activate(record.readings[id].cursor, first: first))
      guard served == activated(id) else { throw Violation("the first state goes to the wrong consumer") }
      return first.flatMap { first in served.map { .step(.handOver(first, [$0], then: .end)) } } ?? .end
    case .publish(0): return .step(.close)
    case .publish(let left):
      let (state, woken, expected) = publish()
      guard Set(woken) == Set(expected), woken.count == expected.count else { throw Violation("others are woken") }
      let served = mistake == .handOverForgetsOne ? Array(woken.dropFirst()) : woken
      return handOver(state, served, then: .step(.publish(left: left - 1)))
    case .handOver(let state, let consumers, let then):
      let consumer = consumers[0]
      try crowd.resume(consumer.wait, with: next(of: consumer.reading, left: consumer.left))
      return handOver(state, Array(consumers.dropFirst()), then: then)

    case .close:
      record.isClosed = true
      return .step(.finish)
    case .finish:
      record.isFinished = true
      let waiters = machine.cursors.finish().compactMap { consumer($0) }
      let expected = record.readings.flatMap(\.waiting)
      guard Set(waiters) == Set(expected), waiters.count == expected.count else { throw Violation("others are ended") }
      for id in plans.indices { record.readings[id].waiting = [] }
      return tell(waiters, then: .end)
    case .tell(let consumers, let then):
      try crowd.resume(consumers[0].wait, with: .step(.letGo(consumers[0].reading)))
      return tell(Array(consumers.dropFirst()), then: then)

    case .subscribe(let id):
      record.readings[id].cursor = machine.subscribe(plans[id].policy)
      return .step(.order(id))
    case .order(let id):
      if record.isClosed { return .step(.refuse(id)) }
      record.activationsAwaited += 1
      crowd.join("activation", .step(.activate(id)))
      return joinHolders(of: id, isFirstHere: true)
    case .refuse(let id):
      machine.refuse(record.readings[id].cursor, garbage: &garbage)
      record.readings[id].isOver = true
      return joinHolders(of: id, isFirstHere: true)

    case .take(let id, let left):
      var ahead: [State] = []
      let taken = try ask(id) { backlog, cursor in
        var taken = StatesAhead()
        defer { ahead = Array(sequence(state: 0) { _ in taken.popFirst() }).reversed() }
        return backlog.takeAhead(cursor, limit: 31, into: &taken, garbage: &garbage)
      }
      if mistake == .aheadIsKeptInAStepOfItsOwn, !ahead.isEmpty { return .step(.keepAhead(ahead, id, left: left)) }
      record.readings[id].ahead += ahead
      return switch taken {
      case .state: trimmed(then: next(of: id, left: left))
      case .end: trimmed(then: .step(.letGo(id)))
      case .nothing: trimmed(then: .step(.takeOrWait(id, left: left)))
      }
    case .keepAhead(let states, let id, let left):
      record.readings[id].ahead = states
      return next(of: id, left: left)
    case .takeOrWait(let id, let left):
      let consumer = Consumer(wait: crowd.makeWait(of: me), reading: id, left: left)
      let waiter = AnyWaiter(bits: UInt(me))
      record.consumers[waiter.bits] = consumer
      switch try ask(id, { backlog, cursor in backlog.takeOrWait(cursor, waiter, garbage: &garbage) }) {
      case .state: return trimmed(then: next(of: id, left: left))
      case .end: return trimmed(then: .step(.letGo(id)))
      case .nothing:
        record.readings[id].waiting.append(consumer)
        return .wait
      }

    case .cancel(let id):
      let waiters = machine.cancel(record.readings[id].cursor, garbage: &garbage).compactMap { consumer($0) }
      guard waiters == record.readings[id].waiting else { throw Violation("others are ended") }
      end(id)
      let told = mistake == .cancelForgetsToTell ? [] : Array(waiters)
      return trimmed(then: tell(told, then: .step(.clearAhead(id))))
    case .clearAhead(let id):
      record.readings[id].ahead = []
      end(id)
      return .step(.letGo(id))
    case .letGo(let id):
      record.readings[id].holders -= 1
      guard record.readings[id].holders == 0 else { return .end }
      if mistake == .refusedIsNotRemoved, !record.readings[id].isLive { return .end }
      machine.remove(record.readings[id].cursor, garbage: &garbage)
      record.readings[id].ahead = []
      end(id)
      return trimmed(then: .end)
    case .trim(let then):
      machine.trim(into: &garbage)
      return trimmed(then: then)
    }
  }

  private func consumer(_ waiter: AnyWaiter?) -> Consumer? { waiter.flatMap { record.consumers[$0.bits] } }

  private func next(of id: Int, left: Int) -> Next<Step> {
    left > 1 ? .step(.take(id, left: left - 1)) : .step(.letGo(id))
  }

  private func handOver(_ state: State, _ consumers: [Consumer], then: Next<Step>) -> Next<Step> {
    consumers.isEmpty ? then : .step(.handOver(state, consumers, then: then))
  }

  private func tell(_ consumers: [Consumer], then: Next<Step>) -> Next<Step> {
    consumers.isEmpty ? then : .step(.tell(consumers, then: then))
  }

  private func trimmed(then: Next<Step>) -> Next<Step> { machine.cursors.needsTrim ? .step(.trim(then: then)) : then }

  /// Adds all holders of a subscription. Returns the first step of the subscriber itself.
  private mutating func joinHolders(of id: Int, isFirstHere: Bool) -> Next<Step> {
    let steps = plans[id].consumers.map { $0 == 0 ? Step.letGo(id) : .take(id, left: $0) }
    for step in steps.dropFirst(isFirstHere ? 1 : 0) { crowd.join("consumer of \(id)", .step(step)) }
    if plans[id].isCancelled { crowd.join("canceller of \(id)", .step(.cancel(id))) }
    return .step(steps[0])
  }

  /// `Subscriber.takeAhead`.
  private mutating func ask(
    _ id: Int, _ ask: (inout Machine, _ cursor: Int) -> Backlog.Taken<State>
  ) throws(Violation) -> Backlog.Taken<State> {
    let own = record.readings[id].ahead.popLast()
    let taken = own.map { .state($0) } ?? ask(&machine, record.readings[id].cursor)
    let reading = record.readings[id]
    let hasEnded = reading.isOver || (reading.isLive && record.isFinished)
    switch taken {
    case .state(let state):
      guard reading.buffer.first == state.number else { throw Violation("the wrong state is read") }
      record.readings[id].buffer.removeFirst()
      record.readings[id].last = state.number
    case .end:
      guard reading.buffer.isEmpty, hasEnded else { throw Violation("ended too early") }
      record.readings[id].isOver = true
    case .nothing:
      guard reading.buffer.isEmpty, !hasEnded else { throw Violation("a readable state is not returned") }
    }
    return taken
  }

  // MARK: Expectations

  private mutating func activated(_ id: Int) -> Consumer? {
    guard !record.readings[id].isOver else { return nil }
    record.readings[id].isLive = true
    return plans[id].hasFirst ? receive(id) : nil
  }

  private mutating func publish() -> (State, woken: [Consumer], expected: [Consumer]) {
    record.current += 1
    let state = State(record.current, census)
    var woken: ContiguousArray<Cursors.Parked> = []
    var garbage = Machine.Garbage()
    _ = machine.publish(state, waking: &woken, garbage: &garbage)
    let live = record.readings.indices.filter { record.readings[$0].isLive && !record.readings[$0].isOver }
    return (state, woken.compactMap { consumer($0.waiter) }, live.compactMap { receive($0) })
  }

  private mutating func receive(_ id: Int) -> Consumer? {
    guard record.readings[id].waiting.isEmpty else {
      record.readings[id].last = record.current
      return record.readings[id].waiting.removeFirst()
    }
    let buffer = record.readings[id].buffer + [record.current]
    switch plans[id].policy {
    case .unbounded: record.readings[id].buffer = buffer
    case .newest(let limit): record.readings[id].buffer = Array(buffer.suffix(Int(limit)))
    case .oldest(let limit): record.readings[id].buffer = Array(buffer.prefix(Int(limit)))
    }
    return nil
  }

  /// States taken ahead can be read until they are cleared.
  private mutating func end(_ id: Int) {
    record.readings[id].isOver = true
    record.readings[id].waiting = []
    record.readings[id].buffer = record.readings[id].ahead.reversed().map(\.number)
  }

  func checkEnd() throws(Violation) {
    guard census.alive == 0, machine.kept.count == 0 else { throw Violation("\(census.alive) states are kept") }
    for (reading, plan) in zip(record.readings, plans) where plan.consumers == [.max] && !plan.isCancelled {
      if case .oldest = plan.policy { continue }
      guard !reading.isLive || !plan.hasFirst || reading.last == record.current else {
        throw Violation("the last state is not read")
      }
    }
    var backlog = machine
    let free = Set(plans.map { _ in backlog.subscribe(.unbounded) })
    guard machine.cursors.subscriberCount == 0, free == Set(plans.indices) else {
      throw Violation("a cursor is not given back")
    }
  }
}

@Suite(.timeLimit(.minutes(15))) struct BacklogInterleavings {
  private static let policies: [BacklogSystem.Policy] = [.unbounded, .newest(1), .newest(2), .oldest(1)]

  @Test(arguments: policies)
  fileprivate func `a subscription activated at any time gets the states that its policy keeps`(
    policy: BacklogSystem.Policy
  ) async {
    await explore { BacklogSystem([.init(policy: policy)], publications: 2) }.expectNoFailure(atLeast: 1_000)
    await explore { BacklogSystem([.init(policy: policy, hasFirst: false)], publications: 1) }.expectNoFailure(
      atLeast: 100)
    await explore { BacklogSystem([.init(policy: policy, consumers: [1])], publications: 1) }.expectNoFailure(
      atLeast: 100)
  }

  @Test(arguments: policies)
  fileprivate func `consumers of one sequence share its elements and its cancellation`(
    policy: BacklogSystem.Policy
  ) async {
    await explore { BacklogSystem([.init(policy: policy, consumers: [.max, .max], behind: 0)], publications: 1) }
      .expectNoFailure(atLeast: 1_000)
    await explore { BacklogSystem([.init(policy: policy, isCancelled: true, behind: 1)], publications: 1) }
      .expectNoFailure(atLeast: 100)
  }

  @Test func `a sequence is cancelled at any time`() async {
    await explore { BacklogSystem([.init(policy: .unbounded, isCancelled: true)], publications: 1) }
      .expectNoFailure(atLeast: 50_000)
  }

  @Test(arguments: policies)
  fileprivate func `subscribers do not stand in each other's way`(policy: BacklogSystem.Policy) async {
    let plans: [BacklogSystem.Plan] = [
      .init(policy: policy, behind: 0), .init(policy: .unbounded, consumers: [1], behind: 1),
    ]
    await explore { BacklogSystem(plans, publications: 2) }.expectNoFailure(atLeast: 1_000)
  }

  @Test func `states taken ahead are shared in order, and released with the sequence`() async {
    await explore { BacklogSystem([.init(policy: .unbounded, consumers: [4, 3], behind: 6)], publications: 1) }
      .expectNoFailure(atLeast: 1_000)
    await explore {
      BacklogSystem([.init(policy: .unbounded, consumers: [3], isCancelled: true, behind: 6)], publications: 1)
    }.expectNoFailure(atLeast: 1_000)
  }

  @Test func `a large backlog is released in small steps while others read`() async {
    await explore {
      BacklogSystem(
        [.init(policy: .unbounded, consumers: [0], behind: 66), .init(policy: .unbounded, consumers: [2], behind: 0)],
        publications: 1)
    }.expectNoFailure(atLeast: 50)
  }

  @Test(
    arguments: [
      (.handOverForgetsOne, "subscriber 0: waits for ever"),
      (.cancelForgetsToTell, "subscriber 0: waits for ever"),
      (.finishOvertakesActivations, "others are ended"),
      (.refusedIsNotRemoved, "a cursor is not given back"),
    ] as [(BacklogSystem.Mistake, String)])
  fileprivate func `a mistake is found`(mistake: BacklogSystem.Mistake, reason: String) async {
    let plan = BacklogSystem.Plan(policy: .unbounded, isCancelled: mistake == .cancelForgetsToTell)
    let exploration = await explore { BacklogSystem([plan], publications: 1, mistake: mistake) }
    #expect(exploration.failures.keys.contains(reason))
  }

  @Test func `two consumers that take ahead at the same time are detected`() async {
    let plan = BacklogSystem.Plan(policy: .unbounded, consumers: [2, 2], behind: 6)
    let exploration = await explore { BacklogSystem([plan], publications: 1, mistake: .aheadIsKeptInAStepOfItsOwn) }
    #expect(exploration.failures.keys.contains("the wrong state is read"))
  }
}
