public import Puredux

/// How a store that follows a log is made: what `RootStore(following:)` takes as `options:`.
///
///     let board = try await RootStore(
///       following: log["boards/17"], initialState: Board(), options: FollowingOptions(fingerprint: .encoded)
///     ) { $0.apply($1) }
public struct FollowingOptions<State: Sendable, Action: Sendable>: Sendable {
  /// Limits and times, and what is read of the log.
  public var log: LogOptions
  /// How the store and its tree run, as in any other root store.
  public var store: StoreOptions
  /// How the store detects that its state differs from the state of other replicas, or of an earlier version of the
  /// program (`LogStop.diverged`): `.encoded`, `.hashed { … }` or `.unchecked`. Without a choice only the order is
  /// compared, and the store reports that (`LogReport.fingerprintMissing`). States that were hashed under another number
  /// (`LogOptions.fingerprintVersion`) are not compared.
  public var fingerprint: StateFingerprint<State>?
  /// A small value that stands for the state in lists of trees (`LogDirectory.summaries`): kept beside the tree, in
  /// JSON, where it has changed, once in `LogOptions.summaryInterval` at most, with each snapshot, and when the store
  /// ends. Called on the tree's executor, as often at most, with the state in place: what it returns should be its own,
  /// and not a collection of the state, which the next commit would have to copy. What it is like in the last interval
  /// is lost with a process that dies, and written when the tree is opened again. At most `LogSummary.byteLimit` bytes.
  public var summary: (@Sendable (State) -> any (Encodable & Sendable))?
  /// Told what the store is doing, beginning with the recovery, in order, on the tree's executor.
  public var onPhase: (@Sendable (LogStatistics.Phase) -> Void)?
  /// An action that the store is given first, behind the recovery: the program's way to say that another process has
  /// begun. It is committed before any effect of the state begins, and before anything else that this store is given.
  /// It passes middleware as any other; interceptors are not asked about it: what is to follow from it is for the
  /// effects of the state. A store that was opened where it stopped (`LogOptions.opensWhereStopped`) is given nothing.
  public var atStart: Action?
  /// Which commits the store publishes.
  public var emits: Emission<State>
  /// Where the store keeps what each of its reducers did.
  public var history: History<State, Action>?

  /// The defaults are those of a store that is made without options.
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

  /// The options of the store, which is called by its log's key if it has no name.
  @usableFromInline func storeOptions(of log: any OrderedLog) -> StoreOptions {
    var options = store
    options.name = store.name ?? log.name
    return options
  }
}
