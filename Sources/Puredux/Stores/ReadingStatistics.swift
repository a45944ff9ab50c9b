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
  /// Of a store that the caller holds.
  @usableFromInline func statistics(
    of source: Confined<AnySource>, isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics {
    await statistics(of: source, unlessEnded: nil)!
  }

  /// - Parameter node: That of a store that the caller does not hold: nil if it has ended. This is looked at on the
  ///   executor, as what a store has may be dropped elsewhere when it has ended.
  func statistics(
    of source: Confined<AnySource>, unlessEnded node: StoreNode<Action>?,
    isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics? {
    announceVisit()
    switch await statisticsNow(of: source, unlessEnded: node) {
    case .done(let statistics): return statistics
    // The visit does not throw.
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
