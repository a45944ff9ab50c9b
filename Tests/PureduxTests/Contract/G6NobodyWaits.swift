import Puredux
import PureduxTestSupport
import Testing

/// A slow, stalled or cancelled subscriber delays no commit and no other subscriber.
@Suite(.timeLimit(.minutes(15))) struct G6NobodyWaits {
  @Test(arguments: Kind.allCases)
  func `a subscriber that never reads delays neither commits nor one that reads`(kind: Kind) async throws {
    let subject = Subject(kind)
    let stalled = [
      subject.states(), subject.states(bufferingPolicy: .bufferingNewest(3)),
      subject.states(bufferingPolicy: .bufferingOldest(3)),
    ]
    let read = subject.states()
    let actions = Array(1...1000)
    for action in actions { subject.store.dispatch(action) }
    #expect(await read.collect(1001) == subject.expectedStates(during: actions))
    #expect(try await subject.store.state == subject.expected(after: actions))
    await subject.root.shutdown()
    #expect(await stalled[0].collect().map(\.root.last) == [0] + actions)
    #expect(await stalled[1].collect().map(\.root.last) == [998, 999, 1000])
    #expect(await stalled[2].collect().map(\.root.last) == [0, 1, 2])
  }

  @Test(arguments: Kind.allCases, [-1, 0, 1, 2, 5, 100])
  func `the newest n are kept, and the last state is never lost`(kind: Kind, limit: Int) async throws {
    let subject = Subject(kind)
    let states = subject.states(bufferingPolicy: .bufferingNewest(limit))
    for action in 1...20 { subject.store.dispatch(action) }
    await subject.root.shutdown()
    let kept = min(max(limit, 1), 21)
    #expect(await states.collect().map(\.root.last) == Array((0...20).suffix(kept)))
  }

  @Test(arguments: Kind.allCases, [-1, 0, 1, 2, 5, 100])
  func `the oldest n are kept, and reading makes room`(kind: Kind, limit: Int) async throws {
    let subject = Subject(kind)
    let states = subject.states(bufferingPolicy: .bufferingOldest(limit))
    let kept = min(max(limit, 1), 21)
    for action in 1...20 { subject.store.dispatch(action) }
    _ = try await subject.store.state
    #expect(await states.collect(1).map(\.root.last) == [0])
    try await subject.store.send(100)
    await subject.root.shutdown()
    #expect(await states.collect().map(\.root.last) == Array((0...20).prefix(kept).dropFirst()) + [100])
  }

  @Test(arguments: Kind.allCases)
  func `a consumer that keeps up gets every state whatever the policy`(kind: Kind) async throws {
    let subject = Subject(kind)
    let policies: [AsyncStream<Snapshot>.Continuation.BufferingPolicy] = [
      .unbounded, .bufferingNewest(1), .bufferingOldest(1),
    ]
    var iterators = policies.map { subject.states(bufferingPolicy: $0).makeAsyncIterator() }
    for action in 0...50 {
      if action > 0 { subject.store.dispatch(action) }
      for index in iterators.indices {
        #expect(try await iterators[index].next()?.root.last == action)
      }
    }
  }

  // MARK: Stored states

  /// A tree that makes a new state at each commit and counts the live ones.
  private struct Counting {
    let root: RootStore<Counted, Int>
    private let made = Counter()
    private let gone = Counter()

    init() {
      made.increment()
      root = RootStore(initialState: Counted(gone)) { [made, gone] state, _ in
        made.increment()
        state = Counted(gone)
      }
    }

    var alive: Int { made.count - gone.count }

    func stalled(_ limit: Int) -> AsyncStream<Counted> { root.states(bufferingPolicy: .bufferingNewest(limit)) }
  }

  @Test func `with a fast subscriber of a large limit, only a stalled subscriber's newest states are stored`()
    async throws
  {
    let counting = Counting()
    let stalled = [counting.stalled(1), counting.stalled(3)]
    var keeper = counting.stalled(100_000).makeAsyncIterator()
    _ = await keeper.next()
    for commit in 1...1000 {
      try await counting.root.send(commit)
      _ = await keeper.next()
      #expect(counting.alive == min(commit + 1, 3))
    }
    await counting.root.shutdown()
    #expect(await stalled[0].collect().count == 1)
    #expect(await stalled[1].collect().count == 3)
  }

  @Test(arguments: [1, 2, 10, 300])
  func `with a slow subscriber of a large limit, only its unread states are stored`(distance: Int) async throws {
    let counting = Counting()
    let stalled = [counting.stalled(1), counting.stalled(2)]
    var keeper = counting.stalled(100_000).makeAsyncIterator()
    for commit in 1...1000 {
      try await counting.root.send(commit)
      if commit > distance { _ = await keeper.next() }
      let unread = min(commit + 1, distance + 1)
      #expect(counting.alive == max(unread, 2))
    }
    withExtendedLifetime(stalled) {}
  }

  @Test func `of many limits the largest determines the stored states, only as long as its subscriber exists`()
    async throws
  {
    let counting = Counting()
    var stalled: [AsyncStream<Counted>] = []
    for limit in 1...50 {
      stalled.append(counting.stalled(limit))
      try await counting.root.send(limit)
    }
    for action in 1...200 { try await counting.root.send(action) }
    for limit in stride(from: 50, to: 0, by: -1) {
      #expect(counting.alive == limit)
      stalled.removeLast()
    }
    #expect(counting.alive == 1)
  }

  @Test func `an unread first state is stored as long as its buffer allows`() async throws {
    let counting = Counting()
    var stalled: [(limit: Int, states: AsyncStream<Counted>)] = []
    for commit in 1...200 {
      let limit = 1 + commit % 4
      stalled.append((limit, counting.stalled(limit)))
      try await counting.root.send(commit)
      #expect(counting.alive == stalled.enumerated().map { min($1.limit, commit - $0 + 1) }.max())
    }
    withExtendedLifetime(stalled) {}
  }

  /// Each state stored for a subscriber is another reference, which would make a reducer copy the state's collections.
  @Test(arguments: Kind.allCases)
  func `while all subscribers keep up, only the store holds the state`(kind: Kind) async throws {
    let root = RootStore<[Int], Int>(initialState: Array(repeating: 0, count: 1000)) { $0[0] = $1 }
    let child = root.childStore(initialState: 0) { $0 = $1 }
    let store: any StoreType<[Int], Int> = kind.depth > 0 ? child.scope { $0.0 } : root
    var iterators = [
      store.states(), store.states(bufferingPolicy: .bufferingNewest(2)),
      store.states(bufferingPolicy: .bufferingOldest(2)), root.states(removeStateDuplicates: .equal { $0[0] }),
    ].map { $0.makeAsyncIterator() }
    for index in iterators.indices { _ = await iterators[index].next() }
    var places: Set<UInt> = []
    for action in 1...20 {
      places.insert(
        try await store.send(action) { array in
          unsafe array.withUnsafeBufferPointer { UInt(bitPattern: $0.baseAddress) }
        })
      for index in iterators.indices { #expect(await iterators[index].next()?[0] == action) }
    }
    #expect(places.count == 1)
    withExtendedLifetime(child) {}
  }
}
