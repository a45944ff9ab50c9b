/// Commits each action exactly once and in its writer's order, although the log may repeat or reorder entries (G11). A
/// pure state machine, the same on every replica, and part of a snapshot.
struct Fold: Equatable, Sendable {
  static let firstChain: UInt64 = 14_695_981_039_346_656_037
  /// The number of the last writers that are always remembered.
  static let writerLimit = 1024
  /// The number of the last entries whose marks are remembered.
  static let markLimit = 256

  private(set) var position: UInt64 = 0
  /// A hash of all commits, in order.
  private(set) var chain = Fold.firstChain
  /// A hash of the state; 0 if there is none.
  private var fingerprint: UInt64 = 0
  private(set) var commits: UInt64 = 0
  /// The number of skipped actions, and of records that are no entries.
  private(set) var skipped: UInt64 = 0
  /// The rules of the last seal: entries of older rules are void.
  private(set) var sealedRules: UInt32 = 0
  /// The newest rules of an applied entry.
  private(set) var rules: UInt32 = 0
  /// The entries skipped by decision.
  private(set) var decided: Set<UInt64> = []
  /// The number of the last epoch; 0 if there is none.
  private(set) var epoch: UInt64 = 0
  private var writers: [UInt64: Writer] = [:]
  /// A ring of the last marks. Not part of a snapshot: older marks are not compared.
  private var marks: [LogEntry.Mark] = []
  private var nextMark = 0

  private struct Writer: Equatable {
    /// The number of its last action that was committed or skipped.
    var last: UInt64
    var position: UInt64
  }

  /// How to treat a delivered action.
  enum Verdict: Equatable {
    case commit
    /// The action has been delivered before.
    case repeated
    /// An earlier action of its writer is missing. That one will come, and then this one again.
    case early
    /// Like `early`, but the writer is unknown: its first action is missing, or it was forgotten because so many others
    /// have written since, and must begin under a new number.
    case unknown
  }

  mutating func take(_ number: UInt64, of writer: UInt64, at position: UInt64) -> Verdict {
    guard let last = writers[writer]?.last else {
      guard number == 1 else { return .unknown }
      forgetOldest()
      accept(number, of: writer, at: position)
      return .commit
    }
    if number <= last { return .repeated }
    guard number == last + 1 else { return .early }
    accept(number, of: writer, at: position)
    return .commit
  }

  /// Whether one of several consecutive actions would be committed.
  func takes(_ first: UInt64, count: UInt64, of writer: UInt64) -> Bool {
    guard let last = writers[writer]?.last else { return first == 1 && count > 0 }
    return first <= last + 1 && first + count > last + 1
  }

  private mutating func accept(_ number: UInt64, of writer: UInt64, at position: UInt64) {
    writers[writer] = Writer(last: number, position: position)
    commits += 1
    mix(writer)
    mix(number)
  }

  /// Ordered by position, which is the same on every replica.
  private mutating func forgetOldest() {
    guard writers.count >= 2 * Self.writerLimit else { return }
    let kept = writers.sorted { ($0.value.position, $0.key) > ($1.value.position, $1.key) }
    writers = Dictionary(uniqueKeysWithValues: kept.prefix(Self.writerLimit).map { ($0.key, $0.value) })
  }

  mutating func skip() { skipped += 1 }

  mutating func note(_ rules: UInt32) { self.rules = max(self.rules, rules) }

  mutating func decide(_ position: UInt64) { decided.insert(position) }

  mutating func begin(epoch number: UInt64) { epoch = number }

  mutating func seal(_ rules: UInt32) { sealedRules = max(sealedRules, rules) }

  /// - Parameter fingerprint: A hash of the state after the entry.
  mutating func ended(at position: UInt64, fingerprint: UInt64?) {
    self.position = position
    self.fingerprint = fingerprint ?? 0
    let mark = mark
    if marks.count < Self.markLimit { marks.append(mark) } else { marks[nextMark] = mark }
    nextMark = (nextMark + 1) % Self.markLimit
  }

  /// Replaces the hash of the present state by that of this program's function.
  mutating func restate(_ fingerprint: UInt64?) {
    self.fingerprint = fingerprint ?? 0
    if !marks.isEmpty { marks[(nextMark + Self.markLimit - 1) % Self.markLimit].fingerprint = self.fingerprint }
  }

  func fingerprint(at position: UInt64) -> UInt64? {
    marks.first { $0.position == position && $0.fingerprint != 0 }?.fingerprint
  }

  var mark: LogEntry.Mark { LogEntry.Mark(position: position, chain: chain, fingerprint: fingerprint) }

  /// Whether a replica with that mark had applied the same entries as this one; true if that is no longer known. If the
  /// mark is ahead, an entry is missing here.
  ///
  /// - Parameter isInState: Whether the states are compared, too, if both hashes are known.
  func agrees(with seen: LogEntry.Mark, inState isInState: Bool = true) -> Bool {
    if seen.position > position { return false }
    // Binary search for the first mark at or after the position.
    let oldest = marks.count < Self.markLimit ? 0 : nextMark
    var (low, high) = (0, marks.count)
    while low < high {
      let middle = (low + high) / 2
      if marks[(oldest + middle) % marks.count].position < seen.position { low = middle + 1 } else { high = middle }
    }
    guard low < marks.count else { return true }
    let mark = marks[(oldest + low) % marks.count]
    if mark.position > seen.position { return low == 0 }
    let knowsState = isInState && mark.fingerprint != 0 && seen.fingerprint != 0
    return mark.chain == seen.chain && (!knowsState || mark.fingerprint == seen.fingerprint)
  }

  private mutating func mix(_ value: UInt64) {
    chain = (chain ^ value) &* 1_099_511_628_211
    chain ^= chain >> 29
  }
}

extension Fold {
  func encode(into bytes: inout ByteWriter) {
    bytes.put(position)
    bytes.put(chain)
    bytes.put(fingerprint)
    bytes.put(commits)
    bytes.put(skipped)
    bytes.put(UInt32(writers.count))
    for (id, writer) in writers.sorted(by: { $0.key < $1.key }) {
      bytes.put(id)
      bytes.put(writer.last)
      bytes.put(writer.position)
    }
    guard format > 1 else { return }
    bytes.put(sealedRules)
    bytes.put(rules)
    bytes.put(UInt32(decided.count))
    for position in decided.sorted() { bytes.put(position) }
    if format > 2 { bytes.put(epoch) }
  }

  static let newestFormat: UInt8 = 3

  /// The oldest format that can hold this fold.
  var format: UInt8 { epoch > 0 ? 3 : sealedRules > 0 || rules > 0 || !decided.isEmpty ? 2 : 1 }

  init?(_ reader: inout ByteReader, format: UInt8) {
    guard let position = reader.take(UInt64.self), let chain = reader.take(UInt64.self),
      let fingerprint = reader.take(UInt64.self), let commits = reader.take(UInt64.self),
      let skipped = reader.take(UInt64.self),
      let count = reader.take(UInt32.self)
    else { return nil }
    for _ in 0..<count {
      guard let id = reader.take(UInt64.self), let last = reader.take(UInt64.self),
        let position = reader.take(UInt64.self)
      else { return nil }
      writers[id] = Writer(last: last, position: position)
    }
    if format > 1 {
      guard let sealedRules = reader.take(UInt32.self), let rules = reader.take(UInt32.self),
        let count = reader.take(UInt32.self)
      else { return nil }
      (self.sealedRules, self.rules) = (sealedRules, rules)
      for _ in 0..<count {
        guard let position = reader.take(UInt64.self) else { return nil }
        decided.insert(position)
      }
    }
    if format > 2 {
      guard let epoch = reader.take(UInt64.self) else { return nil }
      self.epoch = epoch
    }
    self.position = position
    self.chain = chain
    self.commits = commits
    self.skipped = skipped
    ended(at: position, fingerprint: fingerprint)
  }
}

// MARK: In a copy of the log

extension Fold {
  /// The positions in a snapshot, in order: its own, the writers', and the skipped entries'.
  var positions: [UInt64] { Set(writers.values.map(\.position)).union(decided).union([position]).sorted() }

  /// A hash that identifies this position and order within its log.
  var moment: UInt64 {
    var fold = self
    fold.mix(position)
    return fold.chain
  }

  /// The same fold at other positions, in the same order; nil if one of them is missing.
  func moved(_ place: (UInt64) -> UInt64?) -> Fold? {
    guard let position = place(position) else { return nil }
    var moved = self
    for (id, writer) in writers {
      guard let position = place(writer.position) else { return nil }
      moved.writers[id]?.position = position
    }
    moved.decided = []
    for skipped in decided {
      guard let position = place(skipped) else { return nil }
      moved.decided.insert(position)
    }
    moved.position = position
    moved.marks = [moved.mark]
    moved.nextMark = 0
    return moved
  }

  /// Follows the order of an entry, without its actions' content, decisions and seals.
  mutating func follow(_ record: LogRecord) {
    if case .entry(let header, let actions) = LogEntry.decode(record.bytes) {
      for number in header.first..<header.first + UInt64(actions.count) {
        _ = take(number, of: header.writer, at: record.position)
      }
    }
    position = record.position
  }
}
