import AsyncAlgorithms
import Puredux

/// Commits so often while subscribers read all states through streams. Returns when they have read the last.
private func deliver(
  _ commits: Int, to subscribers: Int, stalled: Int = 0,
  _ policy: AsyncStream<Board>.Continuation.BufferingPolicy = .unbounded
) async throws {
  let root = makeRoot()
  let store = root.store()
  let waiting = (0..<stalled).map { _ in root.states(bufferingPolicy: policy) }
  try await withThrowingTaskGroup { tasks in
    for _ in 0..<subscribers {
      let states = root.states(bufferingPolicy: policy)
      tasks.addTask {
        for await board in states where board.count == commits { break }
      }
    }
    for _ in 0..<commits { try await store.send(.add(1)) }
    try await tasks.waitForAll()
  }
  withExtendedLifetime(waiting) {}
}

private func deliverInSequence(_ commits: Int, to subscribers: Int) async throws {
  let root = makeRoot()
  let store = root.store()
  try await withThrowingTaskGroup { tasks in
    for _ in 0..<subscribers {
      let states = root.states() as StateSequence
      tasks.addTask {
        for await board in states where board.count == commits { break }
      }
    }
    for _ in 0..<commits { try await store.send(.add(1)) }
    try await tasks.waitForAll()
  }
}

private func deliverByHand(_ commits: Int, to subscribers: Int) async {
  let store = HandWritten()
  await withTaskGroup { tasks in
    for _ in 0..<subscribers {
      let states = await store.states()
      tasks.addTask {
        for await board in states where board.count == commits { break }
      }
    }
    for _ in 0..<commits { await store.send(.add(1)) }
  }
}

/// The cost of `AsyncStream` itself: a stream of constant elements.
private func constants(_ count: Int) -> AsyncStream<Board> {
  let made = Own()
  return AsyncStream {
    made.count += 1
    return made.count <= count ? Board() : nil
  } onCancel: {
  }
}

private func deliverShared(_ commits: Int, to subscribers: Int) async {
  let (states, continuation) = AsyncStream<Board>.makeStream()
  let shared = states.share(bufferingPolicy: .unbounded)
  let store = Plain()
  await withTaskGroup { tasks in
    for _ in 0..<subscribers {
      tasks.addTask {
        for await board in shared where board.count == commits { break }
      }
    }
    // Time to subscribe: a late subscriber misses only the first states, and needs only the last.
    for _ in 0..<100 { await Task.yield() }
    for number in 1...commits {
      await store.send(.add(1))
      continuation.yield(Board(count: number))
      if number.isMultiple(of: 8) { await Task.yield() }
    }
    continuation.finish()
  }
}

private func deliverOnQueue(_ commits: Int, to subscribers: Int, completing: Bool = false) {
  let store = QueueStore()
  for _ in 0..<subscribers {
    let own = Own()
    if completing {
      store.observe { board, complete in
        own.count = board.count
        complete(.active)
      }
    } else {
      store.observe { own.count = $0.count }
    }
  }
  for _ in 0..<commits { store.dispatch(.add(1)) }
  store.wait()
}

/// The count of one observer or one stream; never accessed concurrently.
private final class Own: @unchecked Sendable {
  var count = 0
}

func deliveries() {
  // Deliveries through `AsyncStream` have no bounds, because the stream itself takes longer. Callbacks that wake nobody
  // have none either.
  for (subscribers, commits, sequenceBound) in [
    (1, 20_000, nil), (10, 5_000, nil), (100, 500, nil), (1_000, 100, 0.12), (10_000, 20, nil),
  ] as [(Int, Int, Double?)] {
    compare(
      Line(name: "a delivery, \(subscribers) subscribers", beside: "a continuation for each"),
      operations: subscribers * commits
    ) {
      try await deliver(commits, to: subscribers)
    } theirs: {
      await deliverByHand(commits, to: subscribers)
    }
    compare(
      Line(
        name: "a delivery in a StateSequence, \(subscribers) subscribers", beside: "a continuation for each",
        bound: sequenceBound), operations: subscribers * commits
    ) {
      try await deliverInSequence(commits, to: subscribers)
    } theirs: {
      await deliverByHand(commits, to: subscribers)
    }
  }
  for (form, sharedBound, callbackBound, ours) in [
    ("a delivery", nil, nil, { @Sendable in try await deliver(100, to: 1_000) }),
    ("a delivery in a StateSequence", 0.04, 1.5, { @Sendable in try await deliverInSequence(100, to: 1_000) }),
  ] as [(String, Double?, Double?, @Sendable () async throws -> Void)] {
    compare(
      Line(name: "\(form), 1000 subscribers", beside: "share()", bound: sharedBound), operations: 100_000,
      iterations: 5, ours: ours
    ) {
      await deliverShared(100, to: 1_000)
    }
    compare(
      Line(name: "\(form), 1000 subscribers", beside: "callbacks on a dispatch queue"), operations: 100_000, ours: ours
    ) {
      deliverOnQueue(100, to: 1_000)
    }
    compare(
      Line(name: "\(form), 1000 subscribers", beside: "callbacks that complete, as Puredux's", bound: callbackBound),
      operations: 100_000, ours: ours
    ) {
      deliverOnQueue(100, to: 1_000, completing: true)
    }
  }
  compare(
    Line(name: "a delivery, 1000 subscribers", beside: "an AsyncStream of a constant", bound: 1.5), operations: 100_000
  ) {
    try await deliver(100, to: 1_000)
  } theirs: {
    for await _ in constants(100_000) {}
  }
  compare(Line(name: "the same, conflated", beside: "each reading everything"), operations: 100_000) {
    try await deliver(100, to: 1_000, .bufferingNewest(1))
  } theirs: {
    try await deliver(100, to: 1_000)
  }
  compare(Line(name: "the same, beside as many stalled", beside: "each reading everything"), operations: 100_000) {
    try await deliver(100, to: 1_000, stalled: 1_000)
  } theirs: {
    try await deliver(100, to: 1_000)
  }

  @Sendable func stalled(_ count: Int, _ policy: AsyncStream<Board>.Continuation.BufferingPolicy) async throws -> Double
  {
    let root = makeRoot()
    let waiting = (0..<count).map { _ in root.states(bufferingPolicy: policy) }
    let store = root.store()
    @Sendable func commit(_ count: Int) async throws {
      for number in 1..<count { store.dispatch(.add(number)) }
      try await store.send(.add(0))
    }
    // A first run allocates the memory.
    try await commit(20_000)
    let taken = try await nanoseconds(20_000) { try await commit(20_000) }
    withExtendedLifetime(waiting) {}
    return taken
  }
  measure(Line(name: "a commit beside 10000 stalled", beside: "beside one", bound: 1.2)) {
    (try await stalled(10_000, .unbounded), try await stalled(1, .unbounded))
  }
  measure(Line(name: "the same, .bufferingNewest(1)", beside: "beside one", bound: 1.2)) {
    (try await stalled(10_000, .bufferingNewest(1)), try await stalled(1, .bufferingNewest(1)))
  }
  // Against none, because an unbounded subscriber also needs memory for each state.
  measure(Line(name: "a commit beside 1000 stalled", beside: "beside none", bound: 5)) {
    (try await stalled(1_000, .unbounded), try await stalled(0, .unbounded))
  }
  measure(Line(name: "the same, .bufferingNewest(1)", beside: "beside none", bound: 5)) {
    (try await stalled(1_000, .bufferingNewest(1)), try await stalled(0, .unbounded))
  }
  measure(Line(name: "the same, .bufferingNewest(100)", beside: "beside none", bound: 5)) {
    (try await stalled(1_000, .bufferingNewest(100)), try await stalled(0, .unbounded))
  }
  measure(Line(name: "the same, .bufferingOldest(1)", beside: "beside none", bound: 5)) {
    (try await stalled(1_000, .bufferingOldest(1)), try await stalled(0, .unbounded))
  }
  measure(Line(name: "a commit beside 1000 scopes that do not change, each", beside: "100 ns", bound: 0.4)) {
    let root = makeRoot(Board(items: Array(repeating: 0, count: 1_000)))
    let scoped = (0..<1_000).map { index in
      root.scope { $0.items[index] }.states(removeStateDuplicates: .equal)
    }
    let readers = scoped.map { states in Task { for await _ in states {} } }
    let store = root.store()
    try await store.send(.add(1))
    let taken = try await nanoseconds(200 * 1_000) {
      for number in 0..<200 { try await store.send(.set(number, number + 1)) }
    }
    await root.shutdown()
    for reader in readers { await reader.value }
    return (taken, 100)
  }

  for isLoaded in [false, true] {
    latency("from dispatch to a waiting subscriber's element, \(isLoaded ? "under load" : "idle")", isLoaded: isLoaded)
  }
}
