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
  /// - Throws: `LogError` if the log cannot be read, `StoreError.stopped` if it has an entry that this program must not
  ///   apply, and `CancellationError`. If `atStart` is not committed, the error that `send` throws for it, for instance
  ///   `.rejected`. If it is not committed within `LogOptions.openingLimit`, and `patience`, or the task is cancelled
  ///   meanwhile, that is `.withdrawn` if the log had not been given it. Otherwise it is `StoreError.outcomeUnknown`:
  ///   the action may be committed later, as any action that a released store has accepted.
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

  /// The phases of the store: the present one, and then each change, in order. A consumer that falls behind gets the
  /// newest phase only. The sequence ends after `.ended`, or at once if the store follows no log.
  ///
  ///     for await phase in board.logPhases() { readiness.set(phase == .following) }
  ///
  /// The phases of the recovery, before there is a store, are told by `FollowingOptions.onPhase`. For figures there is
  /// `statistics.log`.
  public nonisolated func logPhases() -> AsyncStream<LogStatistics.Phase> {
    (core.order as? Following<State, Action>)?.logPhases() ?? AsyncStream { $0.finish() }
  }

  /// Saves a snapshot of the present state: before a deployment, so that the next version replays no action that this
  /// version has reduced, or before `truncateLog()`. If the state's collections change while it is encoded, they are
  /// copied.
  ///
  /// - Returns: The position of the snapshot. An existing snapshot of that position or a later one stays.
  /// - Throws: `LogError.refused` if the store follows no log, the log is empty or keeps no snapshots, or the state
  ///   cannot be encoded; the errors of the log; `StoreError.stopped` and `.terminated`.
  @discardableResult
  public nonisolated func saveSnapshot() async throws -> UInt64 { try await following().saveSnapshot() }

  /// Removes the entries that the newest snapshot has, as far as the log does (a `FileLog` removes whole files). They
  /// cannot be replayed any more. A replica that lags behind the snapshot stops (`LogStop.unreadable`), and has to be
  /// opened again.
  ///
  /// - Returns: The position of that snapshot.
  /// - Throws: `LogError.refused` if there is no snapshot, if it cannot be decoded, or if it has an entry that is to be
  ///   skipped by decision; otherwise as `saveSnapshot()`.
  @discardableResult
  public nonisolated func truncateLog() async throws -> UInt64 { try await following().truncate() }

  /// Erases the past: saves a snapshot of the present state. Then the log removes every byte of the entries up to that
  /// position, and of earlier snapshots and summaries (`OrderedLog.erase`). A store that is made with a `summary` has
  /// written a new one by then. To erase data, first send an action that removes it from the state, and call this
  /// afterwards. An entry without actions is added, because the last entry of a log stays. Backups are not changed.
  ///
  /// A replica that lags behind that position stops (`LogStop.unreadable`), and has to be opened again. If this process
  /// dies meanwhile, the log is as it was, or erased in part, and can be read in either case: call this once more.
  ///
  /// - Returns: The position up to which nothing is left.
  /// - Throws: As `saveSnapshot()`, and if the log does not erase. In each case some of the data may be left.
  @discardableResult
  public nonisolated func eraseLog() async throws -> UInt64 { try await following().erase() }

  /// Seals the log for a program with newer rules that does not know the present ones: the entries before the seal are
  /// reduced no more, because a snapshot has their state.
  ///
  /// The seal is an entry. A store whose program does not know the new rules saves a snapshot there, and stops
  /// (`LogStop.newerRules`). Its actions that are on their way to the log are void: their senders get
  /// `.outcomeUnknown`. A program that does not know the old rules (`LogOptions.oldestRules`) begins behind the
  /// snapshot. If all processes die before there is a snapshot, or it is lost, a store of the old program saves it when
  /// it is opened once more, before it stops. A program that knows both rules goes on, and writes under the new ones;
  /// its actions that were on their way are void as well.
  ///
  /// - Parameters:
  ///   - rules: The rules that hold from now on: `LogOptions.rules` of the next program. Newer than this program's.
  ///   - reason: For readers of the log.
  /// - Returns: The position of the seal, when there is a snapshot of it. Waits while the log is away.
  /// - Throws: As `saveSnapshot()`. If it throws an error of the log, the seal may be in the log or not.
  @discardableResult
  public nonisolated func sealLog(forRules rules: UInt32, reason: String) async throws -> UInt64 {
    try await following().seal(for: rules, reason)
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
