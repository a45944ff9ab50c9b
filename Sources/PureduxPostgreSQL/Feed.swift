#if PostgreSQL
  import Puredux
  import PureduxLog

  /// One reader's view of a tree, with entries of this process that need no query.
  final class Feed: Sendable {
    enum Step: Equatable {
      case records([LogRecord])
      case read(after: UInt64)
      case wait
    }

    private struct State: Sendable {
      var position: UInt64
      var ready: [LogRecord] = []
      var readyBytes = 0
      var isBehind = true
      var isReading = false
    }

    /// In bytes.
    static let limit = 1 << 20

    let knowledge: Knowledge
    let arrivals = Arrivals()
    private let state: LockedValue<State>

    init(after position: UInt64, of knowledge: Knowledge) {
      self.knowledge = knowledge
      state = LockedValue(State(position: position))
    }

    /// After `.read`, call `read` or `failed`.
    func next() -> Step {
      state.withLock { state in
        if !state.ready.isEmpty {
          defer { (state.ready, state.readyBytes) = ([], 0) }
          return .records(state.ready)
        }
        guard state.isBehind else { return .wait }
        (state.isBehind, state.isReading) = (false, true)
        return .read(after: state.position)
      }
    }

    func read(through position: UInt64?, hasMore: Bool) {
      state.withLock { state in
        state.isReading = false
        state.position = position ?? state.position
        if hasMore { state.isBehind = true }
      }
    }

    func failed() {
      state.withLock { state in
        state.isReading = false
        state.isBehind = true
      }
    }

    func wake() {
      state.withLock { $0.isBehind = true }
      arrivals.notify()
    }

    func offer(_ entries: [[UInt8]], to id: Int64, behind base: UInt64) {
      guard knowledge.id == id else { return wake() }
      knowledge.saw(base + UInt64(entries.count))
      state.withLock { state in
        let bytes = entries.reduce(0) { $0 + $1.count + 64 }
        let end = base + UInt64(entries.count)
        guard !state.isReading, !state.isBehind, state.position == base, state.readyBytes + bytes <= Self.limit else {
          if end > state.position || state.isReading { state.isBehind = true }
          return
        }
        for (index, entry) in entries.enumerated() {
          state.ready.append(LogRecord(position: base + UInt64(index) + 1, bytes: entry))
        }
        state.readyBytes += bytes
        state.position = end
      }
      arrivals.notify()
    }

    /// The reader also checks an earlier head, and a tree that has replaced its own.
    ///
    /// - Returns: Whether the head is news to the reader.
    func found(head: UInt64, of id: Int64) -> Bool {
      guard knowledge.id == id else {
        wake()
        return false
      }
      let difference: (isOne: Bool, isNews: Bool) = state.withLock { state in
        guard head != state.position, !state.isBehind, !state.isReading else { return (false, false) }
        state.isBehind = true
        return (true, head > state.position)
      }
      if difference.isOne { arrivals.notify() }
      return difference.isNews
    }
  }
#endif
