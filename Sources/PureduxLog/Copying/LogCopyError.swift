/// The error of an incomplete copy. Copied entries stay, and the same call continues after them, unless the reason says
/// otherwise.
public struct LogCopyError: Error, Sendable, Hashable, CustomStringConvertible {
  /// The reason of a `LogCopyError`.
  public enum Reason: Error, Sendable, Hashable {
    /// A newer version of this library wrote the entry or snapshot at a position, and has to copy it.
    case newerFormat(position: UInt64)
    /// The snapshot at a position cannot be read.
    case unreadableSnapshot(position: UInt64)
    /// The log is truncated, and has no snapshot to begin with. `first` is its first remaining position.
    case noSnapshot(first: UInt64)
    /// The decision at a position is about an entry that the copy lacks: the log was truncated past it, and the
    /// snapshot does not skip it. Open a store on the log, which takes the decision back, and copy again.
    case undecided(position: UInt64)
    /// The entry or snapshot at a position is too large for the target.
    case tooLarge(position: UInt64)
    /// The log was truncated past the target's beginning, or the target is not its copy. `first` is the log's first
    /// remaining position. Remove the target's log, and copy again. An export starts over by itself.
    case truncatedSince(first: UInt64)
    /// The log is truncated, so its copy begins with a snapshot, and the target stores none.
    case keepsNoSnapshots
    /// The target differs from a copy at this position of its own, and is unchanged if it did so before the call. Also
    /// if the target repeats an unreadable entry, where stores would stop even if the log's own is skipped.
    case differs(position: UInt64)
    /// An error of either log, or of the file.
    case log(LogError)
  }

  /// The log's key, if it has one.
  public var key: String?
  /// The reason why the copy is incomplete.
  public var reason: Reason

  /// For tests of code that catches these errors.
  public init(key: String?, reason: Reason) {
    self.key = key
    self.reason = reason
  }

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
