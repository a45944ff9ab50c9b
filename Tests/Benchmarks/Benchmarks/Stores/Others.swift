import AsyncAlgorithms
import Dispatch
import Puredux
import Synchronization

/// The state and the actions of all lines.
struct Board: Sendable {
  var count = 0
  var items: [Int] = []
  var table: [Int: Int] = [:]
}

enum Action: Sendable {
  case add(Int)
  case set(Int, Int)
  case enter(Int, Int)
}

@Sendable func reduce(_ board: inout Board, _ action: Action) {
  switch action {
  case .add(let number): board.count &+= number
  case .set(let index, let value): board.items[index] = value
  case .enter(let key, let value): board.table[key] = value
  }
}

func makeRoot(_ board: Board = Board()) -> RootStore<Board, Action> {
  RootStore(initialState: board, reducer: reduce)
}

/// An actor with a method.
actor Plain {
  private var board = Board()
  func send(_ action: Action) { reduce(&board, action) }
}

/// An actor that keeps a continuation for each subscriber, as one writes it by hand.
actor HandWritten {
  private var board = Board()
  private var subscribers: [AsyncStream<Board>.Continuation] = []

  func states() -> AsyncStream<Board> {
    let (states, continuation) = AsyncStream<Board>.makeStream()
    subscribers.append(continuation)
    return states
  }

  func send(_ action: Action) {
    reduce(&board, action)
    for subscriber in subscribers { subscriber.yield(board) }
  }
}

/// A store on a serial dispatch queue, which calls its observers back.
final class QueueStore: @unchecked Sendable {
  private let queue = DispatchQueue(label: "store")
  private var board = Board()
  private var observers: [@Sendable (Board) -> Void] = []

  func observe(_ observer: @escaping @Sendable (Board) -> Void) {
    queue.sync { observers.append(observer) }
  }

  func dispatch(_ action: Action) {
    queue.async {
      reduce(&self.board, action)
      for observer in self.observers { observer(self.board) }
    }
  }

  func wait() { queue.sync {} }
}
