import AllocationCount
import Benchmark
import Puredux
import Synchronization

private let actions = 200_000

private func dispatchAll(_ store: Store<Board, Action>, _ count: Int = actions) async throws {
  for number in 1..<count {
    store.dispatch(.add(number))
    blackHole(number)
  }
  // Returns after all actions are committed.
  try await store.send(.add(0))
}

private func sendAll(_ store: Store<Board, Action>, _ count: Int = actions) async throws {
  for number in 0..<count {
    try await store.send(.add(number))
    blackHole(number)
  }
}

private func awaitAll(_ plain: Plain, _ count: Int = actions) async {
  for number in 0..<count {
    await plain.send(.add(number))
    // Code outside the actor: otherwise the compiler stays on the actor for the whole loop.
    blackHole(number)
  }
}

/// One child store per level, each with a state of its own, which is all that it shows.
///
/// The parents have concrete types: through an existential, the closures of a commit are not specialized and cost three
/// times as much.
private func descend(_ levels: Int, from root: RootStore<Board, Action>) -> [StateStore<Board, Action>] {
  var stores = [root.childStore(initialState: Board(), stateMapping: { $1 }, reducer: reduce)]
  while stores.count < levels {
    stores.append(stores[stores.count - 1].childStore(initialState: Board(), stateMapping: { $1 }, reducer: reduce))
  }
  return stores
}

func commits() {
  let root = makeRoot()
  let store = root.store()
  let plain = Plain()

  compare(Line(name: "dispatch, one producer", beside: "the bare reducer"), operations: actions) {
    try await dispatchAll(store)
  } theirs: {
    var board = Board()
    for number in 0..<actions {
      reduce(&board, .add(number))
      blackHole(board.count)
    }
  }
  compare(Line(name: "dispatch, one producer", beside: "Mutex<State>", bound: 2.5), operations: actions) {
    try await dispatchAll(store)
  } theirs: {
    let board = Mutex(Board())
    for number in 0..<actions {
      board.withLock { reduce(&$0, .add(number)) }
      blackHole(number)
    }
  }
  compare(Line(name: "dispatch, one producer", beside: "await of an actor's method", bound: 0.35), operations: actions)
  {
    try await dispatchAll(store)
  } theirs: {
    await awaitAll(plain)
  }
  compare(Line(name: "dispatch, two producers", beside: "await of an actor's method"), operations: actions) {
    try await concurrently(2) { try await dispatchAll(store, actions / 2) }
  } theirs: {
    await awaitAll(plain)
  }
  compare(
    Line(name: "dispatch, eight producers", beside: "await of an actor's method", bound: 0.4), operations: actions
  ) {
    try await concurrently(8) { try await dispatchAll(store, actions / 8) }
  } theirs: {
    await awaitAll(plain)
  }
  // On Linux, a `Mutex` instead of the inbox's lock takes a hundred times as long.
  measure(
    Line(name: "dispatch, 64 threads that flood, processor time", beside: "pthread_mutex", bound: 1.5), iterations: 5
  ) {
    let (threads, each) = (64, 20_000)
    let ours = try await processorNanoseconds(threads * each) {
      await onThreads(threads) { for number in 0..<each { store.dispatch(.add(number)) } }
      try await store.send(.add(0))
    }
    let board = PlatformMutex(Board())
    let theirs = try await processorNanoseconds(threads * each) {
      await onThreads(threads) { for number in 0..<each { board.withLock { reduce(&$0, .add(number)) } } }
    }
    return (ours, theirs)
  }
  // The drain is the specialized one, regardless of the caller that schedules it.
  compare(
    Line(name: "dispatch behind a subscription", beside: "dispatch to a root store", bound: 1.3), operations: actions
  ) {
    blackHole(store.states() as StateSequence)
    try await dispatchAll(store)
  } theirs: {
    try await dispatchAll(store)
  }
  compare(Line(name: "dispatch, one producer", beside: "a serial dispatch queue"), operations: actions) {
    try await dispatchAll(store)
  } theirs: {
    let queue = QueueStore()
    for number in 0..<actions {
      queue.dispatch(.add(number))
      blackHole(number)
    }
    queue.wait()
  }
  compare(Line(name: "send", beside: "await of an actor's method", bound: 1.75), operations: actions) {
    try await sendAll(store)
  } theirs: {
    await awaitAll(plain)
  }
  compare(Line(name: "send to a root store itself", beside: "send to its proxy", bound: 1.5), operations: actions) {
    for number in 0..<actions {
      try await root.send(.add(number))
      blackHole(number)
    }
  } theirs: {
    try await sendAll(store)
  }
  compare(Line(name: "send, eight tasks", beside: "the same of an actor's method"), operations: actions) {
    try await concurrently(8) { try await sendAll(store, actions / 8) }
  } theirs: {
    try await concurrently(8) { await awaitAll(plain, actions / 8) }
  }
  compare(Line(name: "send, reading", beside: "await of an actor's method"), operations: actions) {
    for number in 0..<actions { blackHole(try await store.send(.add(number)) { $0.count }) }
  } theirs: {
    await awaitAll(plain)
  }

  func besideRoot(_ name: String, bound: Double? = nil, _ other: Store<Board, Action>, keeping kept: any Sendable) {
    compare(Line(name: name, beside: "dispatch to a root store", bound: bound), operations: actions) {
      try await dispatchAll(other)
      _ = kept
    } theirs: {
      try await dispatchAll(store)
    }
  }
  besideRoot("dispatch through a scope", store.scope { $0 }, keeping: root)
  besideRoot("dispatch through a projection", store.projection(action: { $0 }, state: { $0 }), keeping: root)
  let levels = descend(9, from: root)
  besideRoot("a child's commit", bound: 1.25, levels[0].store(), keeping: levels)
  besideRoot("a grandchild's commit", levels[1].store(), keeping: levels)
  measure(Line(name: "each further level", beside: "a root store's commit", bound: 0.22)) {
    let eighth = try await nanoseconds(actions) { try await dispatchAll(levels[8].store()) }
    let first = try await nanoseconds(actions) { try await dispatchAll(levels[0].store()) }
    return ((eighth - first) / 8, try await nanoseconds(actions) { try await dispatchAll(store) })
  }
  for (count, bound) in [(10, nil), (1_000, 1.1)] as [(Int, Double?)] {
    let parent = makeRoot()
    let children = (0..<count).map { _ in parent.childStore(initialState: 0) { _, _ in } }
    besideRoot(
      "beside \(count) children that nobody follows", bound: bound, parent.store(), keeping: (parent, children))
  }

  func feature(_ name: String, bound: Double? = nil, _ other: RootStore<Board, Action>) {
    besideRoot("with \(name)", bound: bound, other.store(), keeping: other)
  }
  feature("two reducers", RootStore(initialState: Board(), reducers: [Reducer(reduce), Reducer { _, _ in }]))
  feature(
    "middleware that passes on", bound: 1.8,
    RootStore(initialState: Board(), middleware: [Middleware { action, _, next in next(action) }], reducer: reduce))
  feature(
    // An atomic addition alone is 0.45 of this.
    "an instrument that counts", bound: 3,
    RootStore(initialState: Board(), options: StoreOptions(instrument: Counting()), reducer: reduce))
  feature(
    "an instrument that times",
    RootStore(initialState: Board(), options: StoreOptions(instrument: Counting(timesCommits: true)), reducer: reduce))
  feature("a history of 100", RootStore(initialState: Board(), history: History(limit: 100), reducer: reduce))
  feature(
    "a history of 100 and four reducers",
    RootStore(
      initialState: Board(), reducers: [Reducer(reduce)] + (1..<4).map { _ in Reducer { _, _ in } },
      history: History(limit: 100)))
  feature(
    "emits, nobody follows", RootStore(initialState: Board(), emits: .whenDifferent { $0.items.count }, reducer: reduce)
  )
  feature(
    "an interceptor that declines", bound: 1.3,
    RootStore(initialState: Board(), interceptors: Interceptor(where: { _ in false }) { _, _ in }, reducer: reduce))
  measure(Line(name: "an action that an interceptor takes", beside: "a task")) {
    let taking = RootStore<Board, Action>(
      initialState: Board(), interceptors: Interceptor { _, _ in }, reducer: reduce)
    let ours = try await nanoseconds(20_000) {
      try await dispatchAll(taking.store(), 20_000)
      await taking.shutdown(interceptors: .finish(within: .seconds(10)))
    }
    let theirs = try await nanoseconds(20_000) {
      await withDiscardingTaskGroup { tasks in
        for _ in 0..<20_000 { tasks.addTask {} }
      }
    }
    return (ours, theirs)
  }

  feature(
    "effects, with the state, that are none", bound: 1.3,
    RootStore(
      initialState: Board(), interceptors: .effects { _, context in context.position < 0 ? .run { _ in } : nil },
      reducer: reduce))
  measure(Line(name: "an action whose effect cancels the one before", beside: "a task")) {
    let latest = RootStore<Board, Action>(
      initialState: Board(), interceptors: .effects { _, _ in .run { _ in }.id("latest") }, reducer: reduce)
    let ours = try await nanoseconds(20_000) {
      try await dispatchAll(latest.store(), 20_000)
      await latest.shutdown(interceptors: .finish(within: .seconds(10)))
    }
    let theirs = try await nanoseconds(20_000) {
      await withDiscardingTaskGroup { tasks in
        for _ in 0..<20_000 { tasks.addTask {} }
      }
    }
    return (ours, theirs)
  }
  measure(Line(name: "debounced 1,000 times, one survives, an action", beside: "a task")) {
    let ours = try await nanoseconds(1_000) {
      let debounced = RootStore<Board, Action>(
        initialState: Board(),
        interceptors: .effects { _, _ in .run { _ in }.id("debounced", .debounced(for: .milliseconds(1))) },
        reducer: reduce)
      try await dispatchAll(debounced.store(), 1_000)
      await debounced.shutdown()
    }
    let theirs = try await nanoseconds(1_000) {
      await withDiscardingTaskGroup { tasks in
        for _ in 0..<1_000 { tasks.addTask {} }
      }
    }
    return (ours, theirs)
  }

  measure(Line(name: "allocations a commit, nobody follows", beside: "one", bound: 0.01, unit: ".")) {
    (try await allocations { try await sendAll(store, $0) }, 1)
  }
  measure(Line(name: "allocations a commit, 100 that keep up", beside: "one", bound: 0.01, unit: ".")) {
    (try await allocationsFollowed(pausingEvery: 1, yields: 1, operations: 600), 1)
  }
}

func allocationsBehind() {
  // Each pause finds the subscribers hundreds of states behind.
  measure(
    Line(name: "allocations a commit, 100 that fall behind", beside: "one", bound: 0.05, unit: "."), iterations: 5
  ) {
    (try await allocationsFollowed(pausingEvery: 250, yields: 400), 1)
  }
}

/// The allocations of a commit with 100 subscribers, without those of the pauses for them: `Task.yield()` allocates.
///
/// - Parameter operations: An iteration must take less than a second, because the harness drops a line without a result
///   in that time.
private func allocationsFollowed(
  pausingEvery interval: Int, yields: Int, operations: Int = 3_000
) async throws -> Double {
  @Sendable func pause(after number: Int) async {
    if number.isMultiple(of: interval) { for _ in 0..<yields { await Task.yield() } }
  }
  let root = makeRoot()
  let readers = (0..<100).map { _ in
    let states = root.states()
    return Task { for await _ in states {} }
  }
  let store = root.store()
  let all = try await allocations(operations) { count in
    for number in 0..<count {
      try await store.send(.add(number))
      await pause(after: number)
    }
  }
  let pauses = try await allocations(operations) { count in
    for number in 0..<count { await pause(after: number) }
  }
  await root.shutdown()
  for reader in readers { await reader.value }
  return max(all - pauses, 0)
}

/// The number of allocations by one of many operations. This is the lowest of several counts: the thread pool also
/// allocates, irregularly, when a job moves between threads.
private func allocations(_ count: Int = 3_000, _ run: (Int) async throws -> Void) async throws -> Double {
  try await run(count / 3)
  var least = UInt64.max
  for _ in 0..<5 {
    let before = allocation_count()
    try await run(count)
    least = min(least, allocation_count() - before)
  }
  return Double(least) / Double(count)
}

private final class Counting: StoreInstrument {
  let timesCommits: Bool
  private let commits = Atomic(0)

  init(timesCommits: Bool = false) { self.timesCommits = timesCommits }

  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    commits.add(commit.count, ordering: .relaxed)
  }
}
