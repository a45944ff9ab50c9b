public import Puredux
public import Testing

/// A root store under test. Every commit has to be accounted for.
///
///     let store = TestStore(initialState: Search(), interceptors: .search(by: service), reducer: reduce)
///     await store.send(.typed("swift")) { $0.query = "swift" }
///     await store.advance(by: .milliseconds(300))
///     await store.receive(.found(["actors"])) { $0.results = ["actors"] }
///     await store.finish()
///
/// `send` gives the store an action; `receive` takes the next action of an effect, in commit order. The closure of each
/// changes the previous state as the commit should; without it the state must not change. An issue at the caller's line
/// shows the members that differ.
///
/// Every call returns when the store has settled: every effect has ended, sleeps on the store's clock, or waits for
/// states or at a `Gate`. An effect that waits longer than the limit for anything else is reported.
///
/// `finish` reports unreceived actions, effects that have not ended, and states that no check looked at. Without it,
/// the deinitializer reports that and the same, except effects. A `.relaxed` store reports none of this, skips other
/// actions, and can be used from several tasks. An effect that failed is an issue of the next call, or of the
/// deinitializer. In a cancelled task, calls do not wait, and report nothing that they cannot know.
public final class TestStore<State: Sendable, Action: Sendable>: Sendable {
  typealias Commit = CommitLedger<State, Action>.Commit

  /// The store itself, for child stores, scopes, and the code under test.
  public let root: RootStore<State, Action>
  /// The clock of the store's effects.
  public let clock: ManualClock
  let strictness: Strictness
  let ledger: CommitLedger<State, Action>
  private let isForeign: Bool
  private let probe: StoreProbe<State>
  private let limit: Duration
  private let location: SourceLocation

  /// Makes a root store and a test store around it.
  ///
  /// - Parameters:
  ///   - initialState: The state before the first action.
  ///   - options: The options of the tree.
  ///   - interceptor: See `RootStore`.
  ///   - interceptors: See `RootStore`.
  ///   - middleware: See `RootStore`.
  ///   - strictness: How much has to be accounted for.
  ///   - sourceLocation: The place of the issue that the test store was not finished.
  ///   - reducer: Changes the state according to an action.
  public convenience init(
    initialState: State, options: TestOptions<State, Action> = TestOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    strictness: Strictness = .strict, sourceLocation: SourceLocation = #_sourceLocation,
    reducer: @escaping @Sendable (inout State, Action) -> Void
  ) {
    self.init(
      initialState, [Reducer(reducer)], options, interceptor.map { [Interceptor($0)] + interceptors } ?? interceptors,
      middleware, strictness, sourceLocation)
  }

  /// Makes a store with several reducers, which run in order.
  public convenience init(
    initialState: State, reducers: [Reducer<State, Action>], options: TestOptions<State, Action> = TestOptions(),
    interceptor: (@Sendable (Action, Dispatch<Action>) async -> Void)? = nil,
    interceptors: Interceptor<State, Action>..., middleware: [Middleware<State, Action>] = [],
    strictness: Strictness = .strict, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    self.init(
      initialState, reducers, options, interceptor.map { [Interceptor($0)] + interceptors } ?? interceptors,
      middleware, strictness, sourceLocation)
  }

  private init(
    _ initialState: State, _ reducers: [Reducer<State, Action>], _ options: TestOptions<State, Action>,
    _ interceptors: [Interceptor<State, Action>], _ middleware: [Middleware<State, Action>],
    _ strictness: Strictness, _ location: SourceLocation
  ) {
    let ledger = CommitLedger<State, Action>()
    root = RootStore(
      initialState: initialState, reducers: reducers,
      options: StoreOptions(
        executor: options.executor, priority: options.priority, clock: options.clock,
        reporting: options.reporting ?? { ledger.enter($0) }, carrying: options.carrying),
      interceptors: Interceptor(combining: interceptors), middleware: ledger.middleware(around: middleware),
      emits: options.emits, history: options.history)
    probe = StoreProbe(root.store())
    self.ledger = ledger
    clock = options.clock
    self.strictness = strictness
    limit = options.limit
    self.location = location
    isForeign = false
  }

  /// Makes a test store around an existing root store, whose history it reads from now on.
  ///
  ///     let history = History<Room, RoomAction>(limit: 1_000)
  ///     let options = StoreOptions(clock: clock)
  ///     let room = RootStore(initialState: Room(), reducers: reducers, options: options, history: history)
  ///     let store = TestStore(room, history: history, clock: clock)
  ///
  /// Effects that fail are reported to the root store's own `StoreOptions.reporting`, and are no issues. `finish` does
  /// not shut the root store down. Each call reads the whole history; commits evicted before that are an issue. If
  /// middleware makes several commits of a sent action, only the last counts as sent.
  ///
  /// - Parameters:
  ///   - root: The store, which may already have been given actions.
  ///   - history: The store's history. Its limit bounds the commits between two calls.
  ///   - clock: The store's clock, for `advance`.
  ///   - strictness: How much has to be accounted for.
  ///   - limit: The time to settle, by the continuous clock.
  ///   - sourceLocation: The place of the issue that the test store was not finished.
  public init(
    _ root: RootStore<State, Action>, history: History<State, Action>, clock: ManualClock = ManualClock(),
    strictness: Strictness = .strict, limit: Duration = defaultWaitingLimit,
    sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    self.root = root
    self.clock = clock
    self.strictness = strictness
    self.limit = limit
    location = sourceLocation
    probe = StoreProbe(root.store())
    isForeign = true
    _ = await root.state
    ledger = CommitLedger(history: history)
  }

  deinit {
    recordReports(at: location)
    guard strictness == .strict, ledger.close() else { return }
    Issue.record(
      "The test store was not finished: `await store.finish()` is missing.", unaccounted(ledger.takeAll()), at: location
    )
  }

  /// The state after all earlier requests of the tree.
  public var state: State { get async { await root.state } }

  // MARK: Settling

  /// Returns when the store has settled, for use after an action to a child store or to `root`.
  public func settle(sourceLocation: SourceLocation = #_sourceLocation) async {
    _ = await settled(at: sourceLocation)
  }

  private func settled(at location: SourceLocation) async -> WaitingOutcome {
    let outcome = await wait(within: limit) { [root] in await root.settled() }
    if outcome == .cancelled { return outcome }
    await report(outcome, at: location)
    return outcome
  }

  private func report(_ outcome: WaitingOutcome, at location: SourceLocation) async {
    if outcome == .late { await record("settled", at: location) }
    ledger.enter()
    let missing = ledger.takeMissingCount()
    if missing > 0 {
      Issue.record(
        "The history has dropped \(missing) commits that nobody has looked at: make it with a higher limit.", [],
        at: location)
    }
    recordReports(at: location)
  }

  private func recordReports(at location: SourceLocation) {
    for report in ledger.takeReports() { Issue.record("\(report)", [], at: location) }
  }

  private func record(_ missed: String, at location: SourceLocation) async {
    let running = await probe.lateEffects().inWords("effects that have not ended")
    Issue.record("After \(limit) the store has not \(missed).", running.map { [$0] } ?? [], at: location)
  }

  /// Waiting tasks must not hold the test store.
  private struct Visitor: Sendable {
    let root: RootStore<State, Action>
    let probe: StoreProbe<State>

    func visit<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
      if let result = await probe.visit(body) { return result }
      // When this returns, all accepted actions are committed.
      _ = await root.state
      return body()
    }
  }

  private var visitor: Visitor { Visitor(root: root, probe: probe) }

  /// Runs a closure on the tree's executor while no action is in flight. Nil if the caller is cancelled, or, with an
  /// issue, if the tree does not answer.
  private func onTree<Result: Sendable>(
    at location: SourceLocation, _ body: @escaping @Sendable () -> Result
  ) async -> Result? {
    let answer = LockedValue<Result?>(nil)
    let outcome = await wait(within: limit) { [visitor] in
      let result = await visitor.visit(body)
      answer.withLock { $0 = result }
    }
    switch outcome {
    case .done: return answer.withLock { $0 }
    case .late: await record("committed its actions", at: location)
    case .cancelled: break
    }
    return nil
  }

  /// Advances the clock from deadline to deadline, by a duration in all. Lets the store settle each time, so that
  /// repeated sleeps are woken each time; stops if it does not.
  public func advance(by duration: Duration, sourceLocation: SourceLocation = #_sourceLocation) async {
    await clock.advance(by: duration) { await settled(at: sourceLocation) == .done }
  }

  /// Advances the clock to the earliest deadline.
  ///
  /// - Returns: The time by which the clock was advanced; nil if no task sleeps.
  @discardableResult
  public func advanceToNextSleeper(sourceLocation: SourceLocation = #_sourceLocation) async -> Duration? {
    await clock.advanceToNextSleeper { await settled(at: sourceLocation) == .done }.moved
  }

  /// Advances the clock from deadline to deadline until no task sleeps.
  ///
  /// - Parameters:
  ///   - limit: The number of deadlines after which an issue is recorded.
  ///   - sourceLocation: The place of issues.
  public func run(limit: Int = 1_000, sourceLocation: SourceLocation = #_sourceLocation) async {
    await clock.run(limit: limit, sourceLocation: sourceLocation) { await settled(at: sourceLocation) == .done }
  }

  // MARK: Giving and taking

  func commit(_ action: Action, at location: SourceLocation) async -> Commit? {
    _ = await settled(at: location)
    let taken: Commit?
    do throws(StoreError) {
      taken = try await root.send(action) { [ledger] _ in ledger.takeSent(action) }
    } catch {
      _ = await settled(at: location)
      Issue.record("\(show(action)) was not committed: \(error)", [], at: location)
      return nil
    }
    if strictness == .strict, let taken { report(before: taken.position, sending: action, at: location) }
    _ = await settled(at: location)
    if taken == nil { Issue.record("The commit of \(show(action)) was not seen.", [], at: location) }
    return taken
  }

  /// Checks that `send` throws an error, and that no action is committed meanwhile.
  public func expectRefusal(
    of action: Action, with error: StoreError, sourceLocation: SourceLocation = #_sourceLocation
  ) async {
    guard await settled(at: sourceLocation) == .done,
      let position = await onTree(at: sourceLocation, { [ledger] in ledger.position })
    else { return }
    do throws(StoreError) {
      try await root.send(action, isolation: nil)
      Issue.record("\(show(action)) was committed: expected \(error)", [], at: sourceLocation)
    } catch let actual {
      if actual != error {
        Issue.record("\(show(action)) was refused: expected \(error), is \(actual)", [], at: sourceLocation)
      }
      let others = await onTree(at: sourceLocation) { [ledger] in ledger.actions(after: position) } ?? []
      if !others.isEmpty {
        Issue.record(
          "\(show(action)) was refused, and others were committed.", others.map { show($0) }, at: sourceLocation)
      }
    }
    _ = await settled(at: sourceLocation)
  }

  private func report(before position: Int, sending action: Action, at location: SourceLocation) {
    let commits = ledger.report(before: position)
    if commits.isEmpty { return }
    Issue.record(
      "Actions were not received before \(show(action)) was sent.", commits.map { show($0.action) }, at: location)
  }

  func next(
    _ expected: String, at location: SourceLocation, isolation: isolated (any Actor)? = #isolation,
    matches: (Action) -> Bool
  ) async -> (commit: Commit, matches: Bool)? {
    var skipped: [Commit] = []
    while true {
      let (commit, outcome) = await takeFirst(at: location)
      if let commit {
        let matches = matches(commit.action)
        if matches || strictness == .strict { return (commit, matches) }
        skipped.append(commit)
      } else {
        guard outcome == .done else { return nil }
        break
      }
    }
    var lines = skipped.inWords(as: "received")
    if let waiting = await probe.runningEffects(within: limit).inWords("effects that wait") { lines.append(waiting) }
    if Task.isCancelled { return nil }
    Issue.record("Expected \(expected), and nothing comes: the store has settled.", lines, at: location)
    return nil
  }

  private func takeFirst(at location: SourceLocation) async -> (Commit?, WaitingOutcome) {
    let answer = LockedValue<Commit?>(nil)
    let outcome = await wait(within: limit) { [visitor, ledger] in
      var commit = await visitor.visit { ledger.takeFirst() }
      if commit == nil {
        await visitor.root.settled()
        commit = await visitor.visit { ledger.takeFirst() }
      }
      answer.withLock { [commit] in $0 = commit }
    }
    if outcome != .cancelled { await report(outcome, at: location) }
    return (outcome == .done ? answer.withLock { $0 } : nil, outcome)
  }

  /// Removes all unreceived actions, and returns them.
  @discardableResult
  public func skipReceived(sourceLocation: SourceLocation = #_sourceLocation) async -> [Action] {
    guard await settled(at: sourceLocation) != .cancelled else { return [] }
    return await onTree(at: sourceLocation) { [ledger] in ledger.takeAll() }?.map(\.action) ?? []
  }

  // MARK: The end

  /// Reports everything that has not been accounted for, and shuts the store down if the test store has made it.
  /// A second call does nothing.
  public func finish(sourceLocation: SourceLocation = #_sourceLocation) async {
    let settling = await settled(at: sourceLocation)
    var running = EffectsInWords.none
    if settling == .done { running = await probe.runningEffects(within: limit) }
    let close = { @Sendable [ledger] in ledger.close() ? ledger.takeAll() : nil }
    let left = settling == .done ? await onTree(at: sourceLocation, close) ?? close() : close()
    guard let left else { return }
    if strictness == .strict, settling != .cancelled, !Task.isCancelled {
      let lines = unaccounted(left) + [running.inWords("effects that have not ended")].compactMap { $0 }
      if !lines.isEmpty { Issue.record("Not everything was accounted for.", lines, at: sourceLocation) }
    }
    if isForeign { return }
    if await wait(within: limit, for: { [root] in await root.shutdown() }) == .late {
      await record("ended", at: sourceLocation)
    }
  }

  private func unaccounted(_ left: [Commit]) -> [String] {
    left.filter { !$0.isReported }.inWords(as: "not received")
      + ledger.takeUnseen().inWords(as: "state not looked at, after")
  }
}

/// How much a `TestStore` requires to be accounted for.
public enum Strictness: Sendable {
  /// Everything.
  case strict
  /// The actions and changes that the test names. Other actions are skipped.
  case relaxed
}

extension [Any] {
  fileprivate func inWords(as title: String) -> [String] {
    let shown = prefix(16).map { "\(title): \(show($0))" }
    return count > shown.count ? shown + ["and \(count - shown.count) more"] : shown
  }
}

extension Array {
  fileprivate func inWords<State, Action>(as title: String) -> [String]
  where Element == CommitLedger<State, Action>.Commit {
    map { $0.action as Any }.inWords(as: title)
  }
}
