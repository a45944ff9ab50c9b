/// Makes exactly once, and in each writer's order, of a log that repeats entries and may take them in another order
/// (G11): a pure state machine, the same on every replica. Part of a snapshot.
struct Fold: Equatable, Sendable {
  static let firstChain: UInt64 = 14_695_981_039_346_656_037
  /// How many writers are remembered at least: those that wrote last.
  static let writerLimit = 1024
  /// For how many of the last entries the chain is remembered.
  static let markLimit = 256

  /// The position of the last entry that was applied.
  private(set) var position: UInt64 = 0
  /// A hash over all that was committed, in order.
  private(set) var chain = Fold.firstChain
  /// A hash of the state that it led to; 0 where there is none.
  private var fingerprint: UInt64 = 0
  /// How many actions have been committed.
  private(set) var commits: UInt64 = 0
  /// How many actions could not be decoded, and records that are no entries.
  private(set) var skipped: UInt64 = 0
  /// The rules of the last seal: an entry of rules before these is void.
  private(set) var sealedRules: UInt32 = 0
  /// The newest rules of an entry that was applied.
  private(set) var rules: UInt32 = 0
  /// The entries that were skipped by decision.
  private(set) var decided: Set<UInt64> = []
  /// The number of the last epoch; 0 before any.
  private(set) var epoch: UInt64 = 0
  private var writers: [UInt64: Writer] = [:]
  /// The last marks, which lie in a ring. Not part of a snapshot: what is older than that is not compared.
  private var marks: [LogEntry.Mark] = []
  private var nextMark = 0

  private struct Writer: Equatable {
    /// The number of its last action that was committed or skipped.
    var last: UInt64
    /// The position of that action.
    var position: UInt64
  }

  /// What is to be done with an action of an entry.
  enum Verdict: Equatable {
    case commit
    /// The action was there before.
    case repeated
    /// An earlier action of its writer is missing: it will come, and this one again behind it.
    case early
    /// As `early`, but nothing is known of the writer: its first action has not come, or so many others have written
    /// since that it was forgotten and has to begin anew.
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

  /// Whether one of several actions in a row would be committed.
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

  /// By the positions of their last actions, which are the same on every replica.
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

  /// An entry has been applied.
  ///
  /// - Parameter fingerprint: A hash of the state that it led to.
  mutating func ended(at position: UInt64, fingerprint: UInt64?) {
    self.position = position
    self.fingerprint = fingerprint ?? 0
    let mark = mark
    if marks.count < Self.markLimit { marks.append(mark) } else { marks[nextMark] = mark }
    nextMark = (nextMark + 1) % Self.markLimit
  }

  /// The state was hashed by another program, or by none: this program's hash takes the place.
  mutating func restate(_ fingerprint: UInt64?) {
    self.fingerprint = fingerprint ?? 0
    if !marks.isEmpty { marks[(nextMark + Self.markLimit - 1) % Self.markLimit].fingerprint = self.fingerprint }
  }

  /// The hash of the state at a position, if it is remembered.
  func fingerprint(at position: UInt64) -> UInt64? {
    marks.first { $0.position == position && $0.fingerprint != 0 }?.fingerprint
  }

  /// The mark that entries carry, for other replicas to compare.
  var mark: LogEntry.Mark { LogEntry.Mark(position: position, chain: chain, fingerprint: fingerprint) }

  /// Whether a replica that had come to a mark had applied the same as this one; true where that is not known any more.
  /// An entry that was applied there and not here is missing here.
  ///
  /// - Parameter isInState: Whether the state is compared, too, where both replicas know its fingerprint.
  func agrees(with seen: LogEntry.Mark, inState isInState: Bool = true) -> Bool {
    if seen.position > position { return false }
    // The first mark that is not before it, from the oldest on.
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

  /// The newest format of snapshots.
  static let newestFormat: UInt8 = 3

  /// The first format of snapshots that can hold all of this fold.
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
  /// The positions that a snapshot has, in order: its own, those of the writers, and those of the skipped entries.
  var positions: [UInt64] { Set(writers.values.map(\.position)).union(decided).union([position]).sorted() }

  /// A hash that tells its position and order from others of the same log.
  var moment: UInt64 {
    var fold = self
    fold.mix(position)
    return fold.chain
  }

  /// The same fold at other positions, in the same order; nil where one of them is not there.
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

  /// Follows the order of an entry, without decoding its actions, and without what was decided or sealed.
  mutating func follow(_ record: LogRecord) {
    if case .entry(let header, let actions) = LogEntry.decode(record.bytes) {
      for number in header.first..<header.first + UInt64(actions.count) {
        _ = take(number, of: header.writer, at: record.position)
      }
    }
    position = record.position
  }
}
