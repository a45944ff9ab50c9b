import Foundation
import Output
import Puredux
import Synchronization

/// The cost of `dispatch` while producers and the tree run on separate threads, compared with a hand-written mailbox: a
/// `Mutex` around an array that a consumer swaps out.
@main
struct BothThreads {
  struct Board: Sendable {
    var count = 0
    var items: [Int] = []
  }

  enum Action: Sendable {
    case add(Int)
    case set(Int, Int)
  }

  @Sendable static func reduce(_ board: inout Board, _ action: Action) {
    switch action {
    case .add(let number): board.count &+= number
    case .set(let index, let value): board.items[index] = value
    }
  }

  final class Mailbox: Sendable {
    private struct Contents {
      var waiting: [Action] = []
      var isDraining = false
    }

    private let contents = Mutex(Contents())
    private let board = Mutex(Board())

    func dispatch(_ action: Action) {
      let isFirst = contents.withLock { contents in
        contents.waiting.append(action)
        defer { contents.isDraining = true }
        return !contents.isDraining
      }
      if isFirst { Task.detached { self.drain() } }
    }

    private func drain() {
      var batch: [Action] = []
      while true {
        let isOver = contents.withLock { contents in
          contents.isDraining = !contents.waiting.isEmpty
          swap(&contents.waiting, &batch)
          return !contents.isDraining
        }
        if isOver { return }
        board.withLock { board in
          for action in batch { BothThreads.reduce(&board, action) }
        }
        batch.removeAll(keepingCapacity: true)
      }
    }

    /// Returns when the count is reached.
    func wait(for count: Int) async {
      while board.withLock({ $0.count }) < count { await Task.yield() }
    }
  }

  static let actions = 400_000

  static func time(_ body: @Sendable () async throws -> Void) async rethrows -> Double {
    let clock = ContinuousClock()
    let began = clock.now
    try await body()
    let taken = clock.now - began
    return (Double(taken.components.seconds) * 1e9 + Double(taken.components.attoseconds) / 1e9) / Double(actions)
  }

  static func produce(_ producers: Int, _ dispatch: @escaping @Sendable (Action) -> Void) async {
    await withTaskGroup { tasks in
      for _ in 0..<producers {
        tasks.addTask { for _ in 0..<actions / producers { dispatch(.add(1)) } }
      }
    }
  }

  static func main() async throws {
    Output.prepare()
    print("| what | ours | by hand | ratio | lowest to highest |")
    print("|---|---|---|---|---|")
    for producers in [1, 8] {
      var (ours, theirs, ratios): ([Double], [Double], [Double]) = ([], [], [])
      for round in 0..<32 {
        let root = RootStore<Board, Action>(initialState: Board(), reducer: reduce)
        let store = root.store()
        let our = try await time {
          await produce(producers) { store.dispatch($0) }
          try await store.send(.add(0))
        }
        let mailbox = Mailbox()
        let their = await time {
          await produce(producers) { mailbox.dispatch($0) }
          await mailbox.wait(for: actions)
        }
        // The first round is a warm-up.
        if round == 0 { continue }
        ours.append(our)
        theirs.append(their)
        ratios.append(our / their)
      }
      print(
        "| dispatch, \(producers) producer\(producers > 1 ? "s" : "") | \(ours.summary) ns | \(theirs.summary) ns | "
          + "\(ratios.median.hundredths) | \(ratios.min()!.hundredths) to \(ratios.max()!.hundredths) |")
    }
  }
}

extension [Double] {
  var median: Double { sorted()[count / 2] }
  var summary: String { "\(Int(median)) (\(Int(self.min()!)) to \(Int(self.max()!)))" }
}

extension Double {
  var hundredths: String { "\((self * 100).rounded() / 100)" }
}
