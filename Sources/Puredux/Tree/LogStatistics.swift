/// Where a store stands with the log that it follows.
public struct LogStatistics: Sendable, Hashable {
  /// What a store that follows a log is doing.
  public enum Phase: Sendable, Hashable {
    /// It replays the log: so far of so many positions. On an engine where trees share positions, such as NATS, the
    /// positions of other trees are among them.
    case recovering(UInt64, of: UInt64)
    /// It applies the entries that come.
    case following
    /// The log takes or delivers nothing for now. Reads go on; accepted actions wait.
    case waiting(LogTrouble)
    /// It takes nothing and applies nothing any more.
    case stopped(LogStop)
    /// The store has ended.
    case ended
  }

  /// What the store is doing.
  public var phase: Phase
  /// The position of the last entry that was applied here; 0 where none was.
  public var position: UInt64
  /// How long the log has taken or delivered nothing, by the store's clock; nil where it does.
  public var waiting: Duration?
  /// How many positions the log is known to be ahead by; 0 where all that is known has been applied.
  public var behind: UInt64
  /// How many actions have been accepted here and are not committed yet.
  public var pendingActions: Int
  /// The bytes of these, with some 100 for each beside its own.
  public var pendingBytes: Int
  /// How many actions were skipped, as their entries were decided to be (`OrderedLog.skip`), and entries without any
  /// action that can be read.
  public var skipped: UInt64
  /// How many actions could not be encoded, were too large, or were refused by the log. The sender of one is told;
  /// `dispatch` has answered by then.
  public var rejected: UInt64
  /// How many snapshots could not be saved here, as the state could not be encoded, or the log did not keep them. As
  /// long as none can be, opening takes longer and longer, and the log is not truncated.
  public var failedSnapshots: UInt64 = 0
  /// The number of the epoch that the position is of; 0 where none has begun. A copy of a log, or a log restored from a
  /// backup, is another epoch: the same position means something else there (`OrderedLog.beginEpoch`).
  public var epoch: UInt64 = 0

  /// For tests of what reads statistics: stores make their own.
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

/// Why a log does not take entries for a while.
public enum LogTrouble: Sendable, Hashable {
  /// It cannot be reached, or does not answer.
  case unavailable
  /// There is no room left where it is stored.
  case full
  /// It refuses the actions that wait, which it may have taken in an earlier attempt.
  case refused
}
