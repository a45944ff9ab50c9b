import AsyncAlgorithms
import Dispatch
import Puredux
import Synchronization

/// The state of all lines.
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

actor Plain {
  private var board = Board()
  func send(_ action: Action) { reduce(&board, action) }
}

/// A hand-written actor with a continuation for each subscriber.
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

/// A store on a serial dispatch queue that calls its observers.
final class QueueStore: @unchecked Sendable {
  enum Status {
    case active
    case dead
  }

  private let queue = DispatchQueue(label: "store")
  private var board = Board()
  private var observers: [@Sendable (Board) -> Void] = []
  private var completingObservers: [@Sendable (Board, @escaping @Sendable (Status) -> Void) -> Void] = []

  func observe(_ observer: @escaping @Sendable (Board) -> Void) {
    queue.sync { observers.append(observer) }
  }

  /// Adds an observer that reports its status through a handler, like an observer of Puredux. The handler may be called
  /// later, and from anywhere.
  func observe(_ observer: @escaping @Sendable (Board, @escaping @Sendable (Status) -> Void) -> Void) {
    queue.sync { completingObservers.append(observer) }
  }

  func dispatch(_ action: Action) {
    queue.async {
      reduce(&self.board, action)
      for observer in self.observers { observer(self.board) }
      for (index, observer) in self.completingObservers.enumerated() {
        observer(self.board) { [weak self] status in
          guard status == .dead, let store = self else { return }
          store.queue.async { store.completingObservers.remove(at: index) }
        }
      }
    }
  }

  func wait() { queue.sync {} }
}
