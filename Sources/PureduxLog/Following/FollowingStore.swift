public import Puredux

extension RootStore {
  /// A root store whose order is that of a log: every store that follows the same log, in whichever process, commits
  /// the same actions in the same order (G11). Returns when it has applied all that was in the log.
  ///
  ///     let log = try FileLog(directory: "data")
  ///     let board = try await RootStore(
  ///       following: log["boards/17"], initialState: Board(), options: FollowingOptions(fingerprint: .encoded)
  ///     ) { $0.apply($1) }
  ///     try await board.send(.rename("Plans"))  // In the log, and committed here.
  ///
  /// It is a root store as any other, with child stores, scopes, interceptors and sequences, and keeps the contract.
  /// What differs is in the contract under G11 to G13: an action is committed when it has come back from the log;
  /// reducers and the root's middleware run on every replica and have to be functions of state and action; interceptors
  /// run where the action was given.
  ///
  /// Actions and states are stored as JSON. For other bytes, or actions that are not `Codable`, bring codings.
  ///
  /// - Parameters:
  ///   - log: The log of this tree.
  ///   - initialState: The state before the first entry. The same on every replica.
  ///   - schema: The schema of the actions that this program writes. An entry of a newer one stops the store.
  ///   - options: Limits and times of the log, how the store runs, its fingerprint, its summary and its first action.
  ///   - interceptor: The side effects of every action that is given to the tree here: async, a task for each action.
  ///   - interceptors: Interceptors, asked after `interceptor` in their order, each for the actions that it selects.
  ///   - middleware: Wraps every action of the tree, on every replica: a function of state and action, but for
  ///     admission.
  ///   - reducer: Changes the state according to an action, on every replica: a function of its arguments alone.
  /// - Throws: `LogError` where the log cannot be read, `StoreError.stopped` where it has an entry that this program
  ///   must not apply, and `CancellationError`; where `atStart` is not committed what `send` throws for it, `.rejected`
  ///   for instance. If it is not committed within `LogOptions.openingLimit`, and `patience`, or the task is cancelled
  ///   meanwhile, that is `StoreError.outcomeUnknown`, as what any store that is released has accepted may be committed
  ///   later; or `.withdrawn`, if the log had not been given it.
  @inlinable public init(
    following log: any OrderedLog, initialState: State, schema: UInt32 = 1,
    options: FollowingOptions<State, Action> = FollowingOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) async throws where State: Codable, Action: Codable {
    try await self.init(
      log, initialState, [Reducer(reducer)], .json(schema: schema), options, .all(interceptor, interceptors), middleware
    )
  }

  /// With several reducers, which run in order on each action.
  @inlinable public init(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>], schema: UInt32 = 1,
    options: FollowingOptions<State, Action> = FollowingOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = []
  ) async throws where State: Codable, Action: Codable {
    try await self.init(
      log, initialState, reducers, .json(schema: schema), options, .all(interceptor, interceptors), middleware)
  }

  /// With codings of its own.
  @inlinable public init(
    following log: any OrderedLog, initialState: State, codings: LogCodings<State, Action>,
    options: FollowingOptions<State, Action> = FollowingOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) async throws {
    try await self.init(
      log, initialState, [Reducer(reducer)], codings, options, .all(interceptor, interceptors), middleware)
  }

  /// With codings of its own, and several reducers.
  @inlinable public init(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>],
    codings: LogCodings<State, Action>, options: FollowingOptions<State, Action> = FollowingOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = []
  ) async throws {
    try await self.init(log, initialState, reducers, codings, options, .all(interceptor, interceptors), middleware)
  }

  @inlinable init(
    _ log: any OrderedLog, _ initialState: State, _ reducers: [Reducer<State, Action>],
    _ codings: LogCodings<State, Action>, _ options: FollowingOptions<State, Action>,
    _ interceptor: Interceptor<State, Action>?, _ middleware: [Middleware<State, Action>]
  ) async throws {
    let (core, hasStopped) = try await Self.recovered(
      following: log, initialState: initialState, reducers: reducers, codings: codings, options: options,
      middleware: middleware)
    if let atStart = options.atStart, !hasStopped {
      // A log that takes it at once is given the time to say so.
      try await Self.start(core, with: atStart, within: max(options.log.openingLimit, options.log.patience))
    }
    self.init(core: core)
    if let interceptor, !hasStopped { interceptActions(with: interceptor) }
  }

  /// The tree of the store, when it is up to date.
  @inlinable static func recovered(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>],
    codings: LogCodings<State, Action>, options: FollowingOptions<State, Action>,
    middleware: [Middleware<State, Action>]
  ) async throws -> (core: StoreCore<State, Action>, hasStopped: Bool) {
    let (following, state) = try await Following.open(
      log, initialState: initialState, codings: codings, options: options)
    let core = StoreCore(
      initialState: state, reducers: reducers, options: options.storeOptions(of: log), middleware: middleware,
      emits: options.emits,
      history: options.history, order: following)
    following.begin(core)
    do {
      try await following.untilRecovered()
      try await following.replaceSnapshots()
      return (core, hasStopped: following.hasStopped)
    } catch {
      core.release()
      throw error
    }
  }

  /// Gives the store an action, and returns when it is committed. If it is not, the tree is released.
  @usableFromInline static func start(
    _ core: StoreCore<State, Action>, with action: Action, within limit: Duration
  ) async throws(StoreError) {
    do throws(StoreError) {
      try await core.proxy.send(action, within: limit)
    } catch {
      core.release()
      throw error
    }
  }

  /// What the store does with its log: the present phase, and then each change, in order; a consumer that falls behind
  /// gets the newest only. Ends behind `.ended`; at once where the store follows no log.
  ///
  ///     for await phase in board.logPhases() { readiness.set(phase == .following) }
  ///
  /// The phases of the recovery, before there is a store, are told by `FollowingOptions.onPhase`. For figures there is
  /// `statistics.log`.
  public nonisolated func logPhases() -> AsyncStream<LogStatistics.Phase> {
    (core.order as? Following<State, Action>)?.phases() ?? AsyncStream { $0.finish() }
  }

  /// Saves a snapshot of what has been applied here, now: before a deployment, so that the next version replays nothing
  /// that was reduced by this one, or before `truncateLog()`. The state is copied when its collections change while it
  /// is encoded.
  ///
  /// - Returns: The position that it is of. A snapshot that is as new stays in its place.
  /// - Throws: `LogError.refused` where the store follows no log, the log is empty or keeps no snapshots, or the state
  ///   cannot be encoded; what the log throws; `StoreError.stopped` and `.terminated`.
  @discardableResult
  public nonisolated func saveSnapshot() async throws -> UInt64 { try await following().saveSnapshotNow() }

  /// Removes the entries that the newest snapshot has, as far as the log does (a `FileLog` removes whole files). What
  /// was in them can be replayed no more; a replica that lags behind the snapshot stops (`LogStop.unreadable`), and is
  /// opened anew.
  ///
  /// - Returns: The position of that snapshot.
  /// - Throws: `LogError.refused` if there is no snapshot, if it cannot be decoded, or if it has an entry that is to be
  ///   skipped by decision; otherwise as `saveSnapshot()`.
  @discardableResult
  public nonisolated func truncateLog() async throws -> UInt64 { try await following().truncateNow() }

  /// Erases the past: saves a snapshot of what has been applied here, now, and then has the log remove every byte of
  /// the entries up to there, and of the snapshots and the summary before it (`OrderedLog.erase`); a store that is made
  /// with a `summary` has written that anew by then. For what has to be gone: let an action take it out of the state
  /// first, and call this after its `send`. An entry without actions is added, as the last one of a log stays. What
  /// backups have stays there.
  ///
  /// A replica that lags behind that position stops (`LogStop.unreadable`), and is opened anew. Where this process dies
  /// meanwhile the log is as it was, or erased in part, and can be read in either case: call it once more.
  ///
  /// - Returns: The position up to which nothing is left.
  /// - Throws: As `saveSnapshot()`, also where the log does not erase. Then not all is gone.
  @discardableResult
  public nonisolated func eraseLog() async throws -> UInt64 { try await following().eraseNow() }

  /// Seals the log for a program with newer rules that does not know the present ones: the past is what its snapshot
  /// says, and is reduced no more.
  ///
  /// The seal is an entry. At it every store stops whose program does not know the new rules
  /// (`LogStop.newerRules`), behind a snapshot that it saves; what such a store still has on its way to the log is
  /// void, and told as `.outcomeUnknown`. A program that does not know the old rules (`LogOptions.oldestRules`) begins
  /// behind the snapshot. If all processes die before there is one, or it is lost, a store of the old program
  /// saves it when it is opened once more, before it stops. A program that knows both goes on, and writes under the new
  /// ones; its actions that were on their way are void as well.
  ///
  /// - Parameters:
  ///   - rules: The rules that hold from now on: `LogOptions.rules` of the next program. Newer than this program's.
  ///   - reason: For readers of the log.
  /// - Returns: The position of the seal, when there is a snapshot of it. Waits while the log is away.
  /// - Throws: As `saveSnapshot()`. Where it throws what the log threw for the seal, that may be there or not.
  @discardableResult
  public nonisolated func sealLog(forRules rules: UInt32, reason: String) async throws -> UInt64 {
    try await following().sealNow(for: rules, reason)
  }

  private nonisolated func following() throws(LogError) -> Following<State, Action> {
    guard let following = core.order as? Following<State, Action> else {
      throw .refused("The store follows no log.")
    }
    return following
  }

  /// A root store that follows a log which is known to be empty. For tests of the contract, which have stores without
  /// waiting for them.
  package init(
    followingEmpty log: any OrderedLog, initialState: State, actions: LogCoding<Action>,
    options: FollowingOptions<State, Action>, middleware: [Middleware<State, Action>],
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    let following = Following<State, Action>(
      log: log, head: 0, stored: Fold(), codings: LogCodings(actions: actions, states: nil), options: options,
      clock: ElapsedClock(ContinuousClock()))
    let core = StoreCore(
      initialState: initialState, reducers: [Reducer(reducer)], options: options.store, middleware: middleware,
      emits: options.emits, history: options.history, order: following)
    self.init(core: core)
    following.begin(core)
  }
}
