/// Goes through a log and its copy: what the copy is to have next, and where the entries are that it has.
struct Comparison {
  /// What the copy is to have next.
  struct Expected {
    /// In the log.
    var position: UInt64
    /// As the copy has them, with its positions.
    var bytes: [UInt8]
    /// The entry of the log; none where it is one that stands in.
    var record: LogRecord?
  }

  /// Of an entry that has been placed.
  private struct Sum: Equatable {
    var checksum: UInt32
    var count: Int
  }

  /// How many of the last entries are remembered that the target may have repeated.
  private static let repetitionLimit = 1024

  /// What the copy begins with: entries that stand in for those at these positions of the log.
  private let standIns: [UInt64]
  /// The chain of the log behind those.
  private let chain: UInt64
  private var placedStandIns = 0
  private var source: RecordReader
  private var next: Expected?
  private(set) var places = PositionMap()
  private var order: Fold
  private var orderOfCopy: Fold
  private var recent: [Sum] = []
  private var nextRecent = 0
  /// How many entries have been placed.
  private(set) var count: UInt64 = 0
  /// Whether the copy's last entry is an epoch that began with an earlier copy.
  private(set) var endsWithEpoch = false

  /// - Parameter snapshot: What the copy begins with, if it is known: the order goes on from there.
  init(_ source: RecordReader, standIns: [UInt64], chain: UInt64, snapshot: EncodedSnapshot?) {
    self.source = source
    self.standIns = standIns
    self.chain = chain
    order = snapshot?.fold ?? Fold()
    orderOfCopy = snapshot?.fold.moved { position in standIns.firstIndex(of: position).map { UInt64($0 + 1) } } ?? order
  }

  /// Whether all that stand in have been placed.
  var hasBegun: Bool { placedStandIns == standIns.count }

  /// What the copy is to have next; nil where it is whole.
  mutating func expected() async throws -> Expected? {
    if next == nil { next = try await load() }
    return next
  }

  private mutating func load() async throws -> Expected? {
    if placedStandIns < standIns.count {
      let position = standIns[placedStandIns]
      return Expected(position: position, bytes: LogEntry.standIn(for: position, chain: chain))
    }
    while let record = try await source.next() {
      switch LogEntry.decode(record.bytes) {
      case .newerFormat: throw LogCopyError.Reason.newerFormat(position: record.position)
      // Repeated by the target of an earlier copy: it says nothing.
      case .standIn: places.place(record.position, at: places.last)
      case .entry(let header, _):
        let seen = header.seen.position
        if seen > 0, seen == standIns.last, header.seen.chain != chain {
          throw LogCopyError.Reason.differs(position: places.atMost(seen))
        }
        // One that lies ahead stops a replica, there and here.
        let moved = seen < record.position ? places.atMost(seen) : .max
        return Expected(position: record.position, bytes: LogEntry.moved(record.bytes, to: moved), record: record)
      case .decision(let decision):
        // One about what lies ahead decides nothing, there and here.
        let moved = decision.skipped < record.position ? places[decision.skipped] : .max
        guard let moved else { throw LogCopyError.Reason.undecided(position: record.position) }
        return Expected(position: record.position, bytes: LogEntry.moved(record.bytes, to: moved), record: record)
      case .seal, .epoch, .unreadable:
        return Expected(position: record.position, bytes: record.bytes, record: record)
      }
    }
    return nil
  }

  /// What is expected is at a position of the copy.
  mutating func place(_ expected: Expected, at position: UInt64) {
    places.place(expected.position, at: position)
    if expected.record == nil { placedStandIns += 1 }
    next = nil
    count += 1
    endsWithEpoch = false
  }

  /// The copy has an entry: what is expected, or what a copy may have beside that. Throws where it is something else.
  mutating func meet(_ found: LogRecord) async throws {
    let expected = try await expected()
    orderOfCopy.follow(found)
    let sum = Sum(checksum: RecordFormat.checksum(of: found.bytes), count: found.bytes.count)
    if let expected, expected.bytes == found.bytes {
      place(expected, at: found.position)
      if let record = expected.record { order.follow(record) }
      remember(sum)
    } else if case .epoch = LogEntry.decode(found.bytes) {
      endsWithEpoch = true
    } else if !recent.contains(sum) {
      throw LogCopyError.Reason.differs(position: found.position)
    }
    guard order.chain == orderOfCopy.chain else { throw LogCopyError.Reason.differs(position: found.position) }
  }

  private mutating func remember(_ sum: Sum) {
    if recent.count < Self.repetitionLimit { recent.append(sum) } else { recent[nextRecent] = sum }
    nextRecent = (nextRecent + 1) % Self.repetitionLimit
  }
}
