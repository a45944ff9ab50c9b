public import Puredux

extension RootStore {
  /// Opens a root store that takes its order from a log, and returns when it has applied all entries that were in the
  /// log. All stores that follow one log, in any process, commit the same actions in the same order (G11).
  ///
  ///     let log = try FileLog(directory: "data")
  ///     let board = try await RootStore(
  ///       following: log["boards/17"], initialState: Board(), options: FollowingOptions(fingerprint: .encoded)
  ///     ) { $0.apply($1) }
  ///     try await board.send(.rename("Plans"))  // In the log, and committed here.
  ///
  /// The contract of every root store holds, except as stated in G11 to G13. Actions and states are stored as JSON,
  /// unless you pass `codings`.
  ///
  /// - Parameters:
  ///   - log: The log of this tree.
  ///   - initialState: The state before the first entry, the same on every replica.
  ///   - schema: The schema of the actions that this program writes. An entry of a newer schema stops the store.
  ///   - options: The limits, times, fingerprint, summary and first action.
  ///   - interceptor: The side effects of every action given to the tree here: async, one task for each action.
  ///   - interceptors: Called after `interceptor` in their order, each for the actions that it selects.
  ///   - middleware: Wraps every action of the tree, on every replica. Except for admission, it must be a function of
  ///     state and action.
  ///   - reducer: Changes the state by an action, on every replica: a pure function.
  /// - Throws: `LogError` if the log cannot be read, `StoreError.stopped` if it has an entry that this program must not
  ///   apply, and `CancellationError`. If `atStart` is not committed, the error of `send` for it, such as `.rejected`.
  ///   After the longer of `LogOptions.openingLimit` and `LogOptions.patience`, or a cancellation, that is `.withdrawn`
  ///   if the log had not been given the action. Otherwise it is `.outcomeUnknown`: the action may still be committed.
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

  /// Opens a store with several reducers, which run in order on each action.
  @inlinable public init(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>], schema: UInt32 = 1,
    options: FollowingOptions<State, Action> = FollowingOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = []
  ) async throws where State: Codable, Action: Codable {
    try await self.init(
      log, initialState, reducers, .json(schema: schema), options, .all(interceptor, interceptors), middleware)
  }

  /// Opens a store with custom codings.
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

  /// Opens a store with custom codings and several reducers.
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
      // A log that takes the action at once needs up to `patience` to deliver it.
      try await Self.start(core, with: atStart, within: max(options.log.openingLimit, options.log.patience))
    }
    self.init(core: core)
    if let interceptor, !hasStopped { interceptActions(with: interceptor) }
  }

  @inlinable static func recovered(
    following log: any OrderedLog, initialState: State, reducers: [Reducer<State, Action>],
    codings: LogCodings<State, Action>, options: FollowingOptions<State, Action>,
    middleware: [Middleware<State, Action>]
  ) async throws -> (core: StoreCore<State, Action>, hasStopped: Bool) {
    while true {
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
      } catch is Overtaken {
        core.release()
        await following.untilEnded(core)
      } catch {
        core.release()
        throw error
      }
    }
  }

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

  /// The present phase of the store, then each change, in order. A slow consumer gets only the newest phase. The
  /// sequence ends after `.ended`, or at once if the store follows no log.
  ///
  ///     for await phase in board.logPhases() { readiness.set(phase == .following) }
  ///
  /// `FollowingOptions.onPhase` also receives the recovery's phases. `statistics.log` has the figures.
  public nonisolated func logPhases() -> AsyncStream<LogStatistics.Phase> {
    (core.order as? Following<State, Action>)?.logPhases() ?? AsyncStream { $0.finish() }
  }

  /// Saves a snapshot of the present state. Call it before `truncateLog()`, or before a deployment: the next version
  /// then replays no action that this version has reduced. Collections of the state that change while it is encoded are
  /// copied.
  ///
  /// - Returns: The position of the snapshot. An existing one at that position or later is kept instead.
  /// - Throws: `LogError.refused` if the store follows no log, the log is empty or stores no snapshots, or the state
  ///   cannot be encoded; the log's errors; `StoreError.stopped` and `.terminated`.
  @discardableResult
  public nonisolated func saveSnapshot() async throws -> UInt64 { try await following().saveSnapshot() }

  /// Removes the entries that the newest snapshot covers, as far as the log can (a `FileLog` removes whole files). They
  /// cannot be replayed any more. A replica that lags behind the snapshot stops (`LogStop.unreadable`), and must be
  /// reopened.
  ///
  /// - Returns: The position of that snapshot.
  /// - Throws: As `saveSnapshot()`, and `LogError.refused` if there is no snapshot, it cannot be decoded, or it has an
  ///   entry to be skipped by decision.
  @discardableResult
  public nonisolated func truncateLog() async throws -> UInt64 { try await following().truncate() }

  /// Erases the log's history: saves a snapshot of the present state, then removes every byte of the entries up to its
  /// position, and of earlier snapshots and summaries (`OrderedLog.erase`). First send an action that removes the data
  /// from the state.
  ///
  /// A store with a `summary` writes a new one first. An entry without actions is added, as a log keeps its last entry.
  /// Backups stay. A replica that lags behind the position stops (`LogStop.unreadable`), and must be reopened. If this
  /// process dies meanwhile, the log stays readable: call this again. Erased entries keep their places in the order. A
  /// reopened replica begins with the snapshot.
  ///
  /// - Returns: The position up to which everything is erased.
  /// - Throws: As `saveSnapshot()`, and `LogError.refused` if the snapshot has an entry to be skipped by decision, or
  ///   the log does not erase. In each case some of the data may remain.
  @discardableResult
  public nonisolated func eraseLog() async throws -> UInt64 { try await following().erase() }

  /// Seals the log for a program with newer rules that does not know the present ones. That program begins with the
  /// snapshot at the seal, and reduces no earlier entry (`LogOptions.oldestRules`).
  ///
  /// The seal is an entry. Actions of older rules that reach the log after it are void: their senders get
  /// `.outcomeUnknown`. A store whose program does not know the new rules saves a snapshot at the seal, and stops
  /// (`LogStop.newerRules`). A store whose program knows both rules continues, and writes under the new ones. If all
  /// processes die before the snapshot is saved, or it is lost, reopen a store of the old program, which saves it.
  ///
  /// - Parameters:
  ///   - rules: The rules from now on, newer than this program's: `LogOptions.rules` of the next program.
  ///   - reason: A text for readers of the log.
  /// - Returns: The position of the seal, once its snapshot exists. Waits while the log is away; a cancellation does not
  ///   end this wait.
  /// - Throws: As `saveSnapshot()`, and `LogError.refused` if the rules are not newer. After an error of the log, the
  ///   seal may be in the log.
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

  /// Without waiting, for tests of the contract.
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
