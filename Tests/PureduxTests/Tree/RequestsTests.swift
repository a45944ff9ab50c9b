import Testing

@testable import Puredux

/// What waits in segments, without concurrency, beside one array.
struct RequestsTests {
  private typealias Large = [64 of Int]

  private final class Numbered: Command, @unchecked Sendable {
    let number: Int
    init(_ number: Int) {
      self.number = number
      super.init()
    }
  }

  @Test(arguments: 1...20) func `what is taken is what was added, in order, however it is cut`(seed: UInt64) {
    var random = SeededGenerator(seed: seed)
    let root = RootStore<Int, Large>(initialState: 0) { _, _ in }
    let stores = [root.core.node, root.childStore(initialState: 0) { _, _ in }.core.node]
    var requests = Requests<Large>()
    var batch = Requests<Large>.Batch()
    var (added, taken, mostSegments) = (0, 0, 0)
    // Which of the numbers are commands, and of which store the others are.
    var kinds: [Int] = []

    func take() {
      let isMore = requests.take(into: &batch)
      #expect(isMore == (requests.count > 0))
      for entry in batch.entries {
        switch entry {
        case .commit(from: let place, let action):
          #expect(kinds[taken] > 0 && action[0] == taken)
          let node: StoreNode<Large> = batch.referents.node(at: place)
          #expect(node === stores[kinds[taken] - 1])
        case .command(let place):
          #expect(kinds[taken] == 0 && (batch.referents.objects[Int(place)] as? Numbered)?.number == taken)
        }
        taken += 1
      }
      batch.removeAll()
    }

    while added < 40_000 {
      // A flood, and then some of it.
      let isSteady = Int.random(in: 0..<3, using: &random) > 0
      for _ in 0..<Int.random(in: 0..<(isSteady ? 300 : 6_000), using: &random) {
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
}
