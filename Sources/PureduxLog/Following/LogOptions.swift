import Puredux

/// How a store follows its log. The defaults are made for a service that would rather wait than fail. All times are by
/// the store's clock: one that is advanced by hand, in a test, tries again when it is advanced. A time of less than
/// zero counts as zero, one of more than a hundred years as a hundred years.
public struct LogOptions: Sendable {
  /// How many actions go to the log as one entry, where that many wait.
  public var actionsPerEntry = 256
  /// How many entries are on their way to the log at a time.
  public var entriesUnderWay = 4
  /// How many bytes of actions wait for the log, with 100 for each beside its own, when `dispatch` begins to answer
  /// `.overloaded`. It is no bound on memory: what was taken before and is not encoded yet comes on top, which is why
  /// `dispatch` also answers so while a hundredth of that many actions wait for their turn to be encoded. So there may
  /// be twice so many actions more, of whatever size, where they come faster than they are encoded. A `send` waits, and
  /// adds its own. An action that is withdrawn is released at once, and no longer counts.
  public var pendingBytes = 16 << 20
  /// After that long a `send` throws `StoreError.outcomeUnknown`: its action may still be committed. `nil` waits. For a
  /// single one there is `send(_:within:)`.
  public var sendLimit: Duration?
  /// For how long a log that is `.unavailable`, or ends before its snapshot, is tried when a store is opened, before
  /// that throws. Counted anew when the log has been found, when it has delivered something, and for `atStart`.
  public var openingLimit = Duration.seconds(10)
  /// What has failed is tried again after that long. Less than a millisecond counts as a millisecond. While a NATS
  /// cluster or a database does not answer, its engine asks for all open stores. They try again when it answers.
  public var retryInterval = Duration.milliseconds(250)
  /// What has not come back after that long goes to the log once more, and again after twice that, up to 32 times.
  public var patience = Duration.seconds(2)
  /// How long a store that has ended waits for what it has accepted to be in the log. After that, what was not is told
  /// `.outcomeUnknown`, and is lost where nobody waits for it. The time begins when that of `.finish(within:)` is over.
  /// The shutdown of a child store waits while the log is away, at the longest until the root store has ended.
  public var endingLimit = Duration.seconds(10)
  /// A snapshot is saved after that many bytes of entries, where the log keeps snapshots. `nil` saves none.
  public var snapshotBytes: Int? = 4 << 20
  /// How long a summary that has changed may wait to be written: it is written once in that time at most, and with each
  /// snapshot, and when the store ends. Less than a millisecond counts as a millisecond.
  public var summaryInterval = Duration.seconds(1)
  /// Whether the log is truncated, with each snapshot, behind the one before. What the snapshots do not have of those
  /// entries is gone then; and a replica that lags by more than that stops as `.unreadable`, and is to be opened anew.
  public var truncatesBehindSnapshots = false
  /// Whether the newest snapshot is left aside, and the whole log replayed: after a replica has stopped as `.diverged`,
  /// or where the log has lost what a snapshot still has. When the store has been opened, a snapshot of what was
  /// replayed has taken the place of that one, and this is not needed any more.
  public var ignoresSnapshots = false
  /// The number of the function `FollowingOptions.fingerprint`: less than 2^31. Raise it when the function changes,
  /// when states encode other members (`StateFingerprint.encoded`), or when a changed reducer is to reduce the entries
  /// of the past. States are compared only with states that were hashed under the same number.
  public var fingerprintVersion: UInt32 = 1
  /// The rules that this program reduces by: each entry carries those of its writer. Raise it when a reducer, or the
  /// root's middleware, is to decide otherwise from now on; a reducer asks for those of the entry that is committed
  /// (`LogRules.current`).
  public var rules: UInt32 = 0
  /// The newest rules that this program knows: by default those that it writes. An entry of newer ones stops it
  /// (`LogStop.newerRules`). A version that knows the next rules and does not write them yet is what is deployed first.
  public var newestRules: UInt32?
  /// The oldest rules that this program knows: it does not replay an entry of older ones (`LogStop.olderRules`), and
  /// begins behind a log that was sealed (`RootStore.sealLog`). At most the rules that it writes, which are raised to
  /// these.
  public var oldestRules: UInt32 = 0
  /// Whether a store that stops while it replays, at an entry that this program must not apply or cannot decode
  /// (`LogStop`), is opened all the same: it can be read up to there, takes no actions, and has no effects. Without it
  /// opening throws `StoreError.stopped`.
  public var opensWhereStopped = false
  /// Where it is noted which entry a recovery is at, for a log that is not on this machine: a directory, which outlives
  /// the process, and is made where it is not there. A process that died twice of one entry stops there the third time
  /// (`LogStop.poisoned`), and dies no more. A `FileLog` notes it beside its files. One directory for each engine, as
  /// trees are told apart by their keys; of several stores of one tree at a time one is noted.
  public var recoveryDirectory: String?
  /// Told of what an operator has to know, in place of standard error. Called from any thread.
  public var reporting: @Sendable (LogReport) -> Void = { report in
    var errors = StandardError()
    print("Puredux: \(report)", to: &errors)
  }

  /// Called before each entry that is replayed, with its position, on the tree's executor: for watching a replay.
  package var replaying: (@Sendable (UInt64) -> Void)?

  /// Whether the log is only replayed, and not changed: a decision that a store would take back is disregarded.
  package var isTrial = false

  /// The number of the store as a writer, in place of one at random: for playing a machine that was cloned.
  package var writer: UInt64?

  /// The defaults.
  public init() {}

  var newestKnownRules: UInt32 { max(rules, newestRules ?? rules) }

  /// The rules that are written where the log is sealed for rules that the program knows.
  func rules(behindSeal sealed: UInt32) -> UInt32 { max(rules, min(sealed, newestKnownRules)) }

  /// The same options, with times that can be computed with.
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
