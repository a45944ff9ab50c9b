import Synchronization

/// Figures of a running tree, for operators of a server: the value of `RootStore.statistics`.
public struct StoreStatistics: Sendable, Equatable {
  /// How many commits there have been.
  public var commits = 0
  /// How many actions and other requests wait for their turn.
  public var waiting = 0
  /// How many child stores there are, at any depth.
  public var childStores = 0
  /// How many state sequences and observers are subscribed.
  public var subscriptions = 0
  /// How many states wait for the subscriber that has the most to read, not counting up to 31 that its consumer has
  /// taken ahead.
  public var longestBacklog = 0
  /// How many tasks of effects and observers run.
  public var runningTasks = 0
  /// How many effects run or wait under each id, as it describes itself, in all stores of the tree; for effects of the
  /// state, how many run.
  public var effects: [String: Int] = [:]
  /// Where the store stands with the log that it follows; nil where it follows none.
  public var log: LogStatistics?

  /// For tests of what reads statistics: stores make their own.
  public init(
    commits: Int = 0, waiting: Int = 0, childStores: Int = 0, subscriptions: Int = 0, longestBacklog: Int = 0,
    runningTasks: Int = 0, effects: [String: Int] = [:], log: LogStatistics? = nil
  ) {
    self.effects = effects
    self.log = log
    self.commits = commits
    self.waiting = waiting
    self.childStores = childStores
    self.subscriptions = subscriptions
    self.longestBacklog = longestBacklog
    self.runningTasks = runningTasks
  }
}

extension RootStore {
  /// Figures of the tree: a snapshot, taken between two commits, without first performing what waits.
  ///
  /// It needs no bookkeeping: it costs something only when it is read. It looks at every followed source and at every
  /// subscription once. After the end, it returns the figures at the end.
  @inlinable public nonisolated var statistics: StoreStatistics {
    get async { await core.node.tree.statistics(of: core.source.map { $0 }) }
  }
}

extension Tree {
  @usableFromInline func statistics(
    of source: Confined<AnySource>, isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics {
    announceVisit()
    switch await statisticsNow(of: source) {
    case .done(let statistics): return statistics
    // The visit does not throw.
    case .pending(let request): return try! await request.value()
    }
  }

  private func statisticsNow(of source: Confined<AnySource>) -> Visit<StoreStatistics> {
    guard enter() else {
      endVisit()
      return .pending(
        postpone(
          PendingRequest(isOrdered: false) { [self] _ throws(StoreError) in
            assumeIsolated { $0.currentStatistics(of: source) }
          }, for: nil))
    }
    defer { leaveFromVisit() }
    if withRequests({ $0.inbox.visitorCame() }) { scheduleDrain() }
    return .done(currentStatistics(of: source))
  }

  private func currentStatistics(of source: Confined<AnySource>) -> StoreStatistics {
    let survey = source(on: self).survey
    return StoreStatistics(
      commits: commitCount.load(ordering: .relaxed),
      waiting: waitingCount,
      childStores: childCount,
      subscriptions: survey.subscriptions, longestBacklog: survey.longestBacklog,
      runningTasks: existingTaskRegistry?.runningCount ?? 0,
      effects: existingTaskRegistry?.namedCounts ?? [:], log: order?.statistics)
  }
}
