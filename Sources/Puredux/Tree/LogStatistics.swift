/// The progress of a store with the log that it follows.
public struct LogStatistics: Sendable, Hashable {
  /// The phases of a store that follows a log.
  public enum Phase: Sendable, Hashable {
    /// Replaying: the positions done, and all, including other trees' on an engine where trees share positions, such as
    /// NATS.
    case recovering(UInt64, of: UInt64)
    /// Applies new entries as they arrive.
    case following
    /// The log takes nothing, delivers nothing, or both, for now. Reads continue; accepted actions wait.
    case waiting(LogTrouble)
    /// Accepts and applies nothing any more.
    case stopped(LogStop)
    /// The store has ended.
    case ended
  }

  /// The current phase.
  public var phase: Phase
  /// The position of the last entry applied here; 0 if there is none.
  public var position: UInt64
  /// How long the log has taken nothing, delivered nothing, or both, by the store's clock; nil if it does both.
  public var waiting: Duration?
  /// How many positions the log is known to be ahead.
  public var behind: UInt64
  /// Actions accepted here and not yet committed.
  public var pendingActions: Int
  /// The bytes of these actions, with an overhead of some 100 each.
  public var pendingBytes: Int
  /// Actions skipped by decision (`OrderedLog.skip`), and entries without a readable action.
  public var skipped: UInt64
  /// Actions that could not be encoded, were too large, or were refused by the log. `send` throws; `dispatch` has
  /// already returned.
  public var rejected: UInt64
  /// Snapshots that could not be encoded or saved here. Until one succeeds, opening takes ever longer, and the log is
  /// not truncated.
  public var failedSnapshots: UInt64 = 0
  /// The epoch of the position; 0 if none has begun. A copied or restored log is another epoch, with its own positions
  /// (`OrderedLog.beginEpoch`).
  public var epoch: UInt64 = 0

  /// For tests.
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
  /// Unreachable, or without an answer.
  case unavailable
  /// Out of storage.
  case full
  /// It refuses the waiting actions, which it may have taken in an earlier attempt. All actions wait until the log
  /// takes or delivers these.
  case refused
}
