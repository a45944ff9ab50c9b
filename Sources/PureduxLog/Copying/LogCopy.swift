/// The progress of a copy.
public struct LogCopyProgress: Sendable, Hashable {
  /// The log's key, if it has one.
  public var key: String?
  /// How many of its positions are in the copy, other logs' included if the engine shares positions.
  public var copied: UInt64
  /// How many positions are to be copied.
  public var total: UInt64

  /// For tests of code that shows progress.
  public init(key: String?, copied: UInt64, total: UInt64) {
    (self.key, self.copied, self.total) = (key, copied, total)
  }
}

/// The result of a copy.
public struct LogCopyReport: Sendable, Hashable {
  /// The number of copied logs that are not empty.
  public var logs: UInt64
  /// Their entries in the copy, without those only in its snapshot.
  public var entries: UInt64
  /// How many of those are new.
  public var added: UInt64
  /// The errors of incompletely copied logs; an exported file has nothing of them. Damaged logs with unreadable keys
  /// share one error without a key, which names one and counts the others.
  public var failures: [LogCopyError]

  /// For tests of code that reads reports.
  public init(logs: UInt64 = 0, entries: UInt64 = 0, added: UInt64 = 0, failures: [LogCopyError] = []) {
    (self.logs, self.entries, self.added, self.failures) = (logs, entries, added, failures)
  }
}

extension OrderedLog {
  /// Copies the log to another one, on any engine: its entries, snapshot, decisions and seals. A store opened on the
  /// copy has the same state, and continues.
  ///
  /// States and actions are not decoded. The order and its hash stay; positions may change, with the references to
  /// them. The copy of a truncated log begins with stand-ins for entries that the snapshot refers to, and the snapshot,
  /// without which a store stops at the first stand-in.
  ///
  /// - The log may be in use: a call copies the entries that exist when it begins. The *target* must not be followed or
  ///   written to until the last call has returned.
  /// - A repeated call compares the target with the log, and continues. A target with anything else is refused
  ///   unchanged (`.differs`), and so is one whose beginning the log has truncated since (`.truncatedSince`). A
  ///   snapshot that the log has replaced (`LogOptions.ignoresSnapshots`) is replaced in the copy.
  /// - An epoch begins at the copy's end (`LogStatistics.epoch`), as its positions may differ. Then the copy must have
  ///   every entry, in order, and the snapshot. If nothing was added, an epoch begins only if the target does not end
  ///   with one. A log copied to itself stays unchanged.
  ///
  /// Memory: about 1 MB, the snapshot, and 24 bytes for each repetition in the target and each run of entries with
  /// consecutive positions in both logs. Two `FileLog`s have one run, and one more for each addition in the copy, such
  /// as an epoch. If logs share positions, as on NATS, each entry may be a run.
  ///
  /// Time: reads both logs up to twice. A `FileLog` takes many entries with one disk write, a `PostgreSQLLog` in one
  /// transaction; other targets get one at a time, so that none follows a failed one.
  ///
  /// - Parameters:
  ///   - target: The log that becomes a copy.
  ///   - reason: The epoch's reason; nil for no epoch, if no client learns the target's positions.
  ///   - progress: Called from time to time.
  /// - Throws: `LogCopyError`; `CancellationError` if the task is cancelled.
  @discardableResult
  public func copy(
    to target: any OrderedLog, reason: String? = "copied", progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    try await LogCopy(source: self, target: target, key: name, reason: reason, progress: progress).run()
  }

  /// Copies the log to a file (`LogArchive`), under its key, or `""` if it has none.
  ///
  /// The file is `<path>.new` until it is complete, and then replaces an earlier regular file. If the log is truncated
  /// meanwhile, the export starts over, up to three attempts in all.
  ///
  /// - Throws: As `copy(to:)`, but `LogError.truncated` (`.log`) for `.truncatedSince`. `LogError.refused` if the path,
  ///   or `<path>.new`, exists and is not a regular file, such as a symbolic link.
  @discardableResult
  public func export(
    to path: String, progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    try await ArchiveFile.write(path) { archive in
      try await copy(to: ArchivedTree(name ?? "", in: archive), reason: nil, progress: progress)
    }
  }
}

extension LogDirectory {
  /// Copies logs one after the other to another directory, each as `OrderedLog.copy(to:)` does.
  ///
  ///     let report = try await files.copy(to: cluster, prefix: "boards/")
  ///     for failure in report.failures { print(failure) }
  ///
  /// The target's logs under other keys stay. A log that cannot be copied, because of its own state or its target's, is
  /// left out, and listed in `failures`, unless it was removed meanwhile.
  ///
  /// - Parameters:
  ///   - target: The directory of the copies, under the same keys.
  ///   - prefix: The prefix of the keys; all by default.
  ///   - reason: As for one log.
  ///   - progress: Called with each log's progress from time to time.
  /// - Throws: `LogCopyError`, with the key, if a directory is unavailable, in use or full (`.log`), and the errors of
  ///   `keys(prefix:)`. `CancellationError` if the task is cancelled.
  public func copy(
    to target: any LogDirectory, prefix: String = "", reason: String? = "copied",
    progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    var report = LogCopyReport()
    var keys = keys(prefix: prefix).makeAsyncIterator()
    while true {
      let key: String
      do {
        guard let next = try await keys.next() else { return report }
        key = next
      } catch LogError.damaged(let position, let text) {
        report.failures.append(LogCopyError(key: nil, reason: .log(.damaged(position: position, text))))
        return report
      }
      do {
        report += try await LogCopy(
          source: self[key], target: target[key], key: key, reason: reason, progress: progress
        ).run()
      } catch let error as LogCopyError where error.isOfOneLog {
        try await (target as? ArchiveFile)?.leaveOut(key)
        if error.reason != .log(.removed) { report.failures.append(error) }
      }
    }
  }

  /// Copies logs to a file, also while stores follow them: a backup to read (`LogArchive`) and to import. Each log is
  /// copied up to a position of its own, at no common moment.
  ///
  /// The file is `<path>.new` until it is complete, and then replaces an earlier regular file, even if logs are left
  /// out. Keep a copy of that until you have checked `failures`. A log truncated meanwhile is read again, up to three
  /// times in all.
  ///
  /// - Throws: As `copy(to:)`; `LogError.refused` if the path, or `<path>.new`, exists and is not a regular file, such
  ///   as a symbolic link.
  public func export(
    to path: String, prefix: String = "", progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    try await ArchiveFile.write(path) { archive in
      try await copy(to: archive, prefix: prefix, reason: nil, progress: progress)
    }
  }

  /// Copies the logs of an exported file, each as `OrderedLog.copy(to:)` does. The whole file is checked first: a
  /// damaged one changes nothing.
  ///
  /// - Throws: As `copy(to:)`, and the errors of `LogArchive.init(path:)`.
  public func `import`(
    from path: String, prefix: String = "", reason: String? = "imported",
    progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    try await LogArchive(path: path).copy(to: self, prefix: prefix, reason: reason, progress: progress)
  }
}

extension LogCopyReport {
  static func += (sum: inout LogCopyReport, report: LogCopyReport) {
    sum.logs += report.logs
    sum.entries += report.entries
    sum.added += report.added
    sum.failures += report.failures
  }
}

struct LogCopy: Sendable {
  let source: any OrderedLog
  let target: any OrderedLog
  let key: String?
  let reason: String?
  let progress: (@Sendable (LogCopyProgress) -> Void)?

  private struct Beginning {
    var standIns: [UInt64] = []
    var moment: UInt64 = 0
    var snapshot: EncodedSnapshot?
    var newest: Fold?

    var position: UInt64 { standIns.last ?? 0 }
  }

  private struct StandIns {
    var positions: [UInt64] = []
    var end: UInt64 = 0
    var moment: UInt64 = 0
  }

  private static let batchBytes = 1 << 20
  private static let batchCount = 1024

  private static let attempts = 3

  func run() async throws -> LogCopyReport {
    do {
      return try await copied(Self.attempts)
    } catch let error as LogError {
      throw LogCopyError(key: key, reason: .log(error))
    } catch let reason as LogCopyError.Reason {
      throw LogCopyError(key: key, reason: reason)
    }
  }

  /// Starts over if the log was truncated past the snapshot, or past a file's beginning.
  private func copied(_ attempts: Int) async throws -> LogCopyReport {
    do {
      return try await copied()
    } catch LogCopyError.Reason.noSnapshot where attempts > 1 {
    } catch LogCopyError.Reason.truncatedSince(let first) {
      guard let archived = target as? ArchivedTree else { throw LogCopyError.Reason.truncatedSince(first: first) }
      guard attempts > 1 else { throw LogError.truncated(first: first) }
      try await archived.leaveOut()
    }
    return try await copied(attempts - 1)
  }

  private func copied() async throws -> LogCopyReport {
    // Read before the head, so that the log has all entries of the snapshot.
    let newest = try await newest(of: source)
    let head = try await source.head()
    if let newest, newest.fold.position > head {
      throw LogError.damaged(
        position: head, "The log ends at \(head), and there is a snapshot at \(newest.fold.position).")
    }
    let end = try await target.head()
    if head == 0, end == 0 { return LogCopyReport() }
    let beginning = try await beginning(newest, through: head, target: end)
    tell(beginning.position, of: beginning, head)
    var comparison = try await compare(beginning, through: head, target: end)
    let present = comparison.count
    try await add(to: &comparison, beginning, newest, through: head, behind: end)
    // An interrupted copy has all entries and no epoch.
    if let reason, !isItself, comparison.count > present || !comparison.endsWithEpoch {
      try await target.appendEpoch(reason: reason)
    }
    if comparison.count > present { try await check(beginning, through: head) }
    if let newest, newest.fold.position >= beginning.position {
      try await checkSnapshot(newest, beginning, comparison.places)
    }
    tell(head, of: beginning, head)
    let entries = comparison.count - UInt64(beginning.standIns.count)
    return LogCopyReport(logs: 1, entries: entries, added: min(entries, comparison.count - present))
  }

  private var isItself: Bool {
    if (source as AnyObject) === (target as AnyObject) { return true }
    guard let source = source as? any LogOfEngine, let target = target as? any LogOfEngine else { return false }
    return source.engine === target.engine && source.name == target.name
  }

  private func tell(_ position: UInt64, of beginning: Beginning, _ head: UInt64) {
    let start = beginning.position
    progress?(LogCopyProgress(key: key, copied: position - min(position, start), total: head - min(head, start)))
  }

  // MARK: The beginning

  private func newest(of log: any OrderedLog) async throws -> EncodedSnapshot? {
    // A store that ignores snapshots was opened on an empty log.
    guard let stored = try await log.snapshots?.newest(), stored.position > 0 else { return nil }
    switch EncodedSnapshot.decode(stored.bytes) {
    case .newer: throw LogCopyError.Reason.newerFormat(position: stored.position)
    case .snapshot(let snapshot) where snapshot.fold.position == stored.position: return snapshot
    case .snapshot, .unreadable: throw LogCopyError.Reason.unreadableSnapshot(position: stored.position)
    }
  }

  private func beginning(
    _ newest: EncodedSnapshot?, through head: UInt64, target end: UInt64
  ) async throws -> Beginning {
    guard let (first, own) = try await missing(through: head) else { return Beginning(newest: newest?.fold) }
    guard target.snapshots != nil else { throw LogCopyError.Reason.keepsNoSnapshots }
    let present = try await targetRead { try await standIns(of: target, through: end) }
    if end > 0, present.end == 0 { throw LogCopyError.Reason.truncatedSince(first: first) }
    guard let newest, try await isWhole(behind: newest.fold.position, through: head) else {
      throw LogCopyError.Reason.noSnapshot(first: first)
    }
    // A copy of a copy has the same moment while the first copy has its first snapshot.
    let moment = newest.fold.position == own.end ? own.moment : newest.fold.moment
    let anew = Beginning(
      standIns: newest.fold.positions, moment: moment, snapshot: newest, newest: newest.fold)
    guard let last = present.positions.last else { return anew }
    guard let kept = try await kept(), kept.position >= present.end else {
      guard present.moment == moment, anew.standIns.starts(with: present.positions) else {
        throw LogCopyError.Reason.truncatedSince(first: first)
      }
      return anew
    }
    // The log may have lost the target's first snapshot.
    var order = newest.fold
    if order.position < last, last <= head { order = try await followed(order, through: last) }
    let isSame =
      if last == own.end {
        present.moment == own.moment
      } else {
        last > own.end && (order.position > last || order.position == last && order.moment == present.moment)
      }
    guard isSame else { throw LogCopyError.Reason.truncatedSince(first: first) }
    return Beginning(standIns: present.positions, moment: present.moment, newest: order)
  }

  private func kept() async throws -> Fold? {
    guard let stored = try await target.snapshots?.newest(), stored.position > 0 else { return nil }
    guard case .snapshot(let snapshot) = EncodedSnapshot.decode(stored.bytes), snapshot.fold.position == stored.position
    else { throw LogCopyError.Reason.differs(position: stored.position) }
    return snapshot.fold
  }

  private func followed(_ order: Fold, through position: UInt64) async throws -> Fold {
    var order = order
    var reader = RecordReader(source, after: order.position, through: position)
    while let record = try await sourceRead({ try await reader.next() }) { order.follow(record) }
    return order
  }

  private func missing(through head: UInt64) async throws -> (first: UInt64, standIns: StandIns)? {
    do {
      let found = try await standIns(of: source, through: head)
      return found.end == 0 ? nil : (found.end + 1, found)
    } catch LogError.truncated(let first) {
      return (first, StandIns())
    }
  }

  private func isWhole(behind position: UInt64, through head: UInt64) async throws -> Bool {
    do {
      var reader = RecordReader(source, after: position, through: head)
      _ = try await reader.next()
      return true
    } catch LogError.truncated {
      return false
    }
  }

  private func standIns(of log: any OrderedLog, through head: UInt64) async throws -> StandIns {
    var reader = RecordReader(log, after: 0, through: head)
    var found = StandIns()
    while let record = try await reader.next(), case .standIn(let position, let moment) = LogEntry.decode(record.bytes)
    {
      // Otherwise a repetition.
      guard position > found.positions.last ?? 0 else { continue }
      found.positions.append(position)
      (found.end, found.moment) = (record.position, moment)
    }
    return found
  }

  // MARK: Copying

  private func compare(
    _ beginning: Beginning, through head: UInt64, target end: UInt64
  ) async throws -> Comparison {
    let kept = try await kept()
    if let kept, kept.position > end { throw LogCopyError.Reason.differs(position: kept.position) }
    var comparison = Comparison(
      RecordReader(source, after: beginning.position, through: head), standIns: beginning.standIns,
      moment: beginning.moment, newest: beginning.newest, kept: kept)
    var reader = RecordReader(target, after: 0, through: end)
    while let found = try await targetRead({ try await reader.next() }) {
      try await sourceRead { try await comparison.meet(found) }
    }
    try await compareOrder(comparison, beginning, end)
    return comparison
  }

  /// If the log's snapshot is newer than the target, checks that the target leads to it.
  private func compareOrder(_ comparison: Comparison, _ beginning: Beginning, _ end: UInt64) async throws {
    guard comparison.order == nil, let newest = beginning.newest, var order = comparison.orderOfCopy else { return }
    var reader = RecordReader(source, after: comparison.last, through: newest.position)
    while let record = try await sourceRead({ try await reader.next() }) {
      order.follow(LogRecord(position: order.position + 1, bytes: record.bytes))
    }
    guard order.chain == newest.chain else { throw LogCopyError.Reason.differs(position: end) }
  }

  private func targetRead<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
      return try await body()
    } catch LogError.truncated(let first) {
      // A copy is never truncated.
      throw LogCopyError.Reason.differs(position: first)
    }
  }

  /// The log may have been truncated past the copy's beginning.
  private func sourceRead<Result>(_ body: () async throws -> Result) async throws -> Result {
    do {
      return try await body()
    } catch LogError.truncated(let first) {
      throw LogCopyError.Reason.truncatedSince(first: first)
    }
  }

  private func add(
    to comparison: inout Comparison, _ beginning: Beginning, _ newest: EncodedSnapshot?, through head: UInt64,
    behind end: UInt64
  ) async throws {
    var end = end
    var needsSnapshot = beginning.snapshot != nil
    while true {
      if needsSnapshot, comparison.hasBegun, let snapshot = beginning.snapshot {
        try await save(snapshot, comparison.places)
        needsSnapshot = false
      }
      try Task.checkCancellation()
      guard let last = try await addSome(to: &comparison, behind: &end) else { break }
      tell(last, of: beginning, head)
    }
    if let newest, newest.fold.position >= beginning.position { try await save(newest, comparison.places) }
  }

  private func addSome(to comparison: inout Comparison, behind end: inout UInt64) async throws -> UInt64? {
    let begins = !comparison.hasBegun
    guard let dense = target as? any DenseLog else {
      guard let expected = try await expected(of: &comparison) else { return nil }
      comparison.place(expected, at: try await target.append(expected.bytes))
      return expected.position
    }
    var entries: [[UInt8]] = []
    var bytes = 0
    var last: UInt64?
    // Stand-ins have their own batch: the snapshot is saved after them.
    while bytes < Self.batchBytes, entries.count < Self.batchCount, !(begins && comparison.hasBegun),
      let expected = try await expected(of: &comparison)
    {
      entries.append(expected.bytes)
      bytes += expected.bytes.count
      last = expected.position
      comparison.place(expected, at: end + UInt64(entries.count))
    }
    if !entries.isEmpty { try await dense.append(entries, behind: end) }
    end += UInt64(entries.count)
    return last
  }

  private func expected(of comparison: inout Comparison) async throws -> Comparison.Expected? {
    do {
      guard let expected = try await comparison.expected() else { return nil }
      guard expected.bytes.count <= target.entryLimit else {
        throw LogCopyError.Reason.tooLarge(position: expected.position)
      }
      return expected
    } catch LogError.truncated(let first) {
      throw LogCopyError.Reason.truncatedSince(first: first)
    }
  }

  private func save(_ snapshot: EncodedSnapshot, _ places: PositionMap) async throws {
    guard let snapshots = target.snapshots else { return }
    let moved = try moved(snapshot, places)
    if let archived = target as? ArchivedTree, moved.bytes.count > archived.snapshotLimit {
      throw LogCopyError.Reason.tooLarge(position: snapshot.fold.position)
    }
    let kept = try await snapshots.newest()
    if kept == moved { return }
    if kept?.position == moved.position {
      // The log has replaced its snapshot (`LogOptions.ignoresSnapshots`). If an archive is older than that,
      // `checkSnapshot` throws.
      if !(source is ArchivedTree) { try await snapshots.replace(with: moved) }
    } else {
      try await snapshots.save(moved)
    }
  }

  private func moved(_ snapshot: EncodedSnapshot, _ places: PositionMap) throws -> LogSnapshot {
    var moved = snapshot
    guard let fold = snapshot.fold.moved({ places[$0] }) else {
      throw LogCopyError.Reason.unreadableSnapshot(position: snapshot.fold.position)
    }
    moved.fold = fold
    return LogSnapshot(position: fold.position, bytes: moved.bytes)
  }

  // MARK: Verifying the copy

  private func check(_ beginning: Beginning, through head: UInt64) async throws {
    let end = try await target.head()
    var comparison = try await compare(beginning, through: head, target: end)
    if try await sourceRead({ try await comparison.expected() }) != nil {
      throw LogCopyError.Reason.differs(position: end)
    }
  }

  private func checkSnapshot(
    _ snapshot: EncodedSnapshot, _ beginning: Beginning, _ places: PositionMap
  ) async throws {
    guard let snapshots = target.snapshots else { return }
    let expected = try moved(snapshot, places)
    let kept = try await snapshots.newest()
    // The snapshot is only a cache, unless the copy begins with it.
    let isThere = kept.map { $0 == expected || $0.position > expected.position } ?? beginning.standIns.isEmpty
    if !isThere { throw LogCopyError.Reason.differs(position: expected.position) }
  }
}

package protocol LogOfEngine: OrderedLog {
  associatedtype Engine: AnyObject

  var engine: Engine { get }
}
