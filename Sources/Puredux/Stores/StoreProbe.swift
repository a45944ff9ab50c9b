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
    return Subscription { [node] in node.enqueueDetachment { tree in follower(on: tree).detachIfIdle() } }
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
