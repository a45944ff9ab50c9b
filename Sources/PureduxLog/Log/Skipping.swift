import Puredux

extension OrderedLog {
  /// Decides that every replica skips an entry: an entry that no program can decode any more
  /// (`LogStop.undecodable`), or that must not be applied.
  ///
  ///     try await log["boards/17"].skip(position: 17, reason: "written by the version of Tuesday")
  ///
  /// The decision is an entry at the end of the log, with its reason and time. A store that stopped at the skipped
  /// entry goes on when it is opened anew. A store that is open and has applied the entry stops (`LogStop.diverged`),
  /// and replays without it when it is opened anew. If a snapshot has the entry, that needs
  /// `LogOptions.ignoresSnapshots`, and a program that knows the rules of the whole log. A version of this library that
  /// knows no decisions stops at the decision (`LogStop.newerSchema`).
  ///
  /// All actions of the entry are skipped, up to `LogOptions.actionsPerEntry` of one writer.
  ///
  /// **A decision is taken back** by skipping it: the entry counts again. A version of this library that cannot take a
  /// decision back stops there (`LogStop.newerSchema`).
  ///
  /// **A decision that no program can carry out is refused**: the entry is in the snapshot, and the log was truncated,
  /// or sealed between entries that the snapshot has. Send an action that takes back the effect of the entry instead.
  /// The condition is checked before and after the decision is written; a decision that is then refused is taken back.
  /// If the log is truncated later, the first store that comes to the decision takes it back (`LogReport.takenBack`),
  /// and goes on.
  ///
  /// Costs a reading of the log if a snapshot has the entry.
  ///
  /// - Returns: The position of the decision.
  /// - Throws: `LogError.refused` if there is no entry at that position, or if it stands in for another entry in a copy
  ///   (`copy(to:)`). Also if no program can carry out the decision, or no store can be opened on the log. And the log's
  ///   errors: then the decision may be in the log or not.
  @discardableResult
  public func skip(position: UInt64, reason: String) async throws(LogError) -> UInt64 {
    guard position > 0, try await head() >= position else {
      throw .refused("There is no entry at position \(position).")
    }
    let fold = try await beginning()
    guard let entry = try await entry(at: position, snapshot: fold.position) else {
      throw .refused("There is no entry at position \(position).")
    }
    if case .standIn = LogEntry.decode(entry.bytes) {
      throw .refused("The entry at position \(position) stands in for an entry of the snapshot.")
    }
    try await expectSkippable(position, about: entry.skipped)
    let decision = LogEntry.Decision(
      skipped: position, time: LogEntry.now, reason: reason, takesBack: LogEntry.isDecision(entry.bytes))
    let place = try await append(LogEntry.encode(decision))
    do throws(LogError) {
      try await expectSkippable(position, about: entry.skipped)
    } catch {
      // A snapshot has been saved, or the log truncated, meanwhile. The next store finds out about any other error.
      guard case .refused = error else { return place }
      try await takeBack(place, reason: "A snapshot was saved, or the log truncated, at the same time.")
      throw error
    }
    return place
  }

  /// Appends that a decision does not count.
  func takeBack(_ decision: UInt64, reason: String) async throws(LogError) {
    let entry = LogEntry.Decision(skipped: decision, time: LogEntry.now, reason: reason, takesBack: true)
    _ = try await append(LogEntry.encode(entry))
  }

  /// Throws `LogError.refused` if no program can replay the log without an entry.
  ///
  /// - Parameter skipped: The entry that the decision at this position is about, if it is a decision.
  private func expectSkippable(_ position: UInt64, about skipped: UInt64?) async throws(LogError) {
    let instead = "Send an action that takes back its effect instead, or restore a backup from before it."
    if let (snapshot, first) = try await covering(position) {
      throw .refused(
        "The snapshot at position \(snapshot) has the entry at position \(position), and the log was truncated: the first "
          + "entry left is \(first). No program can replay the log without the entry. \(instead)")
    }
    // Behind a seal the old program saves its snapshot before decisions that it knows, and has carried out.
    if let skipped, let fold = try await snapshotFold(), skipped <= fold.position, fold.position < position,
      fold.decided.contains(skipped)
    {
      throw .refused(
        "The snapshot at position \(fold.position) has carried out the decision at position \(position), and is without the "
          + "entry at position \(skipped). \(instead)")
    }
    if let (snapshot, seal) = try await straddled(skipping: position) {
      throw .refused(
        "The snapshot at position \(snapshot) has the entry at position \(position), and entries from before and behind "
          + "the seal at position \(seal). A program that knows the rules of one side only cannot replay the log without "
          + "the entry. \(instead) If your program knows both rules, or if you go back to the old rules, skip the seal "
          + "first.")
    }
  }

  /// The snapshot and the first entry that is left, if the snapshot has the entry at a position, and the log was
  /// truncated: no program can replay the log without that entry.
  func covering(_ position: UInt64) async throws(LogError) -> (snapshot: UInt64, first: UInt64)? {
    guard let fold = try await snapshotFold(), fold.has(position), let first = try await firstLeft() else { return nil }
    return (fold.position, first)
  }

  /// The snapshot and a seal, if the snapshot has the entry at a position, and entries from both sides of the seal. No
  /// single program knows the rules of both sides, unless it was made for that.
  private func straddled(skipping position: UInt64) async throws(LogError) -> (snapshot: UInt64, seal: UInt64)? {
    guard let fold = try await snapshotFold(), fold.has(position), fold.sealedRules > 0 else { return nil }
    let head = try await head()
    var decisions = [UInt64.max: position]
    var seals: [(position: UInt64, rules: UInt32, isBehindEntries: Bool)] = []
    try await read(behind: 0, through: head) { record in
      decisions[record.position] = record.skipped
      guard record.position <= fold.position, case .seal(let seal) = LogEntry.decode(record.bytes) else { return }
      seals.append((record.position, seal.rules, false))
    }
    let skipped = LogEntry.skipped(by: decisions)
    seals.removeAll { skipped[$0.position] != nil }
    guard !seals.isEmpty else { return nil }
    var found: UInt64?
    try await read(behind: 0, through: fold.position) { record in
      guard skipped[record.position] == nil, case .entry(let header, let actions) = LogEntry.decode(record.bytes)
      else { return }
      for place in seals.indices {
        let seal = seals[place]
        if record.position < seal.position, header.rules < seal.rules, !actions.isEmpty {
          seals[place].isBehindEntries = true
        }
        if record.position > seal.position, header.rules >= seal.rules, seal.isBehindEntries {
          found = found ?? seal.position
        }
      }
    }
    return found.map { (fold.position, $0) }
  }

  /// Throws `LogError.refused` if a decision skips an entry that the snapshot has: the log is needed until the decision
  /// is carried out.
  func expectCarriedOut(by fold: Fold) async throws(LogError) {
    var decisions: [UInt64: UInt64] = [:]
    try await read(behind: fold.position, through: head()) { decisions[$0.position] = $0.skipped }
    let (position, decision) =
      LogEntry.skipped(by: decisions).filter { fold.has($0.key) }.min { $0.key < $1.key } ?? (0, 0)
    guard position == 0 else {
      throw .refused(
        "The decision at position \(decision) skips the entry at position \(position), but the snapshot at position "
          + "\(fold.position) has that entry. The log is needed until the decision is carried out: open a store once with "
          + "`LogOptions.ignoresSnapshots`. Or take the decision back: `skip(position: \(decision), reason:)`.")
    }
  }

  /// The order that a store begins with: that of the newest snapshot, or an empty one. Throws `LogError.refused` if no
  /// store can be opened on the log, as its beginning is gone.
  private func beginning() async throws(LogError) -> Fold {
    var fold = try await snapshotFold()
    while true {
      do {
        var isMissing = false
        var reader = RecordReader(self, after: fold?.position ?? 0, through: try await head())
        if let first = try await reader.next(), fold == nil, case .standIn = LogEntry.decode(first.bytes) {
          isMissing = true
        }
        if !isMissing { return fold ?? Fold() }
      } catch LogError.truncated {
      } catch {
        throw (error as? LogError) ?? .unavailable("\(error)")
      }
      // A store that follows the log may have saved a snapshot, and truncated the log, meanwhile.
      let newest = try await snapshotFold()
      guard newest?.position != fold?.position else {
        throw .refused(
          "The log was truncated, and has no snapshot of all removed entries: no store can be opened on it. Restore a "
            + "backup.")
      }
      fold = newest
    }
  }

  /// The order in the newest snapshot, if there is a snapshot that can be read.
  private func snapshotFold() async throws(LogError) -> Fold? {
    guard let newest = try await snapshots?.newest() else { return nil }
    switch EncodedSnapshot.decode(newest.bytes) {
    case .snapshot(let snapshot) where snapshot.fold.position == newest.position: return snapshot.fold
    case .snapshot, .unreadable: return nil
    case .newer:
      throw .refused(
        "The snapshot at position \(newest.position) was saved by a newer version of this library: use that version.")
    }
  }

  /// The first entry that is left, if the log was truncated, or is a copy of a truncated log.
  private func firstLeft() async throws(LogError) -> UInt64? {
    do {
      let end = try await head()
      var reader = RecordReader(self, after: 0, through: end)
      var standIn: UInt64?
      while let record = try await reader.next() {
        guard case .standIn = LogEntry.decode(record.bytes) else { return standIn.map { _ in record.position } }
        standIn = record.position
      }
      return standIn
    } catch LogError.truncated(let first) {
      return first
    } catch {
      throw (error as? LogError) ?? .unavailable("\(error)")
    }
  }

  private func read(
    behind position: UInt64, through head: UInt64, _ body: (LogRecord) -> Void
  ) async throws(LogError) {
    do {
      var reader = RecordReader(self, after: position, through: head)
      while let record = try await reader.next() { body(record) }
    } catch {
      throw (error as? LogError) ?? .unavailable("\(error)")
    }
  }

  /// Begins an epoch: from here on, positions belong to another past than before. For operators who have restored a
  /// backup by other means than this library's: a copy and an import begin an epoch by themselves.
  ///
  /// A client that knows a position of one past has not seen the entry that another past has there. So give it the epoch
  /// with the position (`LogStatistics.epoch`), and the whole state if the client's epoch is another one.
  ///
  /// The epoch is an entry at the end of the log, which every replica applies; the state does not change. A version of
  /// this library that knows no epochs stops there (`LogStop.newerSchema`).
  ///
  /// - Returns: The number of the epoch, which is random.
  /// - Throws: `LogError.refused` if the log is empty, or if no store can be opened on it because its beginning is gone.
  ///   And the log's errors: then the epoch may have begun or not.
  @discardableResult
  public func beginEpoch(reason: String) async throws(LogError) -> UInt64 {
    guard try await head() > 0 else { throw .refused("There is nothing in the log.") }
    _ = try await beginning()
    return try await appendEpoch(reason: reason)
  }

  @discardableResult
  func appendEpoch(reason: String) async throws(LogError) -> UInt64 {
    let epoch = LogEntry.Epoch(number: .random(in: 1 ... .max), time: LogEntry.now, reason: reason)
    _ = try await append(LogEntry.encode(epoch))
    return epoch.number
  }

  /// Seals the log for newer rules, as `RootStore.sealLog` does, from outside of the old program, while that runs. Each
  /// of its stores saves a snapshot when it comes to the seal, and stops there (`LogStop.newerRules`). If no store of the
  /// log is open, start the old program once more: the new program begins with that snapshot.
  ///
  ///     try await cluster["boards/17"].seal(forRules: 2, reason: "bids by tens")
  ///
  /// Costs a reading of the entries behind the newest snapshot.
  ///
  /// - Returns: The position of the seal. The new program can begin when there is a snapshot at that position, or behind
  ///   it.
  /// - Throws: `LogError.refused` if the log is empty, keeps no snapshots, or has entries of these rules or newer ones.
  ///   Also if no store can be opened on it because its beginning is gone. And the log's errors: then it is sealed or
  ///   not.
  @discardableResult
  public func seal(forRules rules: UInt32, reason: String) async throws(LogError) -> UInt64 {
    guard snapshots != nil else { throw .refused("The log keeps no snapshots.") }
    let head = try await head()
    guard head > 0 else { throw .refused("There is nothing in the log.") }
    let fold = try await beginning()
    var decisions: [UInt64: UInt64] = [:]
    // The last entry under each number of rules: whether it is skipped is known at the end.
    var ruled: [UInt64: UInt32] = [:]
    try await read(behind: fold.position, through: head) { record in
      decisions[record.position] = record.skipped
      switch LogEntry.decode(record.bytes) {
      case .entry(let header, _) where header.rules >= rules: ruled[record.position] = header.rules
      case .entry(let header, _): ruled[0] = max(ruled[0] ?? 0, header.rules)
      case .seal(let seal): ruled[record.position] = seal.rules
      default: break
      }
    }
    let skipped = LogEntry.skipped(by: decisions)
    let known = ruled.filter { skipped[$0.key] == nil }.values.max() ?? 0
    guard rules > max(known, fold.rules, fold.sealedRules) else {
      throw .notSealable(max(known, fold.rules, fold.sealedRules))
    }
    return try await append(.init(rules: rules, time: LogEntry.now, reason: reason))
  }

  func append(_ seal: LogEntry.Seal) async throws(LogError) -> UInt64 { try await append(LogEntry.encode(seal)) }

  /// Returns the position when the entry is as safe as the log makes it.
  package func append(_ entry: [UInt8]) async throws(LogError) -> UInt64 {
    let outcome = await withCheckedContinuation { continuation in
      append(entry) { continuation.resume(returning: $0) }
    }
    return try outcome.get()
  }

  private func entry(at position: UInt64, snapshot: UInt64) async throws(LogError) -> LogRecord? {
    do {
      for try await records in records(after: position - 1) {
        if let first = records.first(where: { $0.position >= position }) {
          return first.position == position ? first : nil
        }
      }
      throw LogError.unavailable("The log's entries have come to an end.")
    } catch LogError.truncated(let first) {
      throw .refused(
        "The entry at position \(position) was removed by a truncation: the first entry left is \(first). The snapshot at "
          + "position \(snapshot) has its effect. Send an action that takes back this effect instead.")
    } catch {
      throw (error as? LogError) ?? .unavailable("\(error)")
    }
  }
}

extension LogRecord {
  /// The position of the entry that this one decides about, if it is a decision about an earlier entry.
  var skipped: UInt64? {
    guard LogEntry.isDecision(bytes), case .decision(let decision) = LogEntry.decode(bytes), decision.skipped < position
    else { return nil }
    return decision.skipped
  }
}

extension Fold {
  /// Whether an entry has been applied, and was not skipped by decision.
  func has(_ entry: UInt64) -> Bool { entry <= position && !decided.contains(entry) }
}

extension LogError {
  /// A log cannot be sealed for rules that it has already.
  static func notSealable(_ rules: UInt32) -> LogError {
    .refused("The log has rules \(rules) already: it can be sealed only for newer rules.")
  }
}

extension LogEntry {
  /// In seconds since 1970.
  static var now: UInt64 { UInt64(clamping: WallTime.now.since1970.components.seconds) }
}
