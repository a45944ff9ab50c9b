/// The result of `OrderedLog.verifyEntries()`.
public struct LogCheck: Sendable, Hashable {
  /// The position of the first remaining entry; 0 if there is none.
  public var first: UInt64 = 0
  /// The position of the last entry; 0 if there is none.
  public var head: UInt64 = 0
  /// The number of entries.
  public var entries: UInt64 = 0
  /// The number of actions.
  public var actions: UInt64 = 0
  /// The position of the newest snapshot; nil if there is none.
  public var snapshot: UInt64?
  /// Entries and snapshots that would stop a store, or that it must not begin with, in the order of positions.
  public var problems: [Problem] = []

  /// The check of an empty log.
  public init() {}

  /// A fault at a position.
  public enum Problem: Sendable, Hashable, CustomStringConvertible {
    /// A newer version of this library wrote the entry or snapshot.
    case newer(position: UInt64)
    /// This library did not write the entry, and no decision skips it.
    case unreadable(position: UInt64)
    /// The entry's writer had applied, up to the position `seen`, other entries than the log has.
    case diverged(position: UInt64, seen: UInt64)
    /// This library did not write the snapshot.
    case unreadableSnapshot(position: UInt64)
    /// The snapshot belongs to other entries than the log has.
    case foreignSnapshot(position: UInt64)
    /// The log is truncated, and no snapshot has all entries before its first one.
    case noSnapshot(first: UInt64)
    /// The decision skips an entry that the snapshot has, or that the log lacks. A store stops there. If the log is
    /// truncated, the first store takes the decision back, and continues.
    case notSkipped(position: UInt64, entry: UInt64, isTruncated: Bool)

    /// The position of the fault.
    public var position: UInt64 {
      switch self {
      case .newer(let position), .unreadable(let position), .diverged(let position, _),
        .unreadableSnapshot(let position), .foreignSnapshot(let position), .noSnapshot(let position),
        .notSkipped(let position, _, _):
        position
      }
    }

    public var description: String {
      switch self {
      case .newer(let position):
        "The entry, or the snapshot, at position \(position) was written by a newer version of this library."
      case .unreadable(let position): "The entry at position \(position) was not written by this library."
      case .diverged(let position, let seen):
        "The writer of the entry at position \(position) had applied other entries, up to position \(seen), than the log has."
      case .unreadableSnapshot(let position): "The snapshot at position \(position) cannot be read."
      case .foreignSnapshot(let position):
        "The snapshot at position \(position) belongs to other entries than the log has."
      case .noSnapshot(let first):
        "The first entry left is \(first), and there is no snapshot of all entries before it."
      case .notSkipped(let position, let entry, let isTruncated):
        "The decision at position \(position) skips the entry at position \(entry), but the snapshot has that entry"
          + (isTruncated
            ? ", and the log was truncated: the next store takes the decision back. Or skip the entry at position "
              + "\(position)."
            : ", or the log lacks it. Open a store once with `LogOptions.ignoresSnapshots`, or skip the entry at position "
              + "\(position).")
      }
    }
  }
}

extension OrderedLog {
  /// Checks, without the program, whether a store could be opened on the log. All entries must be readable, continue
  /// the order that their writers have seen, and lead to the snapshot's order. The snapshot must have no entry that is
  /// to be skipped.
  ///
  /// `verifyReplay` checks the meaning of actions and states. Changes nothing. Cost: one reading of the log.
  ///
  /// - Throws: The log's errors; `LogError.damaged` if an entry is not as it was written.
  public func verifyEntries() async throws(LogError) -> LogCheck {
    do {
      return try await checked()
    } catch {
      throw (error as? LogError) ?? .unavailable("\(error)")
    }
  }

  private func checked() async throws -> LogCheck {
    var check = LogCheck()
    var kept: Fold?
    if let newest = try await snapshots?.newest() {
      check.snapshot = newest.position
      switch EncodedSnapshot.decode(newest.bytes) {
      case .newer: check.problems.append(.newer(position: newest.position))
      case .snapshot(let snapshot) where snapshot.fold.position == newest.position: kept = snapshot.fold
      case .snapshot, .unreadable: check.problems.append(.unreadableSnapshot(position: newest.position))
      }
    }
    check.head = try await head()
    if let kept, kept.position > check.head {
      check.problems.append(.foreignSnapshot(position: kept.position))
      return check
    }
    let isTruncated: Bool
    do {
      var reader = RecordReader(self, after: 0, through: check.head)
      let first = try await reader.next()
      check.first = first?.position ?? 0
      if let first, case .standIn = LogEntry.decode(first.bytes) { isTruncated = true } else { isTruncated = false }
    } catch LogError.truncated(let first) {
      (check.first, isTruncated) = (first, true)
    }
    guard !isTruncated || kept != nil else {
      check.problems.append(.noSnapshot(first: check.first))
      return check
    }
    if isTruncated, let kept, let first = try await firstLeft(behind: kept.position, through: check.head) {
      // A store may have saved a snapshot and truncated the log meanwhile.
      guard try await snapshots?.newest()?.position == check.snapshot else { return try await checked() }
      check.problems.append(.noSnapshot(first: first))
      return check
    }
    var order = isTruncated ? kept ?? Fold() : Fold()
    var decisions: [UInt64: UInt64] = [:]
    var seals: [(position: UInt64, rules: UInt32)] = [(order.position, order.sealedRules)]
    var diverged: [(problem: LogCheck.Problem, rules: UInt32)] = []
    // Includes the entries before a truncated log's snapshot.
    let start = check.first > 0 ? min(check.first - 1, isTruncated ? order.position : 0) : 0
    var reader = RecordReader(self, after: start, through: check.head)
    while let record = try await reader.next() {
      check.entries += 1
      let isBefore = record.position <= order.position
      switch LogEntry.decode(record.bytes) {
      case .entry(let header, let actions):
        check.actions += UInt64(actions.count)
        if isBefore { continue }
        if !order.agrees(with: header.seen, inState: false) {
          let problem = LogCheck.Problem.diverged(position: record.position, seen: header.seen.position)
          diverged.append((problem, header.rules))
        }
      case .decision: decisions[record.position] = record.skipped
      case .seal(let seal): if !isBefore { seals.append((record.position, seal.rules)) }
      case .newerFormat: check.problems.append(.newer(position: record.position))
      case .unreadable: check.problems.append(.unreadable(position: record.position))
      case .epoch, .standIn: break
      }
      if isBefore { continue }
      order.follow(record)
      order.ended(at: record.position, fingerprint: nil)
      if let kept, kept.position == record.position, kept.chain != order.chain {
        check.problems.append(.foreignSnapshot(position: kept.position))
      }
    }
    let skipped = LogEntry.skipped(by: decisions)
    // An entry after a seal that its writer had not seen is void anyway.
    seals.removeAll { skipped[$0.position] != nil }
    for (problem, rules) in diverged
    where !seals.contains(where: { $0.position < problem.position && rules < $0.rules }) {
      check.problems.append(problem)
    }
    check.problems.removeAll { problem in
      switch problem {
      case .unreadable(let position), .diverged(let position, _):
        skipped[position] != nil || kept?.decided.contains(position) == true
      default: false
      }
    }
    for (entry, decision) in skipped.sorted(by: { $0.key < $1.key }) where decision > kept?.position ?? 0 {
      let isCovered = kept?.has(entry) == true
      if !isCovered {
        if kept?.decided.contains(entry) == true { continue }
        if try await isThere(entry) { continue }
      }
      check.problems.append(
        .notSkipped(position: decision, entry: entry, isTruncated: isTruncated && isCovered))
    }
    check.problems.sort { $0.position < $1.position }
    return check
  }

  private func isThere(_ position: UInt64) async throws -> Bool {
    guard position > 0 else { return false }
    var reader = RecordReader(self, after: position - 1, through: position)
    return try await reader.next() != nil
  }

  private func firstLeft(behind position: UInt64, through head: UInt64) async throws -> UInt64? {
    do {
      var reader = RecordReader(self, after: position, through: head)
      _ = try await reader.next()
      return nil
    } catch LogError.truncated(let first) {
      return first
    }
  }
}
