import PureduxLogTesting
import PureduxTestSupport
import Testing

@testable import Puredux

/// Compares the waiting requests in segments, without concurrency, with one array.
struct RequestsTests {
  private typealias Large = [64 of Int]

  private final class Numbered: Command, @unchecked Sendable {
    let number: Int
    init(_ number: Int) {
      self.number = number
      super.init()
    }
  }

  @Test(arguments: 1...20) func `requests are taken as they were added, in order, however they are split`(seed: UInt64)
  {
    var random = SeededGenerator(seed: seed)
    let root = RootStore<Int, Large>(initialState: 0) { _, _ in }
    let stores = [root.core.node, root.childStore(initialState: 0) { _, _ in }.core.node]
    var requests = Requests<Large>()
    var batch = Requests<Large>.Batch()
    var (added, taken, mostSegments) = (0, 0, 0)
    // The kind of each number: zero for a command, otherwise the action's store.
    var kinds: [Int] = []

    func take() {
      let start = taken
      let isMore = requests.take(into: &batch)
      #expect(isMore == (requests.count > 0))
      for (place, run) in batch.runs.all.enumerated() {
        #expect(batch.runs.commandCount(before: place) + Int(run.start) == taken - start)
        if run.isCommand {
          #expect(kinds[taken] == 0 && (run.object as? Numbered)?.number == taken)
          taken += 1
        } else {
          let node: StoreNode<Large> = unsafe batch.runs.node(at: place)
          for action in batch.actions[Int(run.start)..<batch.runs.end(of: place, in: batch.actions.count)] {
            #expect(kinds[taken] > 0 && action[0] == taken)
            #expect(node === stores[kinds[taken] - 1])
            taken += 1
          }
        }
      }
      #expect(batch.count == taken - start)
      batch.removeAll()
    }

    while added < 60_000 {
      // Adds a flood, or a few.
      let isSteady = Int.random(in: 0..<3, using: &random) > 0
      for _ in 0..<Int.random(in: 0..<(isSteady ? 300 : 12_000), using: &random) {
        let kind = Int.random(in: 0..<50, using: &random) == 0 ? 0 : added / 100 % 2 + 1
        kinds.append(kind)
        let schedules =
          kind == 0
          ? requests.append(Numbered(added))
          : requests.append(Large(repeating: added), from: stores[kind - 1])
        #expect(schedules == (added == 0))
        added += 1
      }
      mostSegments = max(mostSegments, requests.full.count)
      for _ in 0..<Int.random(in: 0..<4, using: &random) { take() }
      #expect(requests.count == added - taken)
    }
    while requests.count > 0 { take() }
    #expect(taken == added && mostSegments > 2)
    #expect(requests.full.capacity == 0)
  }

  @Test func `storage is reused, and a flood's storage is released when nothing waits`() {
    let node = RootStore<Int, Int>(initialState: 0) { _, _ in }.core.node
    var requests = Requests<Int>()
    var batch = Requests<Int>.Batch()
    batch.actions.reserveCapacity(100)
    var (schedules, isMore) = (requests.append(1, from: node), requests.take(into: &batch))
    #expect(schedules && !isMore)
    #expect(Array(batch.actions) == [1] && requests.waiting.actions.capacity >= 100)
    batch.removeAll()
    isMore = requests.take(into: &batch)
    #expect(!isMore && batch.isEmpty)
    requests.waiting.actions.reserveCapacity(Requests<Int>.greatestKept)
    schedules = requests.append(2, from: node)
    #expect(!schedules)
    guard case .again = requests.drainEnded(withRest: false, visitorExpected: false) else {
      Issue.record("not again")
      return
    }
    _ = requests.take(into: &batch)
    batch.removeAll()
    swap(&requests.waiting, &batch)
    #expect(requests.waiting.actions.capacity >= Requests<Int>.greatestKept)
    _ = requests.drainEnded(withRest: false, visitorExpected: false)
    #expect(requests.waiting.actions.capacity < Requests<Int>.greatestKept)
  }

  @Test func `consecutive actions of one store are one run, which a command ends`() {
    let root = RootStore<Int, Int>(initialState: 0) { _, _ in }
    let (node, other) = (root.core.node, root.childStore(initialState: 0) { _, _ in }.core.node)
    var requests = Requests<Int>()
    for number in 0..<3 { _ = requests.append(number, from: node) }
    _ = requests.append(Numbered(3))
    _ = requests.append(Numbered(4))
    for number in 5..<7 { _ = requests.append(number, from: node) }
    _ = requests.append(7, from: other)
    var batch = Requests<Int>.Batch()
    _ = requests.take(into: &batch)
    #expect(batch.runs.all.map(\.start) == [0, 3, 3, 3, 5])
    #expect(batch.runs.all.map(\.isCommand) == [false, true, true, false, false])
    #expect((0...5).map { batch.runs.commandCount(before: $0) } == [0, 0, 1, 2, 2, 2])
    #expect(batch.count == 8)
    // The store of the last run has been forgotten with the run.
    _ = requests.append(8, from: other)
    #expect(requests.waiting.runs.count == 1)
  }

  @Test func `a flood of commands, or of stores that take turns, is in segments, too`() {
    let root = RootStore<Int, Int>(initialState: 0) { _, _ in }
    let stores = [root.core.node, root.childStore(initialState: 0) { _, _ in }.core.node]
    for takesTurns in [false, true] {
      var requests = Requests<Int>()
      let count = Runs.greatestKept * 16
      for number in 0..<count {
        _ = takesTurns ? requests.append(number, from: stores[number % 2]) : requests.append(Numbered(number))
      }
      #expect(requests.full.count >= 2 && requests.count == count)
      var batch = Requests<Int>.Batch()
      var taken = 0
      while requests.take(into: &batch) || !batch.isEmpty {
        #expect(takesTurns ? batch.actions.first == taken : (batch.runs.all[0].object as? Numbered)?.number == taken)
        taken += batch.count
        batch.removeAll()
      }
      #expect(taken == count)
    }
  }
}
