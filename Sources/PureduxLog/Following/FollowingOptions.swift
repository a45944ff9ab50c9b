public import Puredux

/// The options of a store that follows a log: the argument `options:` of `RootStore(following:)`.
///
///     let board = try await RootStore(
///       following: log["boards/17"], initialState: Board(), options: FollowingOptions(fingerprint: .encoded)
///     ) { $0.apply($1) }
public struct FollowingOptions<State: Sendable, Action: Sendable>: Sendable {
  /// The limits and times of the store, and how it reads its log.
  public var log: LogOptions
  /// How the store and its tree run, as in any root store.
  public var store: StoreOptions
  /// How the store detects that its state differs from the state of another replica or of an earlier version of the
  /// program (`LogStop.diverged`): `.encoded`, `.hashed { … }` or `.unchecked`. With nil, only the order is compared,
  /// and the process reports that once for each type of state (`LogReport.fingerprintMissing`). States hashed under
  /// different numbers (`LogOptions.fingerprintVersion`) are not compared.
  public var fingerprint: StateFingerprint<State>?
  /// Makes a small value that represents the state in lists of trees (`LogDirectory.summaries`). The log keeps it as
  /// JSON, of at most `LogSummary.byteLimit` bytes.
  ///
  /// A changed value is written at most once per `LogOptions.summaryInterval`, and also with each snapshot and when the
  /// store ends. The closure runs on the tree's executor, at most that often, with the state in place. Do not return a
  /// collection of the state: the next commit would have to copy it. A process that dies loses the changes of the last
  /// interval, until a store with a `summary` opens the tree again.
  ///
  /// Each summary is made of the state at its position, never by a stopped store. It never replaces a newer one that
  /// the log has. `eraseLog()` removes earlier summaries.
  /// After the store's shutdown and the log's `close()`, the summary is that of the last state, unless the log could
  /// not take it.
  public var summary: (@Sendable (State) -> any (Encodable & Sendable))?
  /// Called with each phase of the store, in order, from the recovery on, on the tree's executor.
  public var onPhase: (@Sendable (LogStatistics.Phase) -> Void)?
  /// The store's first action after its recovery, for instance to record that a process has started. It is committed
  /// before any effect of the state begins, and before any other action given to this store. It passes middleware like
  /// any action, but no interceptor is called for it: use effects of the state. If it is not committed, opening throws,
  /// and there is no store. A store opened at its stop (`LogOptions.opensWhereStopped`) does not get it.
  public var atStart: Action?
  /// The commits that the store publishes.
  public var emits: Emission<State>
  /// The history in which the store keeps the result of each of its reducers.
  public var history: History<State, Action>?

  /// Makes options with the defaults of a store that is made without options.
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

  /// The options of the store, which is named after its log's key by default.
  @usableFromInline func storeOptions(of log: any OrderedLog) -> StoreOptions {
    var options = store
    options.name = store.name ?? log.name
    return options
  }
}
