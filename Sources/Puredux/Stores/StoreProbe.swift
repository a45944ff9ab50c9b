/// Access to a store of any kind for `PureduxTesting`.
package struct StoreProbe<State: Sendable>: Sendable {
  private let node: any AnyStoreNode
  private let source: Confined<Source<State>>

  package init<Action>(_ store: Store<State, Action>, except unchanged: Equating<State> = .neverEqual) {
    node = store.route.node
    source = store.source.removingDuplicates(unchanged)
  }

  private var root: any AnyStoreNode {
    var root = node
    while let parent = root.parentNode { root = parent }
    return root
  }

  /// Like `states()`, but within the commit, on the tree's executor, from this place in the order on.
  ///
  /// - Parameter ended: Called once, after the last state, when the store ends or the subscription is cancelled; at
  ///   once if the store has ended.
  package func follow(
    _ tell: @escaping @Sendable (State) -> Void, ended: @escaping @Sendable () -> Void
  ) -> Subscription {
    let follower = source.map { Follower(of: $0, StateFollowing(tell: { tell($0) }, vanish: {}), ended: ended) }
    guard node.enqueue({ tree in follower(on: tree).begin() }) else {
      ended()
      return Subscription {}
    }
    return Subscription { [node] in _ = node.enqueue { tree in follower(on: tree).detachIfIdle() } }
  }

  /// After all earlier requests, between two commits, on the tree's executor. Nil if the tree has ended.
  @discardableResult
  package func visit<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result? {
    try? await root.run(isolation: nil, by: nil) { _ throws(StoreError) in
      body()
    } pending: {
      PendingRequest { _ throws(StoreError) in body() }
    }
  }

  package func untilCommitted() async { await visit {} }

  package func treeSettled() async {
    await root.settled(isolation: nil)
  }

  /// Running and waiting effects: by id (unknown after the tree's end), and those without an id or cancelled.
  package func effects() async -> (named: [String: Int], unnamed: Int) {
    let root = root
    let known = await visit { root.existingEffects.map { ($0.namedCounts, $0.unnamedCount) } ?? ([:], 0) }
    return known ?? ([:], root.existingEffects?.runningCount ?? 0)
  }

  package var commitCount: Int { node.commitCount }

  package var hasEnded: Bool { node.hasEnded }
}

extension RootStore {
  /// Figures of the tree, between two commits or at the end. Does not perform pending requests first.
  ///
  /// Cost: only the read, which visits each followed source and each subscription once.
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

extension Sequence {
  /// Sends the actions of a history to a store, in order. A new store with the same reducers, whose initial state is
  /// the first entry's `stateBefore`, passes through the same states.
  ///
  /// The store should have no middleware and no interceptor: the history has actions as middleware passed them on, and
  /// those that an interceptor dispatched.
  ///
  /// - Throws: The errors of the store's `send`.
  public func replay<State, Action>(
    into store: some ActionHandler<Action>, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) where Element == History<State, Action>.Entry {
    for entry in self { try await store.send(entry.action) }
  }
}
