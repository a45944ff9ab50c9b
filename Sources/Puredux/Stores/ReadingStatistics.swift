extension RootStore {
  /// Figures of the tree: a snapshot between two commits, without first performing pending requests. After the end,
  /// these are the figures at the end.
  ///
  /// Only reading costs anything: each followed source and each subscription is visited once.
  @inlinable public nonisolated var statistics: StoreStatistics {
    get async { await core.node.tree.statistics(of: core.source.map { $0 }) }
  }
}

extension Tree {
  @usableFromInline func statistics(
    of source: Confined<AnySource>, isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics {
    await statistics(of: source, unlessEnded: nil)!
  }

  /// - Parameter node: Node of a store that the caller does not hold; nil is returned if it has ended. Checked on the
  ///   executor, because an ended store's parts may be released elsewhere.
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
