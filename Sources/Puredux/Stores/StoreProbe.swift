/// What `PureduxTesting` asks of a store of any kind, beyond the public interface.
package struct StoreProbe<State: Sendable>: Sendable {
  private let node: any AnyStoreNode
  private let source: Confined<Source<State>>

  /// - Parameter unchanged: Which states are left out.
  package init<Action>(_ store: Store<State, Action>, except unchanged: Equating<State> = .neverEqual) {
    node = store.route.node
    source = store.source.removingDuplicates(unchanged)
  }

  /// The root of the tree.
  private var root: any AnyStoreNode {
    var root = node
    while let parent = root.parentNode { root = parent }
    return root
  }

  /// Passes each state to a closure, on the tree's executor and in commit order, from the place in the order on that is
  /// taken when this returns; as `states()` delivers them, but within the commit.
  ///
  /// - Parameter ended: Called once, after the last state, when the store ends or the following is cancelled; at once
  ///   if it has ended.
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

  /// Calls a closure on the tree's executor, between two commits, after everything that was requested of the tree
  /// before. Nil if the tree has ended.
  @discardableResult
  package func visit<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result? {
    try? await root.run(isolation: nil, by: nil) { _ throws(StoreError) in
      body()
    } pending: {
      PendingRequest { _ throws(StoreError) in body() }
    }
  }

  /// Returns when everything that was requested of the tree before is done.
  package func untilCommitted() async { await visit {} }

  /// Like `settled()` of the root store.
  package func treeSettled() async {
    await root.settled(isolation: nil)
  }

  /// How many effects run or wait in the tree under each id, and how many run without one, or have been cancelled. When
  /// the tree has ended, the ids are not known any more.
  package func effects() async -> (named: [String: Int], unnamed: Int) {
    let root = root
    let known = await visit { root.existingEffects.map { ($0.namedCounts, $0.unnamedCount) } ?? ([:], 0) }
    return known ?? ([:], root.existingEffects?.runningCount ?? 0)
  }

  /// How many actions the tree has committed.
  package var commitCount: Int { node.commitCount }

  /// Whether the store takes nothing more.
  package var hasEnded: Bool { node.hasEnded }
}
