/// Commits each action exactly once and in its writer's order, although the log may repeat or reorder entries (G11). A
/// pure state machine, the same on every replica, and part of a snapshot.
struct Fold: Equatable, Sendable {
  static let firstChain: UInt64 = 14_695_981_039_346_656_037
  /// How many of the last writers are always remembered.
  static let writerLimit = 1024
  /// How many of the last marks are remembered.
  static let markLimit = 256

  private(set) var position: UInt64 = 0
  private(set) var chain = Fold.firstChain
  private var fingerprint: UInt64 = 0
  private(set) var commits: UInt64 = 0
  private(set) var skipped: UInt64 = 0
  /// Entries of older rules are void.
  private(set) var sealedRules: UInt32 = 0
  private(set) var rules: UInt32 = 0
  private(set) var decided: Set<UInt64> = []
  private(set) var epoch: UInt64 = 0
  private var writers: [UInt64: Writer] = [:]
  /// A ring. Not part of a snapshot: older marks are not compared.
  private var marks: [LogEntry.Mark] = []
  private var nextMark = 0

  private struct Writer: Equatable {
    /// The last action committed or skipped.
    var last: UInt64
    var position: UInt64
  }

  enum Verdict: Equatable {
    case commit
    case repeated
    /// An earlier action of its writer is missing. It will be delivered, and then this one again.
    case early
    /// Like `early`, but the writer is unknown: its first action is missing, or it was forgotten after many other
    /// writers, and must take a new number.
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

  /// Whether any of these consecutive actions would be committed.
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

  /// Orders by position, which is the same on every replica.
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

  mutating func ended(at position: UInt64, fingerprint: UInt64?) {
    self.position = position
    self.fingerprint = fingerprint ?? 0
    let mark = mark
    if marks.count < Self.markLimit { marks.append(mark) } else { marks[nextMark] = mark }
    nextMark = (nextMark + 1) % Self.markLimit
  }

  mutating func restate(_ fingerprint: UInt64?) {
    self.fingerprint = fingerprint ?? 0
    if !marks.isEmpty { marks[(nextMark + Self.markLimit - 1) % Self.markLimit].fingerprint = self.fingerprint }
  }

  func fingerprint(at position: UInt64) -> UInt64? {
    marks.first { $0.position == position && $0.fingerprint != 0 }?.fingerprint
  }

  var mark: LogEntry.Mark { LogEntry.Mark(position: position, chain: chain, fingerprint: fingerprint) }

  /// Whether a replica with that mark had applied the same entries; true if no longer known. If the mark is ahead, an
  /// entry is missing here.
  ///
  /// - Parameter isInState: Whether to compare states, too, if both hashes are known.
  func agrees(with seen: LogEntry.Mark, inState isInState: Bool = true) -> Bool {
    if seen.position > position { return false }
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

  /// No log has more entries or actions. Adding to a larger number could overflow.
  private static let countLimit = UInt64(Int64.max)

  var format: UInt8 { epoch > 0 ? 3 : sealedRules > 0 || rules > 0 || !decided.isEmpty ? 2 : 1 }

  init?(_ reader: inout ByteReader, format: UInt8) {
    guard let position = reader.take(UInt64.self), let chain = reader.take(UInt64.self),
      let fingerprint = reader.take(UInt64.self), let commits = reader.take(UInt64.self),
      let skipped = reader.take(UInt64.self),
      let count = reader.take(UInt32.self), max(position, commits, skipped) <= Self.countLimit
    else { return nil }
    for _ in 0..<count {
      guard let id = reader.take(UInt64.self), let last = reader.take(UInt64.self),
        let place = reader.take(UInt64.self), last <= Self.countLimit, place <= position
      else { return nil }
      writers[id] = Writer(last: last, position: place)
    }
    if format > 1 {
      guard let sealedRules = reader.take(UInt32.self), let rules = reader.take(UInt32.self),
        let count = reader.take(UInt32.self)
      else { return nil }
      (self.sealedRules, self.rules) = (sealedRules, rules)
      for _ in 0..<count {
        guard let place = reader.take(UInt64.self), place <= position else { return nil }
        decided.insert(place)
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
  var positions: [UInt64] { Set(writers.values.map(\.position)).union(decided).union([position]).sorted() }

  var moment: UInt64 {
    var fold = self
    fold.mix(position)
    return fold.chain
  }

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

  /// Follows an entry's order, without its actions' content, decisions and seals.
  mutating func follow(_ record: LogRecord) {
    if case .entry(let header, let actions) = LogEntry.decode(record.bytes) {
      for number in header.first..<header.first + UInt64(actions.count) {
        _ = take(number, of: header.writer, at: record.position)
      }
    }
    position = record.position
  }
}
