/// What a store that follows a log reports to its operator: passed to `LogOptions.reporting`, or printed on standard
/// error if that is not set.
public enum LogReport: Sendable, Hashable, CustomStringConvertible {
  /// The store stops following its log, for what the log says: `LogStop.unreadable`. Not reported where the log was
  /// truncated before the store had read it: such a replica is to be opened anew, and that is all.
  case stopped(LogError)
  /// Its snapshots cannot be saved, and so the log grows: reported once until one is saved again. A failure that passes
  /// by itself (`.unavailable`, `.full`) is only counted (`LogStatistics.failedSnapshots`).
  case snapshotsFail(LogError)

  public var description: String {
    switch self {
    case .stopped(let error): "A store stops following its log: \(error.text)"
    case .snapshotsFail(let error):
      "The snapshots of a store that follows a log fail, and its log grows: \(error.text)"
    }
  }
}
