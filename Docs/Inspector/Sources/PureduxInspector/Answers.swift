import Foundation
import Hummingbird
import Puredux

/// The data of the pages, as JSON.
enum Answer {
  struct Stores: Encodable {
    let stores: [Store]
    /// The number of open stores that are not listed.
    let more: Int
  }

  struct Store: Encodable {
    let number: Int
    let name: String
    let opened: Int
    let ended: Int?
    /// For how many seconds the tree has not answered.
    let silence: Double?
    let commits: Int
    let rejections: Int
    /// Nil until the first read.
    let figures: Figures?
    let log: Log?
  }

  struct Figures: Encodable {
    let waiting: Int
    let childStores: Int
    let subscriptions: Int
    let longestBacklog: Int
    let runningTasks: Int
    let effects: [EffectCount]
  }

  struct EffectCount: Encodable {
    let id: String
    let count: Int
  }

  struct Log: Encodable {
    let phase: String
    /// Details of the phase.
    let about: String
    let since: Int?
    let position: UInt64
    let behind: UInt64
    let waiting: Double?
    let pendingActions: Int
    let pendingBytes: Int
    let skipped: UInt64
    let rejected: UInt64
    let failedSnapshots: UInt64
    let epoch: UInt64
    let replayed: UInt64?
    let replayTook: Double?
  }

  struct Commit: Encodable {
    let sequence: Int
    let position: Int
    let count: Int
    let action: String
    let store: String
    let time: Int
    let waited: Double?
    let reduced: Double?
    let rejection: String?
  }

  struct Effect: Encodable {
    let number: Int
    let id: String?
    let store: String
    let since: Int
    let attempts: Int
    let lastError: String?
  }

  struct Trouble: Encodable {
    let sequence: Int
    let time: Int
    let text: String
  }

  /// A store whose state is shown.
  struct Shown: Encodable {
    let number: Int
    let store: String
    let silence: Double?
    let state: State?
    /// The positions of the first and last commit after which the state may have been read.
    let from: Int?
    let to: Int?
    let hasHistory: Bool
    /// The positions of the commits in the history.
    let positions: [Int]
  }

  struct State: Encodable {
    /// The reducer that made the state. Nil before any reducer in the history, and elsewhere.
    var reducer: String?
    let lines: [String]
    let newLines: [Int]
    let isCut: Bool
    let changes: [StateText.Comparison.Change]
  }

  struct PastCommit: Encodable {
    let position: Int
    let action: String
    let store: String
    let steps: [State]
  }

  struct Directory: Encodable {
    let name: String
    let opening: Int
    let open: Int
    let failed: Int
    let closed: Int
    /// The stores that are opening or open, and those that recently failed or closed.
    let keys: [Key]
    /// The number of opening or open stores that are not among the keys.
    let more: Int
  }

  struct Key: Encodable {
    let sequence: Int
    let key: String
    let phase: DirectoryTable.Phase
    let since: Int
    let taken: Double?
    let error: String?
  }

  static func encoded(_ answer: some Encodable) -> ByteBuffer {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // All values can be encoded.
    let data = (try? encoder.encode(answer)) ?? Data("null".utf8)
    var buffer = ByteBuffer()
    buffer.reserveCapacity(data.count)
    // A "<" occurs only inside strings. Escaping it prevents that text of a state is parsed as markup.
    for byte in data {
      if byte == UInt8(ascii: "<") { buffer.writeString("\\u003c") } else { buffer.writeInteger(byte) }
    }
    return buffer
  }
}

extension Inspector {
  /// How long a page waits for trees to answer before it shows the previous values.
  private static let patience = Duration.milliseconds(250)

  private func read(_ entries: [WatchedStore], withStates: Bool = false) async {
    // Several pages that are open read once.
    let age = limits.interval / 2
    await perform(
      entries.flatMap { $0.readings(olderThan: age, withStates: withStates) }, within: Self.patience)
  }

  func storesAnswer() async -> Answer.Stores {
    let entries = stores.all
    await read(entries)
    return Answer.Stores(stores: entries.map(Answer.Store.init), more: stores.unlistedCount(beside: entries))
  }

  var directoriesAnswer: [Answer.Directory] { directories.all.map { Answer.Directory($0.name, $0.content) } }

  /// The parts of the page of a store, by name; nil if there is no such store.
  func storeAnswer(_ number: Int) async -> [(name: String, data: ByteBuffer)]? {
    guard let entry = stores[number] else { return nil }
    await read([entry], withStates: true)
    let notes = entry.notes
    return [
      ("store", Answer.encoded(Answer.Store(entry))),
      ("effects", Answer.encoded(notes.effects.values.sorted { $0.number < $1.number }.map(Answer.Effect.init))),
      ("troubles", Answer.encoded(notes.troubles.newestFirst.map(Answer.Trouble.init))),
      ("commits", Answer.encoded(notes.commits.newestFirst.map(Answer.Commit.init))),
      ("states", Answer.encoded(entry.shown.filter { !$0.hasEnded }.map(Answer.Shown.init))),
    ]
  }

  /// A commit in the history of a shown store; nil if there is none.
  func pastAnswer(_ number: Int, shown: Int, position: Int) -> Answer.PastCommit? {
    guard let commit = stores[number]?.shown.first(where: { $0.number == shown })?.commit(at: position) else {
      return nil
    }
    return Answer.PastCommit(
      position: commit.position, action: commit.action, store: "\(commit.store)",
      steps: commit.steps.map { Answer.State($0.text, $0.comparison, reducer: $0.reducer) })
  }
}

// MARK: From the recorded data

extension WallTime {
  /// In milliseconds since 1970, as in JavaScript.
  var milliseconds: Int { Int(since1970 / .milliseconds(1)) }
}

extension Duration {
  fileprivate var seconds: Double { self / .seconds(1) }
}

extension Answer.Store {
  init(_ entry: WatchedStore) {
    let notes = entry.notes
    let read = entry.figures.value
    number = entry.number
    name = entry.name
    opened = entry.opening.milliseconds
    ended = notes.end?.milliseconds
    silence = notes.end == nil ? entry.figures.silence?.seconds : nil
    commits = max(notes.position, read?.commits ?? 0)
    rejections = notes.rejectionCount
    figures = notes.end == nil ? read.map(Answer.Figures.init) : nil
    log = read?.log.map { Answer.Log($0, notes) }
  }
}

extension Answer.Figures {
  /// The number of listed ids: those with the most effects.
  private static let idLimit = 50

  init(_ statistics: StoreStatistics) {
    waiting = statistics.waiting
    childStores = statistics.childStores
    subscriptions = statistics.subscriptions
    longestBacklog = statistics.longestBacklog
    runningTasks = statistics.runningTasks
    effects = statistics.effects.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.prefix(Self.idLimit)
      .map { Answer.EffectCount(id: $0.key.cut(to: 80), count: $0.value) }
  }
}

extension Answer.Log {
  init(_ log: LogStatistics, _ notes: WatchedStore.Notes) {
    (phase, about) =
      switch log.phase {
      case _ where notes.end != nil: ("ended", "")
      case .recovering(let done, let all): ("recovering", "\(done) of \(all)")
      case .following: ("following", "")
      case .waiting(let trouble): ("waiting", "\(trouble)")
      case .stopped(let reason): ("stopped", "\(reason)")
      case .ended: ("ended", "")
      }
    since = notes.phaseSince?.milliseconds
    position = log.position
    behind = log.behind
    waiting = log.waiting?.seconds
    pendingActions = log.pendingActions
    pendingBytes = log.pendingBytes
    skipped = log.skipped
    rejected = log.rejected
    failedSnapshots = log.failedSnapshots
    epoch = log.epoch
    replayed = notes.replay?.positions
    replayTook = notes.replay?.taken.seconds
  }
}

extension Answer.Commit {
  init(_ commit: WatchedStore.Commit) {
    sequence = commit.sequence
    position = commit.position
    count = commit.count
    action = commit.action
    store = "\(commit.store)"
    time = commit.time.milliseconds
    waited = commit.waited?.seconds
    reduced = commit.reduced?.seconds
    rejection = commit.rejection
  }
}

extension Answer.Effect {
  init(_ effect: WatchedStore.Effect) {
    number = effect.number
    id = effect.id
    store = "\(effect.store)"
    since = effect.since.milliseconds
    attempts = effect.attempts
    lastError = effect.lastError
  }
}

extension Answer.Trouble {
  init(_ trouble: WatchedStore.Trouble) {
    sequence = trouble.sequence
    time = trouble.time.milliseconds
    text = trouble.text
  }
}

extension Answer.State {
  init(_ text: StateText, _ comparison: StateText.Comparison, reducer: String? = nil) {
    self.reducer = reducer
    lines = text.lines.map(\.shown)
    newLines = comparison.newLines
    isCut = text.isCut
    changes = comparison.changes
  }
}

extension Answer.Shown {
  init(_ shown: ShownStore) {
    let last = shown.last
    number = shown.number
    store = "\(shown.store)"
    silence = shown.silence?.seconds
    state = last.map { Answer.State($0.text, $0.comparison) }
    from = last?.positions.lowerBound
    to = last?.positions.upperBound
    hasHistory = shown.hasHistory
    positions = shown.positions
  }
}

extension Answer.Directory {
  init(_ name: String, _ content: DirectoryTable.Content) {
    self.name = name
    opening = content.opening
    open = content.open
    failed = content.failed
    closed = content.closed
    // Opening stores come first.
    let there = content.keys.values.sorted {
      ($0.phase == .opening ? 0 : 1, $1.sequence) < ($1.phase == .opening ? 0 : 1, $0.sequence)
    }
    keys = (there + content.past.newestFirst).map(Answer.Key.init)
    more = max(0, content.opening + content.open - there.count)
  }
}

extension Answer.Key {
  init(_ key: DirectoryTable.Key) {
    sequence = key.sequence
    self.key = key.text
    phase = key.phase
    since = key.since.milliseconds
    taken = key.taken?.seconds
    error = key.error
  }
}
