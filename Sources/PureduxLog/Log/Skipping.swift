import Puredux

extension OrderedLog {
  /// Decides that every replica skips an entry that no program can decode any more (`LogStop.undecodable`), or that
  /// must not be applied.
  ///
  /// The decision is an entry at the end of the log, with its reason and time. It skips all actions of the entry, up to
  /// `LogOptions.actionsPerEntry` of one writer. To take it back, skip the decision.
  ///
  /// - A store that stopped at the entry continues when it is reopened.
  /// - An open store that has applied it stops (`LogStop.diverged`), and replays without it when reopened. If a
  ///   snapshot has the entry, that takes `LogOptions.ignoresSnapshots`, and a program that knows all rules of the log.
  ///   Until then, stores neither truncate nor erase the log.
  /// - A version of this library that knows no decisions, or cannot take them back, stops there
  ///   (`LogStop.newerSchema`).
  ///
  /// A decision is refused if no program can carry it out: a snapshot has the entry, and the log was truncated, or
  /// sealed between entries of the snapshot. Send an action that reverts the entry's effect instead. If this is only
  /// found after the decision was written, the call takes it back. If the log is truncated later, the first store that
  /// reaches the decision takes it back (`LogReport.takenBack`), and continues.
  ///
  /// Cost: one reading of the log if a snapshot has the entry.
  ///
  /// - Returns: The position of the decision.
  /// - Throws: `LogError.refused` if there is no entry at that position, or a stand-in of a copy (`copy(to:)`). Also if
  ///   no program can carry out the decision, or no store can be opened on the log. After the log's own errors, the
  ///   decision may be in the log.
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
      // Refused: a snapshot was saved, or the log truncated, meanwhile. After any other error the decision stays
      // unchecked: a store that reaches it and cannot carry it out takes it back, or stops.
      guard case .refused = error else { return place }
      try await takeBack(place, reason: "A snapshot was saved, or the log truncated, at the same time.")
      throw error
    }
    return place
  }

  func takeBack(_ decision: UInt64, reason: String) async throws(LogError) {
    let entry = LogEntry.Decision(skipped: decision, time: LogEntry.now, reason: reason, takesBack: true)
    _ = try await append(LogEntry.encode(entry))
  }

  /// Throws `LogError.refused` if no program can replay the log without an entry.
  ///
  /// - Parameter skipped: The entry that it decides about, if it is a decision.
  private func expectSkippable(_ position: UInt64, about skipped: UInt64?) async throws(LogError) {
    let instead = "Send an action that takes back its effect instead, or restore a backup from before it."
    if let (snapshot, first) = try await covering(position) {
      throw .refused(
        "The snapshot at position \(snapshot) has the entry at position \(position), and the log was truncated: the first "
          + "entry left is \(first). No program can replay the log without the entry. \(instead)")
    }
    // At a seal, the old program saves a snapshot before decisions that it has carried out.
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

  /// Nil unless the snapshot has the entry, and the log was truncated.
  func covering(_ position: UInt64) async throws(LogError) -> (snapshot: UInt64, first: UInt64)? {
    guard let fold = try await snapshotFold(), fold.has(position), let first = try await firstLeft() else { return nil }
    return (fold.position, first)
  }

  /// Nil unless the snapshot has the entry, and entries from both sides of the seal: few programs know the rules of
  /// both.
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

  /// Throws `LogError.refused` if a decision skips an entry of the snapshot: carrying that out needs the log.
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

  /// The newest snapshot's order, or an empty one. Throws `LogError.refused` if the log's beginning is missing.
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
      // A store may have saved a snapshot and truncated the log meanwhile.
      let newest = try await snapshotFold()
      guard newest?.position != fold?.position else {
        throw .refused(
          "The log was truncated, and has no snapshot of all removed entries: no store can be opened on it. Restore a "
            + "backup.")
      }
      fold = newest
    }
  }

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

  /// Nil unless the log was truncated, or copied from a truncated log.
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

  /// Begins an epoch: from here on, positions belong to another history. Call it after a backup was restored without
  /// this library; copies and imports begin one themselves.
  ///
  /// A client that knows a position of one history has not seen the other's entry there. So send the epoch with the
  /// position (`LogStatistics.epoch`), and the whole state to a client with another epoch.
  ///
  /// The epoch is an entry that leaves the state unchanged. A version of this library that knows no epochs stops there
  /// (`LogStop.newerSchema`).
  ///
  /// - Returns: The epoch's random number.
  /// - Throws: `LogError.refused` if the log is empty, or no store can be opened on it because its beginning is
  ///   missing. After the log's own errors, the epoch may have begun.
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

  /// Seals the log for newer rules, as `RootStore.sealLog` does, but from outside the running old program. Each of its
  /// stores saves a snapshot at the seal, and stops (`LogStop.newerRules`). If none is open, start the old program once
  /// more. The new program begins with that snapshot.
  ///
  /// Cost: one reading of the entries after the newest snapshot.
  ///
  /// - Returns: The position of the seal. The new program needs a snapshot at that position or later.
  /// - Throws: `LogError.refused` if the log is empty, stores no snapshots, has entries of these or newer rules, or no
  ///   store can be opened on it because its beginning is missing. After the log's own errors, it may be sealed.
  @discardableResult
  public func seal(forRules rules: UInt32, reason: String) async throws(LogError) -> UInt64 {
    guard snapshots != nil else { throw .refused("The log keeps no snapshots.") }
    let head = try await head()
    guard head > 0 else { throw .refused("There is nothing in the log.") }
    let fold = try await beginning()
    var decisions: [UInt64: UInt64] = [:]
    // By position, the rules of seals, and of entries with these or newer rules. At 0, the newest older rules. Which
    // are skipped is known at the end.
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
  var skipped: UInt64? {
    guard LogEntry.isDecision(bytes), case .decision(let decision) = LogEntry.decode(bytes), decision.skipped < position
    else { return nil }
    return decision.skipped
  }
}

extension Fold {
  func has(_ entry: UInt64) -> Bool { entry <= position && !decided.contains(entry) }
}

extension LogError {
  static func notSealable(_ rules: UInt32) -> LogError {
    .refused("The log has rules \(rules) already: it can be sealed only for newer rules.")
  }
}

extension LogEntry {
  static var now: UInt64 { UInt64(clamping: WallTime.now.since1970.components.seconds) }
}
