/// The error of a log that was not copied to its end. Copied entries stay, and the same call continues after them,
/// unless the reason says otherwise.
public struct LogCopyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The reason of a `LogCopyError`.
  public enum Reason: Error, Sendable, Hashable {
    /// The entry, or the snapshot, at a position was written by a newer version of this library, which has to copy it.
    case newerFormat(position: UInt64)
    /// The snapshot at a position cannot be read.
    case unreadableSnapshot(position: UInt64)
    /// The log is truncated, and has no snapshot to begin with. The first remaining entry has this position.
    case noSnapshot(first: UInt64)
    /// The decision at a position is about an entry that the copy lacks: the log was truncated past that entry, and the
    /// snapshot was saved without the decision. The next store that is opened on the log takes the decision back; then
    /// the log can be copied.
    case undecided(position: UInt64)
    /// The target takes no entry, or no snapshot, as large as the one at a position.
    case tooLarge(position: UInt64)
    /// The log was truncated past the target's beginning, or the target is not its copy. The first remaining entry has
    /// this position. Remove the target's log, and copy again. An export does so by itself.
    case truncatedSince(first: UInt64)
    /// The log is truncated, so that its copy begins with a snapshot, and the target stores none.
    case keepsNoSnapshots
    /// The target differs from a copy at this position of its own. If it did before the call, nothing was changed. Also
    /// if the target repeats an entry that nobody can read: stores would stop there, whatever was decided about the
    /// log's entry.
    case differs(position: UInt64)
    /// An error of one of the two logs, or of the file.
    case log(LogError)
  }

  /// The key of the log, if it has one.
  public var key: String?
  /// The reason why the copy is incomplete.
  public var reason: Reason

  /// For tests of code that catches these errors.
  public init(key: String?, reason: Reason) {
    self.key = key
    self.reason = reason
  }

  /// Whether other logs can still be copied.
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
      "The entry, or the snapshot, of \(log) at position \(position) was written by a newer version of this library, "
        + "which has to copy it."
    case .unreadableSnapshot(let position):
      "The snapshot of \(log) at position \(position) cannot be read."
    case .noSnapshot(let first):
      "The first remaining entry of \(log) is \(first), and no snapshot has the entries before it."
    case .undecided(let position):
      "The decision at position \(position) of \(log) is about an entry that was removed, and that the snapshot has "
        + "not skipped. Open a store on the log, which takes the decision back, or skip the decision."
    case .tooLarge(let position):
      "The entry, or the snapshot, of \(log) at position \(position) is larger than the target takes."
    case .truncatedSince(let first):
      "The first remaining entry of \(log) is \(first), and the target does not begin with a snapshot of the entries "
        + "before it. Remove the target's log, and copy again."
    case .keepsNoSnapshots: "The copy of \(log) begins with a snapshot, and the target keeps none."
    case .differs(let position):
      "The target is not a copy of \(log): it differs at position \(position)."
    case .log(let error): "Copying \(log): \(error.text)"
    }
  }
}
