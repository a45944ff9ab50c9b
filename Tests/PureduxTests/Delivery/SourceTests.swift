import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(5))) struct SourceTests {
  /// As where an observer is subscribed by two at a time.
  @Test(arguments: [false, true])
  func `a subscription that is cancelled before its place comes leaves nothing to be worked out`(isFollowed: Bool)
    async throws
  {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let worked = Counter()
    let scope = root.scope { state in
      worked.increment()
      return state
    }
    let others = isFollowed ? scope.states() : nil
    let reading = scope.feed.removingDuplicates(.equal).makeReading(.unbounded, through: scope.route.place)
    reading.cancel()
    #expect(scope.route.place.order(reading))
    try await root.send(1)
    let before = worked.count
    try await root.send(1)
    #expect(worked.count == (isFollowed ? before + 1 : before))
    withExtendedLifetime((reading, others)) {}
  }

  /// Whether a root store's source has anybody to publish to, as its next commit will see it.
  private func isFollowed(_ root: RootStore<Int, Int>) async throws -> Bool {
    try await root.core.origin.tree.visit { tree throws(StoreError) in root.core.source(on: tree).isFollowed }
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
  func `a subscription that is dropped before its place has come leaves nothing behind`(isStream: Bool) async throws {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, executor: .serial(executor)) { $0 += $1 }
    executor.hold()
    for _ in 0..<3 {
      if isStream { _ = root.states() } else { _ = root.states() as StateSequence }
    }
    root.dispatch(1)
    executor.letGo()
    #expect(await root.state == 1)
    #expect(try await !isFollowed(root))
    #expect(root.core.feed.channel.log.withLock { $0.cursors.isEmpty })
  }
}
