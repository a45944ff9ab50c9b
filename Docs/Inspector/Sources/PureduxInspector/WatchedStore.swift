import Puredux
import Synchronization

/// The data about a tree: recorded events and the last read values.
final class WatchedStore: Sendable {
  /// An action that was committed or rejected.
  struct Commit: Sendable {
    /// Unique in the tree.
    let sequence: Int
    let position: Int
    /// The number of commits that the action made; 0 if it was rejected.
    let count: Int
    let action: String
    let store: StoreID
    let time: WallTime
    let waited: Duration?
    let reduced: Duration?
    let rejection: String?
  }

  /// A running effect.
  struct Effect: Sendable {
    let number: Int
    let id: String?
    let store: StoreID
    let since: WallTime
    var attempts = 1
    var lastError: String?
  }

  /// A problem for operators: a failed effect, or a failure of the log.
  struct Trouble: Sendable {
    let sequence: Int
    let time: WallTime
    let text: String
  }

  /// The recorded events.
  struct Notes: Sendable {
    /// The position of the last commit.
    var position = 0
    var rejectionCount = 0
    var commits: Ring<Commit>
    var effects: [Int: Effect] = [:]
    var troubles = Ring<Trouble>(limit: 20)
    /// The start of the log's current phase.
    var phaseSince: WallTime?
    var replay: (positions: UInt64, taken: Duration)?
    var end: WallTime?
    fileprivate var sequence = 0

    fileprivate mutating func nextSequence() -> Int {
      sequence += 1
      return sequence
    }

    fileprivate mutating func add(trouble text: String) {
      troubles.append(Trouble(sequence: nextSequence(), time: .now, text: text))
    }
  }

  /// The number of recorded running effects.
  static let effectLimit = 1_000
  /// The number of stores of a tree whose states are shown.
  static let shownLimit = 50

  let number: Int
  let name: String
  let opening = WallTime.now
  let figures = LastRead<StoreStatistics>()
  /// The tree holds it.
  private weak let store: InstrumentedStore?
  private let content: Mutex<Notes>
  private let shownStores = Mutex<[ShownStore]>([])

  init(_ store: InstrumentedStore, commitLimit: Int) {
    number = store.number
    name = store.name.cut(to: 200)
    self.store = store
    content = Mutex(Notes(commits: Ring(limit: commitLimit)))
  }

  var notes: Notes { content.withLock { $0 } }
  var isOpen: Bool { content.withLock { $0.end == nil } }
  var position: Int { content.withLock { $0.position } }

  // MARK: Shown

  /// The stores of the tree whose states are shown, in the order of the calls to `show`.
  var shown: [ShownStore] { shownStores.withLock { $0 } }

  func shows(_ store: StoreID) -> Bool { shown.contains { $0.store == store && !$0.hasEnded } }

  func show(_ store: ShownStore) {
    change { stores in
      stores.removeAll { $0.hasEnded }
      // Removes the oldest child store, or the oldest store if there is no child.
      if stores.count >= Self.shownLimit { stores.remove(at: stores.firstIndex { $0.store != .root } ?? 0) }
      stores.append(store)
    }
  }

  /// Releases removed stores outside the lock, because the user's closures may release a store in turn.
  private func change(_ change: (inout [ShownStore]) -> Void) {
    let before = shownStores.withLock { stores in
      defer { change(&stores) }
      return stores
    }
    withExtendedLifetime(before) {}
  }

  /// The reads that are due. The caller must call each of them.
  ///
  /// - Parameter age: Values that were read more recently are not read again.
  func readings(olderThan age: Duration, withStates: Bool) -> [@Sendable () async -> Void] {
    var readings: [@Sendable () async -> Void] = []
    if isOpen, figures.begin(ifOlderThan: age) {
      readings.append { [figures, weak store] in figures.end(await store?.statistics) }
    }
    guard withStates else { return readings }
    for shown in shown where shown.begin(at: position, ifOlderThan: age) {
      readings.append { [weak self] in
        await shown.read { self?.position ?? 0 }
      }
    }
    return readings
  }

  // MARK: Events

  func note(_ commit: CommitEvent, of action: String, rejectedAs rejection: String? = nil) {
    let time = WallTime.now
    content.withLock { notes in
      notes.position = max(notes.position, commit.position)
      if rejection != nil { notes.rejectionCount += 1 }
      notes.commits.append(
        Commit(
          sequence: notes.nextSequence(), position: commit.position, count: commit.count, action: action,
          store: commit.store, time: time, waited: commit.waited, reduced: commit.reduced, rejection: rejection))
    }
  }

  func noteReplay(upTo position: Int) {
    content.withLock { $0.position = max($0.position, position) }
  }

  func note(_ event: EffectEvent) {
    let name = event.id.map { $0.cut(to: 80) }
    let effect = "\(name.map { "Effect “\($0)”" } ?? "An effect") of \(event.store)"
    // The descriptions are user code, so they run outside the lock.
    switch event.kind {
    case .began:
      let begun = Effect(number: event.number, id: name, store: event.store, since: .now)
      content.withLock { notes in
        if notes.end == nil, notes.effects.count < Self.effectLimit { notes.effects[event.number] = begun }
      }
    case .retried(let error, let delay):
      let text = "\(error)".cut(to: 300)
      content.withLock { notes in
        notes.effects[event.number]?.attempts += 1
        notes.effects[event.number]?.lastError = text
        notes.add(trouble: "\(effect) has failed, and is tried again after \(delay): \(text)")
      }
    case .turnedAway:
      content.withLock { $0.add(trouble: "\(effect) was not begun, as too many wait.") }
    case .ended(let outcome, let taken):
      let trouble: String? =
        switch outcome {
        case .finished, .cancelled: nil
        case .caught(let error): "\(effect) has failed, and its action says so: \("\(error)".cut(to: 300))"
        case .failed(let error): "\(effect) has failed: \("\(error)".cut(to: 300))"
        case .timedOut: "\(effect) took longer than its limit, and was cancelled after \(taken)."
        }
      content.withLock { notes in
        notes.effects[event.number] = nil
        if let trouble { notes.add(trouble: trouble) }
      }
    }
  }

  func note(_ event: StoreLogEvent) {
    switch event {
    case .entered(let phase):
      content.withLock { notes in
        notes.phaseSince = .now
        switch phase {
        case .waiting(let trouble): notes.add(trouble: "The log takes or delivers nothing: \(trouble).")
        case .stopped(let reason): notes.add(trouble: "The store has stopped following its log: \(reason).")
        case .recovering, .following, .ended: break
        }
      }
    case .replayed(let positions, let taken): content.withLock { $0.replay = (positions, taken) }
    case .appended(_, _, _, let error):
      guard let error = error.map({ "\($0)".cut(to: 300) }) else { return }
      content.withLock { $0.add(trouble: "The log has not taken an entry: \(error)") }
    case .savedSnapshot(_, _, _, let error):
      guard let error = error.map({ "\($0)".cut(to: 300) }) else { return }
      content.withLock { $0.add(trouble: "A snapshot was not saved: \(error)") }
    }
  }

  func noteEnd() {
    content.withLock { notes in
      notes.end = .now
      notes.effects = [:]
    }
    change { $0 = [] }
  }
}

/// A buffer of the newest elements.
struct Ring<Element: Sendable>: Sendable {
  private let limit: Int
  private var elements: [Element] = []
  /// The index of the oldest element once the buffer is full, which the next element replaces.
  private var next = 0

  init(limit: Int) { self.limit = max(limit, 1) }

  mutating func append(_ element: Element) {
    if elements.count < limit { return elements.append(element) }
    elements[next] = element
    next = (next + 1) % limit
  }

  var newestFirst: [Element] { (elements[next...] + elements[..<next]).reversed() }
}
