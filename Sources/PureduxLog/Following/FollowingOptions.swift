public import Puredux

/// The argument `options:` of `RootStore(following:)`.
///
///     let board = try await RootStore(
///       following: log["boards/17"], initialState: Board(), options: FollowingOptions(fingerprint: .encoded)
///     ) { $0.apply($1) }
public struct FollowingOptions<State: Sendable, Action: Sendable>: Sendable {
  /// The store's limits and times, and how it reads its log.
  public var log: LogOptions
  /// How the store and its tree run, as in any root store.
  public var store: StoreOptions
  /// How the store detects that its state differs from another replica's or an earlier program's (`LogStop.diverged`):
  /// `.encoded`, `.hashed { … }` or `.unchecked`. With nil, only the order is compared, which is reported once for each
  /// type of state (`LogReport.fingerprintMissing`). States hashed under different numbers
  /// (`LogOptions.fingerprintVersion`) are not compared.
  public var fingerprint: StateFingerprint<State>?
  /// Makes a small value for lists of trees (`LogDirectory.summaries`), stored as JSON of at most
  /// `LogSummary.byteLimit` bytes.
  ///
  /// A changed value is written at most once per `LogOptions.summaryInterval`, and also with each snapshot and at the
  /// store's end. The closure runs at most that often, on the tree's executor, on the state in place. Do not return a
  /// collection of the state: the next commit would have to copy it. If the process dies, the last interval's changes
  /// are lost until a store with a `summary` opens the tree again.
  ///
  /// Each summary is made of the state at its position, never by a stopped store, and replaces no newer one.
  /// `eraseLog()` removes earlier summaries. After the store's shutdown and the log's `close()`, the summary is that of
  /// the last state, unless the log could not take it.
  public var summary: (@Sendable (State) -> any (Encodable & Sendable))?
  /// Called with each phase of the store, in order, from the recovery on, on the tree's executor. If the log is
  /// truncated faster than the store is opened, opening begins again: the phases restart after `.ended`.
  public var onPhase: (@Sendable (LogStatistics.Phase) -> Void)?
  /// The store's first action after its recovery, for instance to record a start. It is committed before any effect of
  /// the state begins, and before any other action given to this store. It passes middleware, but reaches no
  /// interceptor: use effects of the state. If it is not committed, opening throws, and there is no store. A store
  /// opened at its stop (`LogOptions.opensWhereStopped`) does not get it.
  public var atStart: Action?
  /// The commits that the store publishes.
  public var emits: Emission<State>
  /// The history of the results of the store's reducers.
  public var history: History<State, Action>?

  /// The defaults are those of a store without options.
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

  @usableFromInline func storeOptions(of log: any OrderedLog) -> StoreOptions {
    var options = store
    options.name = store.name ?? log.name
    return options
  }
}
