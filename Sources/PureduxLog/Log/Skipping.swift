#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

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
  /// - Throws: `LogError.refused` where there is no entry at that position, or a decision, and what the log throws.
  @discardableResult
  public func skip(position: UInt64, reason: String) async throws(LogError) -> UInt64 {
    guard position > 0, try await head() >= position, let entry = try await entry(at: position) else {
      throw .refused("There is no entry at position \(position).")
    }
    if LogEntry.isDecision(entry.bytes) { throw .refused("At position \(position) is a decision, which stays.") }
    return try await append(
      LogEntry.encode(LogEntry.Decision(skipped: position, time: LogEntry.now, reason: reason)))
  }

  func append(_ seal: LogEntry.Seal) async throws(LogError) -> UInt64 { try await append(LogEntry.encode(seal)) }

  private func append(_ entry: [UInt8]) async throws(LogError) -> UInt64 {
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
  static var now: UInt64 { UInt64(clamping: time(nil)) }
}
