/// What an instrument is told of an action that has been committed or rejected.
public struct CommitEvent: Sendable {
  /// The store that the action was given to: the instrument's own, or one below it.
  public let store: StoreID
  /// The place of the commit in the tree's order, counted from one; of a rejected action, that of the commit before it.
  public let position: Int
  /// How many commits it made: more than one where middleware has passed it on more than once, none if it was rejected.
  public let count: Int
  /// How long the action waited for its turn, from `dispatch` or `send` on; where the store follows a log, on its way
  /// through the log, too. Nil if commits are not timed, or if the action was given to another replica.
  public let waited: Duration?
  /// How long middleware, reducers, publishing and starting the effects took. Nil if commits are not timed.
  public let reduced: Duration?
  /// Whether the action was in the log when the store was opened (`MiddlewareContext.isReplay`).
  public let isReplay: Bool
}

/// What an instrument is told of an effect.
public struct EffectEvent: Sendable {
  /// What has happened to it.
  public enum Kind: Sendable {
    /// Its task has begun: one with a delay waits from now on, and its first attempt comes after that.
    case began
    /// It has failed, and is begun again after that time.
    case retried((any Error), after: Duration)
    /// It has ended, and has taken that long with all its attempts and delays.
    case ended(Outcome, after: Duration)
    /// It was not begun, as too many wait (`EffectPolicy.inTurn`).
    case turnedAway
  }

  /// How an effect has ended.
  public enum Outcome: Sendable {
    /// Its work has returned.
    case finished
    /// Its error became an action (`Effect.catching`).
    case caught(any Error)
    /// Its error was reported (`EffectReport`).
    case failed(any Error)
    /// It took longer than its limit.
    case timedOut
    /// By its id, by the state, or as its store has ended.
    case cancelled
  }

  /// What has happened.
  public let kind: Kind
  /// Tells it from the other effects of its tree: the events of one effect have the same. Zero if it was not begun.
  public let number: Int
  /// Its id, as it describes itself; nil if it has none.
  public let id: String?
  /// The store that it belongs to.
  public let store: StoreID
}

/// What an instrument is told of a store and its log.
public enum StoreLogEvent: Sendable {
  /// The store does something else now than before.
  case entered(LogStatistics.Phase)
  /// What was in the log, from the snapshot on, has been applied.
  case replayed(positions: UInt64, after: Duration)
  /// The log has taken an entry of actions, or has not.
  case appended(actions: Int, bytes: Int, after: Duration, (any Error)?)
  /// A snapshot has been saved, or has not.
  case savedSnapshot(position: UInt64, bytes: Int, after: Duration, (any Error)?)
}

/// What an instrument is told of a store of a `StoreDirectory`.
public struct DirectoryEvent: Sendable {
  /// What has happened to it.
  public enum Kind: Sendable {
    /// The store is being made.
    case opening
    /// The store has been made, which has taken that long.
    case opened(after: Duration)
    /// It could not be made: those who asked for it get the error.
    case failed(any Error, after: Duration)
    /// The store has been let go. One that has ended by itself is noticed when it is asked for again, or is idle.
    case closed
  }

  /// What has happened.
  public let kind: Kind
  /// The directory's name.
  public let directory: String
  /// The store's key, as it describes itself.
  public let key: String
}
