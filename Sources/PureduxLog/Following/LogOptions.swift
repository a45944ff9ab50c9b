import Puredux

/// How a store follows its log. The defaults suit a service that would rather wait than fail. All times are measured by
/// the store's clock, and bounded to between zero and a hundred years.
public struct LogOptions: Sendable {
  /// The maximum number of actions in one entry.
  public var actionsPerEntry = 256
  /// The maximum number of entries in flight to the log.
  public var entriesUnderWay = 4
  /// The number of bytes of actions waiting for the log at which `dispatch` begins to return `.overloaded`. Each
  /// waiting action counts with its encoded size plus 100; a withdrawn one no longer counts. A `send` waits instead,
  /// and its action is added.
  ///
  /// This does not bound memory: accepted actions count only when encoded. `dispatch` also returns `.overloaded` while
  /// a hundredth of this number of actions waits for encoding. If actions arrive faster than they are encoded, up to
  /// twice that number of further actions can wait, of any size.
  public var pendingBytes = 16 << 20
  /// The time after which a `send` throws `StoreError.outcomeUnknown`: its action may still be committed. With `nil` it
  /// waits. `send(_:within:)` sets a limit for one action.
  public var sendLimit: Duration?
  /// How long opening a store retries a log that is `.unavailable`, or that ends before its snapshot, before it throws.
  /// The time restarts when the log is found, when it delivers entries, and for `atStart`.
  public var openingLimit = Duration.seconds(10)
  /// The delay before a failed operation is retried, at least a millisecond. While a NATS cluster or a database does
  /// not answer, its engine probes it for all open stores, which retry when it answers.
  public var retryInterval = Duration.milliseconds(250)
  /// The time without progress after which undelivered actions are sent to the log again. It doubles with each
  /// repetition, up to 32 times this value.
  public var patience = Duration.seconds(2)
  /// How long a store that has ended waits for the log to take its accepted actions, after the time of
  /// `.finish(within:)`. Then the senders of the rest get `.outcomeUnknown`, and actions without a waiting sender may
  /// be lost. While the log is away, the shutdown of a child store waits until the root store has ended at the latest.
  public var endingLimit = Duration.seconds(10)
  /// The number of bytes of entries after which a snapshot is saved, if the log stores snapshots. `nil` saves none.
  public var snapshotBytes: Int? = 4 << 20
  /// The minimum interval between writes of a changed summary, at least a millisecond. It is also written with each
  /// snapshot and at the store's end.
  public var summaryInterval = Duration.seconds(1)
  /// Whether each snapshot truncates the log through the previous one; only the effect of the removed entries remains.
  /// A replica that lags further behind stops as `.unreadable`, and must be reopened.
  public var truncatesBehindSnapshots = false
  /// Whether to ignore the newest snapshot and replay the whole log: after a replica has stopped as `.diverged`, or if
  /// the log has lost entries that a snapshot still has. Once the store is open, a snapshot of the replayed state has
  /// replaced that one; then reset this option.
  public var ignoresSnapshots = false
  /// The number of the function `FollowingOptions.fingerprint`, less than 2^31. Only states hashed under the same
  /// number are compared. Raise it when the function changes, when states encode other members
  /// (`StateFingerprint.encoded`), or when a changed reducer is to reduce past entries.
  public var fingerprintVersion: UInt32 = 1
  /// The rules of this program, carried by each of its entries. Raise them when a reducer, or the root's middleware, is
  /// to decide differently from now on. Reducers read an entry's rules with `LogRules.current`.
  public var rules: UInt32 = 0
  /// The newest rules that this program knows; with nil, `rules`. An entry of newer rules stops it
  /// (`LogStop.newerRules`). First deploy a version that knows the next rules but does not write them.
  public var newestRules: UInt32?
  /// The oldest rules that this program knows. It replays no entry of older rules (`LogStop.olderRules`), and begins
  /// with the snapshot of a sealed log (`RootStore.sealLog`). If `rules` is less, it is raised to this value.
  public var oldestRules: UInt32 = 0
  /// Whether a store is opened even if its replay stops at an entry that this program must not apply or cannot decode
  /// (`LogStop`). Such a store can be read, takes no actions, and has no effects. Otherwise opening throws
  /// `StoreError.stopped`.
  public var opensWhereStopped = false
  /// The directory in which a recovery records its present entry, for a log that is not on this machine. With it, a
  /// third process does not repeat an entry that two have died of, but stops there (`LogStop.poisoned`). It must
  /// outlive the process, and is created if missing.
  ///
  /// A `FileLog` records this with its files. Use one directory per engine, because trees are distinguished by key. Of
  /// several stores that recover one tree at a time, one is recorded.
  public var recoveryDirectory: String?
  /// Receives the reports for an operator, by default to standard error. Called from any thread.
  public var reporting: @Sendable (LogReport) -> Void = { report in
    var errors = StandardError()
    print("Puredux: \(report)", to: &errors)
  }

  package var replaying: (@Sendable (UInt64) -> Void)?

  /// Whether the log is only replayed, and not changed: a decision that a store would take back is disregarded.
  package var isTrial = false

  /// Replaces the random writer number, to simulate a cloned machine.
  package var writer: UInt64?

  /// Makes the default options.
  public init() {}

  var newestKnownRules: UInt32 { max(rules, newestRules ?? rules) }

  func rules(behindSeal sealed: UInt32) -> UInt32 { max(rules, min(sealed, newestKnownRules)) }

  var clamped: LogOptions {
    var options = self
    options.sendLimit = sendLimit?.clamped
    options.openingLimit = openingLimit.clamped
    options.retryInterval = max(retryInterval.clamped, .milliseconds(1))
    options.patience = patience.clamped
    options.endingLimit = endingLimit.clamped
    options.summaryInterval = max(summaryInterval.clamped, .milliseconds(1))
    options.rules = max(rules, oldestRules)
    return options
  }

  func limits(entryLimit: Int) -> Outbox.Limits {
    Outbox.Limits(
      actions: max(1, actionsPerEntry), bytes: max(1, min(1 << 20, entryLimit) - LogEntry.overhead),
      entries: max(1, entriesUnderWay), pendingBytes: max(1, pendingBytes))
  }
}
