/// Why a log was not copied to its end. What has been copied stays, and the same call goes on behind it, unless the
/// reason says otherwise.
public struct LogCopyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// Why the copy was not made to its end.
  public enum Reason: Error, Sendable, Hashable {
    /// The entry, or the snapshot, at a position was written by a newer version of this library, which is to copy it.
    case newerFormat(position: UInt64)
    /// The snapshot at a position is none of this library's.
    case unreadableSnapshot(position: UInt64)
    /// The log is truncated, and has no snapshot to begin with: the first entry left has this position.
    case noSnapshot(first: UInt64)
    /// The entry at a position decides about one that the copy does not have, as the log was truncated behind it, and
    /// the snapshot was saved without that decision. The next store that is opened on the log takes the decision back;
    /// then it can be copied.
    case undecided(position: UInt64)
    /// The target takes no entry, or no snapshot, as large as the one at a position.
    case tooLarge(position: UInt64)
    /// The log has been truncated behind what the target begins with, or the target is no copy of it: the first entry
    /// left has this position. Remove the target's log, and begin anew. An export does so by itself.
    case truncatedSince(first: UInt64)
    /// The log is truncated, so that its copy begins with a snapshot, and the target keeps none.
    case keepsNoSnapshots
    /// What the target has at this position of its own is not what a copy has there. Where it was there before the
    /// copy, nothing was changed. Also where the target has repeated an entry that nobody can read: stores would stop
    /// there, whatever was decided about the one that the log has.
    case differs(position: UInt64)
    /// What one of the two logs, or the file, has thrown.
    case log(LogError)
  }

  /// The key of the log, if it has one.
  public var key: String?
  /// Why it was not copied to its end.
  public var reason: Reason

  /// For tests of what catches one: copies make their own.
  public init(key: String?, reason: Reason) {
    self.key = key
    self.reason = reason
  }

  /// Whether other logs can be copied all the same.
  var isOfOneLog: Bool {
    switch reason {
    case .log(.unavailable), .log(.full), .log(.inUse): false
    default: true
    }
  }

  public var description: String {
    let log = key.map { "the log \"\($0)\"" } ?? "the log"
    return switch reason {
    case .newerFormat(let position):
      "What \(log) has at position \(position) was written by a newer version of this library, which is to copy it."
    case .unreadableSnapshot(let position):
      "The snapshot of \(log) at position \(position) cannot be read."
    case .noSnapshot(let first):
      "The first entry of \(log) that is left is \(first), and there is no snapshot of what came before."
    case .undecided(let position):
      "At position \(position) of \(log) it was decided about an entry that is gone, and that its snapshot has not "
        + "skipped. Open a store on it, which takes the decision back, or skip the entry at that position."
    case .tooLarge(let position):
      "The entry, or the snapshot, of \(log) at position \(position) is larger than the target takes."
    case .truncatedSince(let first):
      "The first entry of \(log) that is left is \(first), and the target does not begin with a snapshot of what came "
        + "before. Remove the target's log, and copy once more."
    case .keepsNoSnapshots: "The copy of \(log) begins with a snapshot, and the target keeps none."
    case .differs(let position):
      "What the target has at position \(position) is not a copy of \(log)."
    case .log(let error): "Copying \(log): \(error.text)"
    }
  }
}
