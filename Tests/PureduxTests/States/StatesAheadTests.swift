import PureduxTestSupport
import Testing

@testable import Puredux

/// The states that a consumer takes ahead: each is stored once and released once.
@Suite struct StatesAheadTests {
  private final class Tally: Sendable {
    let living = LockedValue(0)
  }

  private final class State: Sendable {
    let number: Int
    let tally: Tally

    init(_ number: Int, _ tally: Tally) {
      self.number = number
      self.tally = tally
      tally.living.withLock { $0 += 1 }
    }

    deinit { tally.living.withLock { $0 -= 1 } }
  }

  private func numbers(_ ahead: inout StatesAhead, _ count: Int = .max) -> [Int] {
    var numbers: [Int] = []
    while numbers.count < count, let state: State = ahead.popFirst() { numbers.append(state.number) }
    return numbers
  }

  private func fill(_ ahead: inout StatesAhead, with numbers: Range<Int>, _ tally: Tally) {
    ahead.fill(of: State.self) { $0 += numbers.map { State($0, tally) } }
  }

  @Test func `it is filled and read repeatedly, and released half read`() {
    let tally = Tally()
    var ahead = StatesAhead()
    #expect(numbers(&ahead) == [])
    for round in 0..<3 {
      fill(&ahead, with: round..<round + 31, tally)
      #expect(numbers(&ahead) == Array(round..<round + 31))
      #expect(tally.living.withLock { $0 } == 0)
    }
    fill(&ahead, with: 0..<5, tally)
    #expect(numbers(&ahead, 2) == [0, 1])
    #expect(tally.living.withLock { $0 } == 3)
    ahead = StatesAhead()
    #expect(tally.living.withLock { $0 } == 0)
    fill(&ahead, with: 7..<8, tally)
    #expect(numbers(&ahead) == [7])
  }

  /// A segment has room for 256 states.
  @Test(arguments: [0, 1, 31, 32, 33, 200, 255, 300]) func `states are taken and copied across segments`(dropped: Int) {
    let tally = Tally()
    do {
      var queue = StateQueue()
      for number in 0..<1_000 { queue.append(State(number, tally)) }
      for _ in 0..<dropped { _ = queue.popFirst(as: State.self) }
      for offset in [0, 1, 20, 240, 256, 500] {
        var ahead = StatesAhead()
        ahead.fill(of: State.self) { queue.take(0, copying: 31, from: offset, into: &$0) }
        #expect(numbers(&ahead, 20) == Array(dropped + offset..<dropped + offset + 20))
      }
      var ahead = StatesAhead()
      ahead.fill(of: State.self) { queue.take(10, copying: 5, from: 2, into: &$0) }
      #expect(numbers(&ahead) == Array(dropped..<dropped + 10) + Array(dropped + 12..<dropped + 17))
      #expect(tally.living.withLock { $0 } == 1_000 - dropped - 10)
    }
    #expect(tally.living.withLock { $0 } == 0)
  }

  /// A state whose release calls the same sequence, as a user's state may.
  private final class Asking: Sendable {
    let ask: @Sendable () -> Void

    init(_ ask: @escaping @Sendable () -> Void) { self.ask = ask }

    deinit { ask() }
  }

  @Test func `states taken ahead are released outside the lock of the sequence`() async throws {
    let subscribers = Record<Subscriber>()
    let released = Counter()
    let make: @Sendable () -> Asking = {
      Asking {
        released.increment()
        for subscriber in subscribers.all {
          let taken: Backlog.Taken<Asking> = subscriber.take()
          if case .nothing = taken { Issue.record("the sequence goes on") }
          subscriber.cancel()
        }
      }
    }
    let root = RootStore<Asking, Int>(initialState: make()) { state, _ in state = make() }
    let states = root.states() as StateSequence
    for number in 0..<20 { try await root.send(number) }
    do {
      var iterator = states.makeAsyncIterator()
      _ = await iterator.next()
      _ = await iterator.next()
    }
    subscribers.add(states.subscriber)
    states.subscriber.cancel()
    #expect(released.count >= 19)
    await root.shutdown()
  }

  /// States that only one subscriber still needs are moved, and the others are copied.
  @Test func `states ahead through a store, with a fast and a stalled subscriber`() async throws {
    let tally = Tally()
    let root = RootStore<State, Int>(initialState: State(0, tally)) { $0 = State($1, tally) }
    var sequences = (0..<3).map { _ in root.states() as StateSequence }
    for number in 1...100 { try await root.send(number) }
    #expect(tally.living.withLock { $0 } == 101)
    #expect(await sequences[0].collect(101).map(\.number) == Array(0...100))
    #expect(await sequences[1].collect(50).map(\.number) == Array(0..<50))
    sequences.removeLast()
    #expect(await sequences[1].collect(20).map(\.number) == Array(50..<70))
    sequences = []
    _ = await root.state
    #expect(tally.living.withLock { $0 } == 1)
    await root.shutdown()
  }
}
