/// How far a copy has come.
public struct LogCopyProgress: Sendable, Hashable {
  /// The key of the log that is being copied, if it has one.
  public var key: String?
  /// How many of its positions are in the copy. On an engine where logs share positions those of others are among them.
  public var copied: UInt64
  /// How many there are to be.
  public var total: UInt64

  /// For tests of what is told the progress: copies make their own.
  public init(key: String?, copied: UInt64, total: UInt64) {
    (self.key, self.copied, self.total) = (key, copied, total)
  }
}

/// What a copy has made.
public struct LogCopyReport: Sendable, Hashable {
  /// How many logs were copied that are not empty.
  public var logs: UInt64
  /// How many entries of them are in the copy, beside those that only its snapshot has.
  public var entries: UInt64
  /// How many of those were not there before.
  public var added: UInt64
  /// Why logs of a directory were not copied to their end, by their keys. Damaged logs whose keys cannot be read have
  /// one error together, without a key: its text names one of them and counts the others. A file has nothing of them.
  public var failures: [LogCopyError]

  /// For tests of what reads a report: copies make their own.
  public init(logs: UInt64 = 0, entries: UInt64 = 0, added: UInt64 = 0, failures: [LogCopyError] = []) {
    (self.logs, self.entries, self.added, self.failures) = (logs, entries, added, failures)
  }
}

extension OrderedLog {
  /// Copies the log to another one, on whatever engine: its entries, its snapshot, what was decided and sealed. A store
  /// that is opened on the copy has the same state, and goes on.
  ///
  ///     try await files["boards/17"].copy(to: cluster["boards/17"])
  ///
  /// It knows no states and actions. Positions may be others in the copy, and what names one in the log names that of
  /// the same entry there. The order, and so the hash over it, stays. Of a log that was truncated the copy begins with
  /// the snapshot: entries that stand in for what that has come before it, and a store that has not begun with the
  /// snapshot stops at the first of them, as at a truncated log.
  ///
  /// **The log may be in use.** Copied is what it has when this begins; what comes later is with the next call. The
  /// *target* must not be followed by a store, or written to, until the last one has returned.
  ///
  /// **It can be repeated.** Where it was cut short, as a log was away or the process has died, the same call compares
  /// what is there with the log, and goes on behind that. A target that has anything else is refused, and not changed
  /// (`.differs`); so is one whose beginning cannot be compared any more, as the log was truncated since
  /// (`.truncatedSince`). Where the log has another snapshot at a position by now (`LogOptions.ignoresSnapshots`), it
  /// takes the place of the target's.
  ///
  /// **It is compared.** As positions of the log mean something else in the copy, an epoch begins at its end
  /// (`LogStatistics.epoch`). Then it is read, and is to have every entry, in this order, and the snapshot. Where there
  /// is nothing to add none begins, unless the target has none behind what was copied: that may be a copy that was cut
  /// short. So a file that is imported into the log that it was exported from begins one, too, and once. A log that is
  /// copied to itself stays as it is.
  ///
  /// **It takes** memory for a batch of about 1 MB, for the snapshot, and 24 bytes for each run of entries whose
  /// positions follow one another in both logs, and for each entry that the target has twice. From one `FileLog` to
  /// another that is one run, and one more wherever the copy has something beside that, as the epoch of an earlier
  /// call; where logs share positions, as on NATS, there may be as many as entries.
  ///
  /// The log is read up to twice, the target as often. A `FileLog` as target takes many entries with one write of the
  /// disk, a `PostgreSQLLog` in one transaction; any other is given one at a time, as what comes behind one that fails
  /// would be out of order.
  ///
  /// - Parameters:
  ///   - target: The log that becomes a copy.
  ///   - reason: Why there is a copy, for who reads its epoch. With nil none begins: for a target that nobody is told
  ///     positions of.
  ///   - progress: Told how far the copy has come, from time to time.
  /// - Throws: `LogCopyError`; `CancellationError` where the task is cancelled.
  @discardableResult
  public func copy(
    to target: any OrderedLog, reason: String? = "copied", progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    try await LogCopy(source: self, target: target, key: name, reason: reason, progress: progress).run()
  }

  /// Copies the log to a file (`LogArchive`), under its key; under "" where it has none.
  ///
  /// The file has its name when it is whole: until then it is `<path>.new`. An earlier regular file is replaced. If the
  /// log is truncated meanwhile, the export begins anew, three times in all.
  ///
  /// - Throws: As `copy(to:)`, but `LogError.truncated` (`.log`) for `.truncatedSince`. `LogError.refused` if the path,
  ///   or `<path>.new`, has anything but a regular file: a symbolic link, a device, a pipe or a directory.
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
  /// Copies logs to another directory, each as `OrderedLog.copy(to:)` does, one after the other: to another disk, from
  /// files to a cluster, or back.
  ///
  ///     let report = try await files.copy(to: cluster, prefix: "boards/")
  ///     for failure in report.failures { print(failure) }
  ///
  /// What the target has under other keys stays. A log that cannot be copied, as it or what the target has under its
  /// key is not as it should be, is left out, and the report says why. One that is removed meanwhile is not missed.
  ///
  /// - Parameters:
  ///   - target: Where the copies are made, each under the key of its log.
  ///   - prefix: The keys that begin with this text; all by default.
  ///   - reason: As for one log.
  ///   - progress: Told how far the copy of each log has come, from time to time.
  /// - Throws: `LogCopyError`, with the key, where one of the directories is away, in use or full (`.log`), and what
  ///   `keys(prefix:)` throws.
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
        // Trees whose keys cannot be read. All others have come.
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

  /// Copies logs to a file, which can be kept as a backup, read (`LogArchive`), and imported: also while stores follow
  /// them. Each is a prefix of what it will be; no moment is common to all of them.
  ///
  ///     let report = try await log.export(to: "backups/monday")
  ///     for failure in report.failures { print(failure) }
  ///
  /// The file has its name when it is whole: until then it is `<path>.new`. An earlier regular file is replaced, even
  /// if logs are left out: keep a copy of it until you have looked at `failures`. A log that is truncated meanwhile is
  /// read anew, three times in all.
  ///
  /// - Throws: As `copy(to:)`; `LogError.refused` if the path, or `<path>.new`, has anything but a regular file: a
  ///   symbolic link, a device, a pipe or a directory.
  public func export(
    to path: String, prefix: String = "", progress: (@Sendable (LogCopyProgress) -> Void)? = nil
  ) async throws -> LogCopyReport {
    try await ArchiveFile.write(path) { archive in
      try await copy(to: archive, prefix: prefix, reason: nil, progress: progress)
    }
  }

  /// Copies the logs of a file that was exported here, each as `OrderedLog.copy(to:)` does. The file is read once
  /// before, so that nothing is changed if it is not whole.
  ///
  /// - Throws: As `copy(to:)`, and what `LogArchive.init(path:)` throws.
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

/// One copy of one log.
struct LogCopy: Sendable {
  let source: any OrderedLog
  let target: any OrderedLog
  let key: String?
  let reason: String?
  let progress: (@Sendable (LogCopyProgress) -> Void)?

  /// What the copy begins with.
  private struct Beginning {
    /// The positions of the log that entries stand in for; none where the log is whole.
    var standIns: [UInt64] = []
    var moment: UInt64 = 0
    /// What is saved behind those; none where it is there, or the log is whole.
    var snapshot: EncodedSnapshot?
    /// The order that the log's snapshot says, at the end of what stands in or behind it.
    var newest: Fold?

    /// Behind which the log's entries are copied.
    var position: UInt64 { standIns.last ?? 0 }
  }

  /// What a log begins with that stands in for entries of the one that it is a copy of.
  private struct StandIns {
    /// Those that are stood in for, in order.
    var positions: [UInt64] = []
    /// The position of the last one that stands in; 0 where there is none.
    var end: UInt64 = 0
    var moment: UInt64 = 0
  }

  /// How many bytes and entries are appended at once.
  private static let batchBytes = 1 << 20
  private static let batchCount = 1024

  /// How often a log is read anew that is truncated meanwhile.
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

  /// Begins anew where the log was truncated behind the snapshot that was found, or what a file was to begin with.
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
    // Before the head, so that the log is to have what it is of.
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
    // What has all entries of the log and no epoch is a copy that was cut short before it, unless it is the log itself.
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
    // A snapshot at position 0 has nothing: a store that ignores snapshots has been opened on an empty log.
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
    // A copy of a copy begins at the same moment, as long as that has its first snapshot.
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
    // The snapshot that the target begins with may be there no more in the log.
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

  /// The order that the target's snapshot says.
  private func kept() async throws -> Fold? {
    guard let stored = try await target.snapshots?.newest(), stored.position > 0 else { return nil }
    guard case .snapshot(let snapshot) = EncodedSnapshot.decode(stored.bytes), snapshot.fold.position == stored.position
    else { throw LogCopyError.Reason.differs(position: stored.position) }
    return snapshot.fold
  }

  /// The order at a position of the log, behind one where it is known.
  private func followed(_ order: Fold, through position: UInt64) async throws -> Fold {
    var order = order
    var reader = RecordReader(source, after: order.position, through: position)
    while let record = try await sourceRead({ try await reader.next() }) { order.follow(record) }
    return order
  }

  /// The first entry that is left of a log that is truncated, and what stands in for those before; nil where nothing is
  /// missing.
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
      // Another one is a repetition.
      guard position > found.positions.last ?? 0 else { continue }
      found.positions.append(position)
      (found.end, found.moment) = (record.position, moment)
    }
    return found
  }

  // MARK: Copying

  /// As far as the target goes.
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

  /// Where the log's snapshot is of more than the target has: whether the target's own leads to the same.
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

  /// What reads the log, which may have been truncated behind what the copy begins with.
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

  /// Returns the position of the last entry that was added, in the log; nil where the copy is whole.
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
    // What stands in is there before anything else: a snapshot is to be saved behind it.
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
      // In the log another one has taken its place (`LogOptions.ignoresSnapshots`). Of an archive it is not known
      // whether that was before or since: that is found to be different.
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

  // MARK: Looking at what has been copied

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
    // Where it is not kept a cache is missing, unless the copy begins with it.
    let isThere = kept.map { $0 == expected || $0.position > expected.position } ?? beginning.standIns.isEmpty
    if !isThere { throw LogCopyError.Reason.differs(position: expected.position) }
  }
}

/// A log that is made anew whenever its engine is asked for it.
package protocol LogOfEngine: OrderedLog {
  associatedtype Engine: AnyObject

  var engine: Engine { get }
}
