public import Puredux

/// The options of a store that follows a log: the argument `options:` of `RootStore(following:)`.
///
///     let board = try await RootStore(
///       following: log["boards/17"], initialState: Board(), options: FollowingOptions(fingerprint: .encoded)
///     ) { $0.apply($1) }
public struct FollowingOptions<State: Sendable, Action: Sendable>: Sendable {
  /// The store's limits and times, and how it reads its log.
  public var log: LogOptions
  /// How the store and its tree run, as in any other root store.
  public var store: StoreOptions
  /// How the store detects that its state differs from the state of other replicas, or of an earlier version of the
  /// program (`LogStop.diverged`): `.encoded`, `.hashed { … }` or `.unchecked`. Without a choice only the order is
  /// compared, and the process reports that, once for each type of state (`LogReport.fingerprintMissing`). States that
  /// were hashed under another number (`LogOptions.fingerprintVersion`) are not compared.
  public var fingerprint: StateFingerprint<State>?
  /// Makes a small value that stands for the state in lists of trees (`LogDirectory.summaries`). The log keeps it in
  /// JSON, with at most `LogSummary.byteLimit` bytes.
  ///
  /// The value is written if it has changed: once in `LogOptions.summaryInterval` at most, and with each snapshot, and
  /// when the store ends. The closure is called on the tree's executor, as often at most, with the state in place. Do
  /// not return a collection of the state: the next commit would have to copy it. A process that dies loses the changes
  /// of the last interval; they are written when a store with a `summary` opens the tree again.
  ///
  /// A summary is made of the state at the position that it has, and never by a store that has stopped. An older one
  /// never takes the place of a newer one that the log has. `eraseLog()` removes the summaries from before.
  public var summary: (@Sendable (State) -> any (Encodable & Sendable))?
  /// Called with each phase of the store, in order, from the recovery on. Runs on the tree's executor.
  public var onPhase: (@Sendable (LogStatistics.Phase) -> Void)?
  /// The first action that the store is given, after the recovery: with it, the program records that a process has
  /// started. It is committed before any effect of the state begins, and before any other action that this store is
  /// given. It passes middleware as any other action. Interceptors are not asked about it: use effects of the state. If
  /// it is not committed, opening throws, and there is no store. A store that was opened where it stopped
  /// (`LogOptions.opensWhereStopped`) is not given it.
  public var atStart: Action?
  /// Which commits the store publishes.
  public var emits: Emission<State>
  /// The history in which the store keeps the result of each of its reducers.
  public var history: History<State, Action>?

  /// Each default is that of a store that is made without options.
  public init(
    log: LogOptions = LogOptions(), store: StoreOptions = StoreOptions(),
    fingerprint: StateFingerprint<State>? = nil,
    summary: (@Sendable (State) -> any (Encodable & Sendable))? = nil,
    onPhase: (@Sendable (LogStatistics.Phase) -> Void)? = nil, atStart: Action? = nil,
    emits: Emission<State> = .always, history: History<State, Action>? = nil
  ) {
    self.log = log
    self.store = store
    self.fingerprint = fingerprint
    self.summary = summary
    self.onPhase = onPhase
    self.atStart = atStart
    self.emits = emits
    self.history = history
  }

  /// The options of the store. Without a name of its own, it is named after its log's key.
  @usableFromInline func storeOptions(of log: any OrderedLog) -> StoreOptions {
    var options = store
    options.name = store.name ?? log.name
    return options
  }
}
