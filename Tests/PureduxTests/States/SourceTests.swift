import PureduxTestSupport
import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(15))) struct SourceTests {
  /// This happens if two callers subscribe one observer at once.
  @Test(arguments: [false, true])
  func `a subscription cancelled before its place in the order leaves nothing to compute`(isFollowed: Bool)
    async throws
  {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let worked = Counter()
    let scope = root.scope { state in
      worked.increment()
      return state
    }
    let others = isFollowed ? scope.states() : nil
    let subscriber = Subscriber(
      to: scope.source.removingDuplicates(.equal).map { $0 }, .unbounded, through: scope.route.node)
    subscriber.cancel()
    #expect(scope.route.node.enqueue(subscriber))
    try await root.send(1)
    let before = worked.count
    try await root.send(1)
    #expect(worked.count == (isFollowed ? before + 1 : before))
    withExtendedLifetime((subscriber, others)) {}
  }

  /// Whether the next commit sees subscribers of the root store's source.
  private func isFollowed(_ root: RootStore<Int, Int>) async throws -> Bool {
    try await root.core.node.tree.run { tree throws(StoreError) in root.core.source(on: tree).hasSubscribers }
  }

  @Test(arguments: [false, true])
  func `a source is followed from the first subscription to the last, its own or one below it`(
    isScoped: Bool
  ) async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let store = isScoped ? root.scope { $0 } : root.store()
    #expect(try await !isFollowed(root))
    var subscriptions: [StateSequence<Int>] = (0..<2).map { _ in store.states() }
    #expect(try await isFollowed(root))
    subscriptions.removeFirst()
    #expect(try await isFollowed(root))
    subscriptions.removeFirst()
    #expect(try await !isFollowed(root), "nothing is published any more")
    subscriptions.append(store.states())
    #expect(try await isFollowed(root))
    await root.shutdown()
    #expect(try await !isFollowed(root))
    withExtendedLifetime(subscriptions) {}
  }

  @Test(arguments: [false, true])
  func `a dropped subscription retains nothing of its request`(isVisited: Bool) async {
    let executor = HeldExecutor()
    let roots = Record<RootStore<Int, Int>>()
    let kept = Record<Int>()
    do {
      let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
        state, action in
        state += action
        if let root = roots.all.first {
          kept.add(root.core.published.channelOfSource.backlog.withLock { $0.kept.count })
        }
      }
      roots.add(root)
      executor.hold()
      _ = root.states() as StateSequence
      for _ in 0..<500 { root.dispatch(1) }
      let visitor = isVisited ? Task { await root.state } : nil
      if isVisited { await executor.untilEnqueued(2) }
      executor.letGo()
      if let visitor { #expect(await visitor.value == 500) }
      #expect(await root.state == 500)
      await root.shutdown()
    }
    #expect(kept.all.count == 500 && kept.all.allSatisfy { $0 == 0 })
  }

  @Test(arguments: [false, true])
  func `a subscription dropped before its place in the order leaves nothing behind`(isStream: Bool) async throws {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    executor.hold()
    for _ in 0..<3 {
      if isStream { _ = root.states() } else { _ = root.states() as StateSequence }
    }
    root.dispatch(1)
    executor.letGo()
    #expect(await root.state == 1)
    #expect(try await !isFollowed(root))
    #expect(root.core.published.channelOfSource.backlog.withLock { $0.cursors.count == 0 && $0.own.isEmpty })
  }
}
