/// An instrument's event for an action that was committed or rejected.
public struct CommitEvent: Sendable {
  /// The store that the action was given to: the instrument's own, or one below it.
  public let store: StoreID
  /// The place of the commit in the tree's order, counted from one; for a rejected action, that of the commit before
  /// it.
  public let position: Int
  /// The number of commits: more than one if middleware passed the action on repeatedly, zero if it was rejected.
  public let count: Int
  /// How long the action waited for its turn, from `dispatch` or `send` on, and for the log that the store follows, if
  /// any. Nil if commits are not timed, or if the action is replayed or was given to another replica.
  public let waited: Duration?
  /// How long middleware, reducers, publishing and starting the effects took. Nil if commits are not timed.
  public let reduced: Duration?
  /// Whether the action was in the log when the store was opened (`MiddlewareContext.isReplay`).
  public let isReplay: Bool
}

/// An instrument's event for an effect.
public struct EffectEvent: Sendable {
  /// The kind of an effect's event.
  public enum Kind: Sendable {
    /// Its task has begun. With a delay, its first attempt comes after that.
    case began
    /// It has failed, and begins again after that time.
    case retried((any Error), after: Duration)
    /// It has ended, after that time with all its attempts and delays.
    case ended(Outcome, after: Duration)
    /// It was not begun, because too many wait (`EffectPolicy.inTurn`).
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
    /// It was cancelled: by its id, by the state, or because its store has ended.
    case cancelled
  }

  /// The kind of the event.
  public let kind: Kind
  /// Identifies the effect within its tree: all its events have the same number. Zero if it was not begun.
  public let number: Int
  /// Its id's description; nil if it has none.
  public let id: String?
  /// The store that it belongs to.
  public let store: StoreID
}

/// An instrument's event for a store and its log.
public enum StoreLogEvent: Sendable {
  /// The store has entered another phase.
  case entered(LogStatistics.Phase)
  /// The store has applied the log's entries from the snapshot on.
  case replayed(positions: UInt64, after: Duration)
  /// The log has taken an entry of actions, or failed to.
  case appended(actions: Int, bytes: Int, after: Duration, (any Error)?)
  /// A snapshot has been saved, or could not be.
  case savedSnapshot(position: UInt64, bytes: Int, after: Duration, (any Error)?)
}

/// An instrument's event for a store of a `StoreDirectory`.
public struct DirectoryEvent: Sendable {
  /// The kind of a directory's event.
  public enum Kind: Sendable {
    /// The store is being made.
    case opening
    /// The store has been made, which took that long.
    case opened(after: Duration)
    /// The store could not be made: callers that asked for it get the error.
    case failed(any Error, after: Duration)
    /// The directory has released the store. A store that ended by itself is noticed when it is next asked for, or
    /// idle.
    case closed
  }

  /// The kind of the event.
  public let kind: Kind
  /// The directory's name.
  public let directory: String
  /// The description of the store's key.
  public let key: String

  package init(kind: Kind, directory: String, key: String) {
    self.kind = kind
    self.directory = directory
    self.key = key
  }
}
