/// The progress of a store with the log that it follows.
public struct LogStatistics: Sendable, Hashable {
  /// The phases of a store that follows a log.
  public enum Phase: Sendable, Hashable {
    /// It replays the log: the positions done, of all. On an engine where trees share positions, such as NATS, other
    /// trees' positions count as well.
    case recovering(UInt64, of: UInt64)
    /// It applies new entries as they come.
    case following
    /// The log takes or delivers nothing for now. Reads go on; accepted actions wait.
    case waiting(LogTrouble)
    /// It takes nothing and applies nothing any more.
    case stopped(LogStop)
    /// The store has ended.
    case ended
  }

  /// The store's phase.
  public var phase: Phase
  /// The position of the last entry applied here; 0 if there is none.
  public var position: UInt64
  /// How long the log has taken or delivered nothing, by the store's clock; nil if it does.
  public var waiting: Duration?
  /// How many positions the log is known to be ahead; 0 if all known entries have been applied.
  public var behind: UInt64
  /// How many actions have been accepted here and are not committed yet.
  public var pendingActions: Int
  /// The bytes of these actions, with an overhead of some 100 for each.
  public var pendingBytes: Int
  /// How many actions were skipped by decision (`OrderedLog.skip`), and how many entries had no readable action.
  public var skipped: UInt64
  /// How many actions could not be encoded, were too large, or were refused by the log. `send` throws; `dispatch` has
  /// returned by then.
  public var rejected: UInt64
  /// How many snapshots could not be saved here, because the state could not be encoded or the log did not keep them.
  /// Until one succeeds, opening takes longer and longer, and the log is not truncated.
  public var failedSnapshots: UInt64 = 0
  /// The epoch of the position; 0 if none has begun. A copy of a log, or a log restored from a backup, is another
  /// epoch, with its own positions (`OrderedLog.beginEpoch`).
  public var epoch: UInt64 = 0

  /// For tests of code that reads statistics.
  public init(
    phase: Phase, position: UInt64 = 0, waiting: Duration? = nil, behind: UInt64 = 0, pendingActions: Int = 0,
    pendingBytes: Int = 0, skipped: UInt64 = 0, rejected: UInt64 = 0
  ) {
    self.phase = phase
    self.position = position
    self.waiting = waiting
    self.behind = behind
    self.pendingActions = pendingActions
    self.pendingBytes = pendingBytes
    self.skipped = skipped
    self.rejected = rejected
  }
}

/// Why a log takes no entries for a while.
public enum LogTrouble: Sendable, Hashable {
  /// It cannot be reached, or does not answer.
  case unavailable
  /// Its storage has no room left.
  case full
  /// It refuses the waiting actions, which it may have taken in an earlier attempt. They wait, with all actions after
  /// them, until the log takes or delivers them.
  case refused
}
