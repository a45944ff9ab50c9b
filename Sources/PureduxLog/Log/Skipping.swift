import Puredux

extension OrderedLog {
  /// Decides that an entry is skipped: by every replica, for good. For one that no program can decode any more
  /// (`LogStop.undecodable`), or that must not be applied.
  ///
  ///     try await log["boards/17"].skip(position: 17, reason: "written by the version of Tuesday")
  ///
  /// The decision is an entry of the log itself, behind the others: whoever reads the log finds it, with its reason and
  /// time. Stores that stopped at the entry go on when they are opened anew. One that is open and has applied the
  /// entry stops (`LogStop.diverged`), and replays without it when it is opened anew; where a snapshot has the entry
  /// already, that takes `LogOptions.ignoresSnapshots`, and a log that has not been truncated behind it. A version of
  /// this library that knows no decisions stops at the decision (`LogStop.newerSchema`).
  ///
  /// All actions of the entry are skipped, up to `LogOptions.actionsPerEntry` of one writer.
  ///
  /// - Returns: The position of the decision.
  /// - Throws: `LogError.refused` where there is no entry at that position, or a decision, or what stands in for one in
  ///   a copy (`copy(to:)`), and what the log throws.
  @discardableResult
  public func skip(position: UInt64, reason: String) async throws(LogError) -> UInt64 {
    guard position > 0, try await head() >= position, let entry = try await entry(at: position) else {
      throw .refused("There is no entry at position \(position).")
    }
    if LogEntry.isDecision(entry.bytes) { throw .refused("At position \(position) is a decision, which stays.") }
    if case .standIn = LogEntry.decode(entry.bytes) {
      throw .refused("What is at position \(position) stands in for an entry that the snapshot has.")
    }
    return try await append(
      LogEntry.encode(LogEntry.Decision(skipped: position, time: LogEntry.now, reason: reason)))
  }

  /// Begins an epoch: from here on positions are said to be of another past than before. For who has restored a backup
  /// by other means than this library's: a copy, and an import, begin one by themselves.
  ///
  /// A client that has been told a position by one past is not to be taken to have seen what another one has there. So
  /// give it the epoch with the position (`LogStatistics.epoch`), and the whole state where the epoch is another one.
  ///
  /// It is an entry of the log, behind the others, which every replica applies; the state stays as it is. A version of
  /// this library that knows no epochs stops there (`LogStop.newerSchema`).
  ///
  /// - Returns: The number of the epoch, which is at random.
  /// - Throws: `LogError.refused` where the log is empty, and what the log throws: then it has begun or not.
  @discardableResult
  public func beginEpoch(reason: String) async throws(LogError) -> UInt64 {
    guard try await head() > 0 else { throw .refused("There is nothing in the log.") }
    let epoch = LogEntry.Epoch(number: .random(in: 1 ... .max), time: LogEntry.now, reason: reason)
    _ = try await append(LogEntry.encode(epoch))
    return epoch.number
  }

  /// Seals the log for newer rules, as `RootStore.sealLog` does, from outside of the old program, which runs. Each of
  /// its stores saves a snapshot when it comes to the seal, and stops there (`LogStop.newerRules`). Where none is open,
  /// the old program has to be started once more: the new one begins with that snapshot.
  ///
  ///     try await cluster["boards/17"].seal(forRules: 2, reason: "bids by tens")
  ///
  /// It reads what the log has behind its newest snapshot.
  ///
  /// - Returns: The position of the seal. A snapshot at that position, or behind it, says that it has been met.
  /// - Throws: `LogError.refused` where the log is empty, keeps no snapshots, or has entries of these rules or newer
  ///   ones; and what the log throws: then it is sealed or not.
  @discardableResult
  public func seal(forRules rules: UInt32, reason: String) async throws(LogError) -> UInt64 {
    guard let snapshots else { throw .refused("The log keeps no snapshots.") }
    var fold = Fold()
    if let newest = try await snapshots.newest(), case .snapshot(let snapshot) = EncodedSnapshot.decode(newest.bytes) {
      fold = snapshot.fold
    }
    var known = max(fold.rules, fold.sealedRules)
    let head = try await head()
    guard head > 0 else { throw .refused("There is nothing in the log.") }
    do {
      var reader = RecordReader(self, after: fold.position, through: head)
      while let record = try await reader.next() {
        switch LogEntry.decode(record.bytes) {
        case .entry(let header, _): known = max(known, header.rules)
        case .seal(let seal): known = max(known, seal.rules)
        default: break
        }
      }
    } catch {
      throw (error as? LogError) ?? .unavailable("\(error)")
    }
    guard rules > known else { throw .refused("The log has rules \(known): it is sealed for newer ones.") }
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

  private func entry(at position: UInt64) async throws(LogError) -> LogRecord? {
    do {
      for try await records in records(after: position - 1) {
        if let first = records.first(where: { $0.position >= position }) {
          return first.position == position ? first : nil
        }
      }
      throw LogError.unavailable("The log's entries have come to an end.")
    } catch {
      throw (error as? LogError) ?? .unavailable("\(error)")
    }
  }
}

extension LogEntry {
  /// In seconds since 1970.
  static var now: UInt64 { UInt64(clamping: WallTime.now.since1970.components.seconds) }
}
