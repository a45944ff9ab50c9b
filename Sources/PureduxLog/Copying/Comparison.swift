/// Walks through a log and its copy, yields the copy's next entry, and maps positions.
struct Comparison {
  struct Expected {
    var position: UInt64
    var bytes: [UInt8]
    var record: LogRecord?
  }

  private struct Sum: Hashable {
    var checksum: UInt32
    var count: Int
  }

  private static let repetitionLimit = 1024

  private let standIns: [UInt64]
  private let moment: UInt64
  private var placedStandIns = 0
  private var source: RecordReader
  private var next: Expected?
  private(set) var places = PositionMap()
  /// The order so far; nil before the snapshot that a copy begins with.
  private(set) var order: Fold?
  private(set) var orderOfCopy: Fold?
  private let newest: Fold?
  private let kept: Fold?
  private var recent: [Sum] = []
  private var recentCounts: [Sum: Int] = [:]
  private var nextRecent = 0
  /// The copy's positions with repetitions, each with the last earlier position without one.
  private var repetitions: [UInt64: UInt64] = [:]
  /// The log's decisions and their entries; those about entries that the copy lacks.
  private var decisions: [UInt64: UInt64] = [:]
  private var undecided: Set<UInt64> = []
  private var lastMet: UInt64 = 0
  private(set) var last: UInt64 = 0
  private(set) var count: UInt64 = 0
  private(set) var endsWithEpoch = false

  /// - Parameters:
  ///   - newest: The order in the log's snapshot.
  ///   - kept: The order in the copy's snapshot.
  init(_ source: RecordReader, standIns: [UInt64], moment: UInt64, newest: Fold?, kept: Fold?) {
    self.source = source
    self.standIns = standIns
    self.moment = moment
    self.newest = newest
    self.kept = kept
    if standIns.isEmpty { (order, orderOfCopy) = (Fold(), Fold()) }
  }

  var hasBegun: Bool { placedStandIns == standIns.count }

  mutating func expected() async throws -> Expected? {
    if next == nil { next = try await load() }
    return next
  }

  private mutating func load() async throws -> Expected? {
    if placedStandIns < standIns.count {
      let position = standIns[placedStandIns]
      return Expected(position: position, bytes: LogEntry.standIn(for: position, moment: moment))
    }
    while let record = try await source.next() {
      switch LogEntry.decode(record.bytes) {
      case .newerFormat: throw LogCopyError.Reason.newerFormat(position: record.position)
      // An earlier copy's target has repeated it.
      case .standIn: places.place(record.position, at: places.last)
      case .entry(let header, _):
        let seen = header.seen.position
        // A writer that had seen a later position stops a replica of either log.
        let moved = seen < record.position ? places.atMost(seen) : .max
        return Expected(position: record.position, bytes: LogEntry.moved(record.bytes, to: moved), record: record)
      case .decision:
        // A decision that is about a later entry, or taken back, has no effect in either log.
        var moved: UInt64? = .max
        if let skipped = record.skipped {
          decisions[record.position] = skipped
          moved = places[skipped]
        }
        if moved == nil { undecided.insert(record.position) }
        return Expected(
          position: record.position, bytes: LogEntry.moved(record.bytes, to: moved ?? .max), record: record)
      case .seal, .epoch, .unreadable:
        return Expected(position: record.position, bytes: record.bytes, record: record)
      }
    }
    if !undecided.isEmpty {
      let skipped = LogEntry.skipped(by: decisions)
      if let position = undecided.filter({ skipped[$0] == nil }).min() {
        throw LogCopyError.Reason.undecided(position: position)
      }
    }
    return nil
  }

  mutating func place(_ expected: Expected, at position: UInt64) {
    places.place(expected.position, at: position)
    last = expected.position
    if expected.record == nil { placedStandIns += 1 }
    next = nil
    count += 1
    endsWithEpoch = false
  }

  /// Compares the copy's next entry. Accepts epochs and repetitions; otherwise throws.
  mutating func meet(_ found: LogRecord) async throws {
    let expected = try await expected()
    orderOfCopy?.follow(found)
    let sum = Sum(checksum: RecordFormat.checksum(of: found.bytes), count: found.bytes.count)
    let isRepetition = recentCounts[sum] != nil
    if isRepetition { repetitions[found.position] = original(lastMet) }
    lastMet = found.position
    if let expected, isSame(found.bytes, expected.bytes) {
      place(expected, at: found.position)
      follow(expected)
      remember(sum)
    } else if case .epoch = LogEntry.decode(found.bytes) {
      endsWithEpoch = true
    } else if !isRepetition || LogEntry.decode(found.bytes) == .unreadable {
      // A store stops there, even if the original is skipped.
      throw LogCopyError.Reason.differs(position: found.position)
    }
    var isRight = true
    if let kept, kept.position == found.position {
      let said = newest.flatMap { places[$0.position] == found.position ? $0.chain : nil } ?? order?.chain
      isRight = said == nil || said == kept.chain
      orderOfCopy = orderOfCopy ?? kept
    }
    if let order, let orderOfCopy { isRight = isRight && order.chain == orderOfCopy.chain }
    guard isRight else { throw LogCopyError.Reason.differs(position: found.position) }
  }

  private func original(_ position: UInt64) -> UInt64 { repetitions[position] ?? position }

  /// If the log has a repetition and the copy has more, all are the same place in the order: which one the writer has
  /// seen is unknown.
  private func isSame(_ found: [UInt8], _ expected: [UInt8]) -> Bool {
    if found == expected { return true }
    guard !repetitions.isEmpty, case .entry(let mine, _) = LogEntry.decode(found),
      case .entry(let other, _) = LogEntry.decode(expected),
      original(mine.seen.position) == original(other.seen.position)
    else { return false }
    return LogEntry.moved(found, to: other.seen.position) == expected
  }

  private mutating func follow(_ expected: Expected) {
    if order == nil, let newest, newest.position < expected.position { order = newest }
    if let record = expected.record { order?.follow(record) }
    guard order == nil, let newest, newest.position == expected.position else { return }
    order = newest
    if kept == nil { orderOfCopy = newest.moved { places[$0] } }
  }

  private mutating func remember(_ sum: Sum) {
    var forgotten = sum
    recentCounts[sum, default: 0] += 1
    if recent.count < Self.repetitionLimit {
      recent.append(sum)
    } else {
      swap(&recent[nextRecent], &forgotten)
      let left = (recentCounts[forgotten] ?? 0) - 1
      recentCounts[forgotten] = left > 0 ? left : nil
    }
    nextRecent = (nextRecent + 1) % Self.repetitionLimit
  }
}
