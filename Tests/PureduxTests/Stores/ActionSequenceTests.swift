import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ActionSequenceTests {
  struct Failure: Error, Equatable {}

  @Test(arguments: Kind.allCases)
  func `every action of a sequence is sent, in order, until it ends`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.store.states()
    let (actions, continuation) = AsyncStream<Int>.makeStream()
    for action in 1...20 { continuation.yield(action) }
    continuation.finish()
    try await subject.store.send(contentsOf: actions)
    #expect(try await subject.store.state == subject.expected(after: Array(1...20)), "committed when it returns")
    await subject.root.shutdown()
    #expect(await states.collect() == subject.expectedStates(during: Array(1...20)))
  }

  @Test func `the next action is requested after the commit of the last`() async throws {
    let committed = Record<Int>()
    let store = RootStore<Int, Int>(initialState: 0) { state, action in
      state += action
      committed.add(action)
    }
    let numbers = AsyncStream<Int>(unfolding: {
      let next = committed.all.count + 1
      return next <= 50 ? next : nil
    })
    try await store.send(contentsOf: numbers)
    #expect(committed.all == Array(1...50))
  }

  @Test(arguments: Kind.allCases)
  func `the end of the store ends it, also while the sequence has nothing`(kind: Kind) async throws {
    let subject = Subject(kind)
    let (actions, continuation) = AsyncStream<Int>.makeStream()
    let feeding = Task { [store = subject.store] in try await store.send(contentsOf: actions) }
    let states = subject.store.states()
    continuation.yield(1)
    _ = await states.collect(until: { $0.root.count == 1 })
    await subject.root.shutdown()
    await #expect(throws: StoreError.terminated) { try await feeding.value }
    await #expect(throws: StoreError.terminated) {
      try await subject.store.send(contentsOf: AsyncStream<Int> { _ in })
    }
  }

  @Test(arguments: Kind.allCases)
  func `a store that has ended takes no sequence, even an empty one`(kind: Kind) async throws {
    let subject = Subject(kind)
    await subject.root.shutdown()
    for _ in 0..<20 {
      await #expect(throws: StoreError.terminated) {
        try await subject.store.send(contentsOf: AsyncStream<Int> { $0.finish() })
      }
    }
  }

  @Test(arguments: Kind.allCases)
  func `the release of the store ends it`(kind: Kind) async throws {
    let feeding: Task<Void, any Error>
    do {
      let subject = Subject(kind)
      feeding = Task { [proxy = subject.store.store()] in
        try await proxy.send(contentsOf: AsyncStream<Int> { _ in })
      }
      await Task.yield()
    }
    await #expect(throws: StoreError.terminated) { try await feeding.value }
  }

  @Test(arguments: Kind.allCases)
  func `it is cancelled with its caller`(kind: Kind) async throws {
    let subject = Subject(kind)
    let (actions, continuation) = AsyncStream<Int>.makeStream()
    let ended = Gate()
    continuation.onTermination = { _ in ended.open() }
    let feeding = Task { [store = subject.store] in try await store.send(contentsOf: actions) }
    continuation.yield(1)
    _ = await subject.store.states().collect(until: { $0.root.count == 1 })
    feeding.cancel()
    await ended.wait()
    await #expect(throws: CancellationError.self) { try await feeding.value }
    try await subject.store.send(2)
  }

  /// Endless numbers, without pauses and without checks of cancellation.
  struct Heedless: AsyncSequence, AsyncIteratorProtocol, Sendable {
    /// The end of a failing test.
    static let last = 100_000

    let before: @Sendable (Int) async -> Void
    var number = 0

    func makeAsyncIterator() -> Heedless { self }
    mutating func next() async -> Int? {
      number += 1
      await before(number)
      return number <= Self.last ? number : nil
    }
  }

  @Test(arguments: Kind.allCases)
  func `a sequence that ignores its cancellation ends with the current action`(kind: Kind)
    async throws
  {
    let subject = Subject(kind)
    let (feedings, isCancellable) = (Record<Task<Void, any Error>>(), Gate())
    let feeding = Task { [store = subject.store] in
      await isCancellable.wait()
      try await store.send(contentsOf: Heedless { if $0 == 10 { feedings.all.first?.cancel() } })
    }
    feedings.add(feeding)
    isCancellable.open()
    await #expect(throws: CancellationError.self) { try await feeding.value }
    let state = try await subject.store.state
    #expect(state == subject.expected(after: Array(1...9)))
  }

  @Test(arguments: Kind.allCases)
  func `a sequence that ignores its cancellation ends with the store`(kind: Kind) async throws {
    let history = History<Snapshot, Int>(limit: Heedless.last)
    let subject = Subject(kind, history: history)
    await #expect(throws: StoreError.terminated) {
      try await subject.store.send(contentsOf: Heedless { if $0 == 10 { await subject.root.shutdown() } })
    }
    #expect(history.entries.last?.state.root == Ledger(count: 9, last: 9))
  }

  @Test func `the sequence's error is rethrown, and so is the store's refusal`() async throws {
    let store = RootStore<Int, Int>(
      initialState: 0, middleware: [.guarding { action, _ in action == 3 ? "three" : nil }]
    ) { $0 += $1 }
    let (failing, continuation) = AsyncThrowingStream<Int, any Error>.makeStream()
    continuation.yield(1)
    continuation.finish(throwing: Failure())
    await #expect(throws: Failure()) { try await store.send(contentsOf: failing) }
    let numbers = AsyncStream<Int> { continuation in
      for number in 2...9 { continuation.yield(number) }
    }
    await #expect(throws: StoreError.rejected(reason: "three")) { try await store.send(contentsOf: numbers) }
    let even = store.projection(action: { $0.isMultiple(of: 2) ? $0 : nil }, state: { $0 })
    let mixed = AsyncStream<Int> { continuation in
      for number in [10, 12, 13, 14] { continuation.yield(number) }
    }
    await #expect(throws: StoreError.unmapped) { try await even.send(contentsOf: mixed) }
    #expect(await store.state == 1 + 2 + 10 + 12)
  }
}
