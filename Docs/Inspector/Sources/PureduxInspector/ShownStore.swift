import Puredux
import Synchronization

final class ShownStore: Sendable {
  /// The state at the last read.
  struct Sample: Sendable {
    let text: StateText
    /// The difference to the previous read.
    let comparison: StateText.Comparison
    /// The positions of the last commit before and after the read. They are equal if the tree was idle.
    let positions: ClosedRange<Int>
  }

  struct PastCommit: Sendable {
    /// The state before the commit, or after one of its reducers.
    struct Step: Sendable {
      /// Nil for the state before the commit.
      let reducer: String?
      let text: StateText
      /// The difference to the previous step.
      let comparison: StateText.Comparison
    }

    let position: Int
    let action: String
    let store: StoreID
    let steps: [Step]
  }

  /// The number of commits of a history on the page.
  static let pastLimit = 1_000

  private static let lastNumber = Atomic(0)

  /// Unique in the process.
  let number = lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
  let store: StoreID
  private let sample = LastRead<Sample>()
  private let end = Mutex(false)
  /// Returns the state as text. Throws if the store has ended.
  private let describe: @Sendable () async throws -> StateText
  /// The positions of the last commits in the history; nil without a history.
  private let pastPositions: (@Sendable () -> [Int])?
  private let pastCommit: @Sendable (Int) -> PastCommit?

  /// - Parameters:
  ///   - store: A proxy, which does not keep the store alive.
  ///   - limit: The maximum length of a text, in bytes.
  init<State: Sendable, Action: Sendable>(
    _ store: Store<State, Action>, history: History<State, Action>?, limit: Int,
    redacting: @escaping @Sendable (inout State) -> Void
  ) {
    self.store = store.id
    @Sendable func text(of state: State) -> StateText {
      var state = state
      redacting(&state)
      return StateText(of: state, limit: limit)
    }
    describe = {
      do {
        return text(of: try await store.state)
      } catch StoreError.stateUnavailable {
        // An optional scope that is nil.
        return StateText(of: State?.none as Any, limit: limit)
      }
    }
    let past = history.map(WeakHistory.init)
    if let past {
      pastPositions = { past.entries.suffix(Self.pastLimit).map(\.position) }
    } else {
      pastPositions = nil
    }
    pastCommit = { (position: Int) -> PastCommit? in
      guard let entry = past?.entries.last(where: { $0.position == position }) else { return nil }
      var steps = [PastCommit.Step(reducer: nil, text: text(of: entry.stateBefore), comparison: .init())]
      for (index, step) in entry.steps.enumerated() {
        let text = text(of: step.state)
        steps.append(
          PastCommit.Step(
            reducer: (step.reducer ?? "reducer \(index + 1)").cut(to: 80), text: text,
            comparison: text.compared(with: steps[index].text)))
      }
      return PastCommit(
        position: entry.position, action: Inspector.name(of: entry.action).cut(to: 80), store: entry.store,
        steps: steps)
    }
  }

  var last: Sample? { sample.value }
  var silence: Duration? { sample.silence }
  var hasEnded: Bool { end.withLock { $0 } }
  var hasHistory: Bool { pastPositions != nil }
  var positions: [Int] { pastPositions?() ?? [] }

  func commit(at position: Int) -> PastCommit? { pastCommit(position) }

  /// Whether the state must be read: only if there has been a commit since the last read.
  func begin(at position: Int, ifOlderThan age: Duration) -> Bool {
    if hasEnded || sample.value.map({ $0.positions == position...position }) == true { return false }
    return sample.begin(ifOlderThan: age)
  }

  /// - Parameter position: Returns the position of the tree's last commit.
  func read(at position: () -> Int) async {
    let first = position()
    guard let text = try? await describe() else {
      end.withLock { $0 = true }
      return sample.end(nil)
    }
    let comparison = sample.value.map { text.compared(with: $0.text) } ?? .init()
    sample.end(Sample(text: text, comparison: comparison, positions: first...max(first, position())))
  }
}

private struct WeakHistory<State: Sendable, Action: Sendable>: Sendable {
  private weak let history: History<State, Action>?

  init(_ history: History<State, Action>) { self.history = history }

  var entries: [History<State, Action>.Entry] { history?.entries ?? [] }
}
