/// Figures of a running tree: the value of `RootStore.statistics`.
public struct StoreStatistics: Sendable, Equatable {
  /// The number of commits so far.
  public var commits = 0
  /// Actions and other requests that wait for their turn.
  public var waiting = 0
  /// Child stores, at any depth.
  public var childStores = 0
  /// Subscribed state sequences and observers.
  public var subscriptions = 0
  /// The most states that wait for one subscriber, without up to 31 that its consumer has taken ahead.
  public var longestBacklog = 0
  /// Running tasks of effects and observers.
  public var runningTasks = 0
  /// Running and waiting effects of each id, by its description, in all stores of the tree; for effects of the state,
  /// only the running ones.
  public var effects: [String: Int] = [:]
  /// The progress with the log that the store follows, if any.
  public var log: LogStatistics?

  package var isNeeded: Bool {
    subscriptions > 0 || waiting > 0 || runningTasks > 0 || (log?.pendingActions ?? 0) > 0
  }

  /// For tests.
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

/// Identifies a store within its tree, and is never reused there. A proxy has the identity of the store that its
/// actions are given to.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
  @usableFromInline let number: Int

  @inlinable init(number: Int) {
    self.number = number
  }

  /// The root store, in any tree.
  @inlinable public static var root: StoreID { StoreID(number: 0) }

  public var description: String { number == 0 ? "root" : "child \(number)" }
}

extension Tree {
  @usableFromInline func statistics(
    of source: Confined<AnySource>, isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics {
    await statistics(of: source, unlessEnded: nil)!
  }

  /// - Parameter node: The node of a store that the caller does not hold: nil is returned if it has ended. Checked on
  ///   the executor, because an ended store's parts may be released elsewhere.
  func statistics(
    of source: Confined<AnySource>, unlessEnded node: StoreNode<Action>?,
    isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics? {
    announceVisit()
    switch await statisticsNow(of: source, unlessEnded: node) {
    case .done(let statistics): return statistics
    case .pending(let request): return try! await request.value()
    }
  }

  private func statisticsNow(
    of source: Confined<AnySource>, unlessEnded node: StoreNode<Action>?
  ) -> Visit<StoreStatistics?> {
    guard enter() else {
      endVisit()
      return .pending(
        postpone(
          PendingRequest(isOrdered: false) { [self] _ throws(StoreError) in
            assumeIsolated { node?.hasEnded == true ? nil : $0.currentStatistics(of: source) }
          }, for: nil))
    }
    defer { leaveFromVisit() }
    if withRequests({ $0.inbox.visitorCame() }) { scheduleDrain() }
    return .done(node?.hasEnded == true ? nil : currentStatistics(of: source))
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
