#if PostgreSQL
  import Puredux
  import PureduxLog

  /// What one reader of a tree knows: whether there may be more than it has, and what it need not ask for, as it was
  /// appended here. A state machine under a lock.
  final class Feed: Sendable {
    enum Step: Equatable {
      case records([LogRecord])
      case read(after: UInt64)
      case wait
    }

    private struct State: Sendable {
      /// Up to where all has been handed out, or is ready.
      var position: UInt64
      var ready: [LogRecord] = []
      var readyBytes = 0
      /// Whether there may be more, and whether that is being read.
      var isBehind = true
      var isReading = false
    }

    /// How many bytes are kept ready at most.
    static let limit = 1 << 20

    let knowledge: Knowledge
    let arrivals = Arrivals()
    private let state: LockedValue<State>

    init(after position: UInt64, of knowledge: Knowledge) {
      self.knowledge = knowledge
      state = LockedValue(State(position: position))
    }

    /// What is to be done next. After `read` one of the next two is called.
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

    /// That much has been read, and is handed out; whether there is more behind it.
    func read(through position: UInt64?, hasMore: Bool) {
      state.withLock { state in
        state.isReading = false
        state.position = position ?? state.position
        if hasMore { state.isBehind = true }
      }
    }

    /// Reading has failed.
    func failed() {
      state.withLock { state in
        state.isReading = false
        state.isBehind = true
      }
    }

    /// There may be more.
    func wake() {
      state.withLock { $0.isBehind = true }
      arrivals.notify()
    }

    /// Entries have been appended here, to the tree of a number, behind a position, and are in the log.
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

    /// The tree of a number ends there: one that ends before what was handed out is looked at, too, and so is one that
    /// has taken the place of this one's.
    ///
    /// - Returns: Whether there is more than was known.
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
