import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct EmissionTests {
  /// A state that some actions leave unchanged.
  struct Tally: Sendable, Equatable {
    var sum = 0
    var label = ""

    mutating func enter(_ action: Int) { sum += action }
  }

  @Test(arguments: Kind.allCases.filter { $0.depth == 0 })
  func `a commit without changes wakes no subscriber of any kind of proxy`(kind: Kind) async throws {
    let looked = Record<Int>()
    let root = RootStore<Snapshot, Int>(initialState: Snapshot(), emits: .whenDifferent) { state, action in
      if action > 0 { state.root.enter(action) }
    }
    let store: any StoreType<Snapshot, Int> =
      switch kind {
      case .rootActor, .attendedRoot: root
      case .rootProxy: root.store()
      case .scope: root.scope { $0 }
      case .scopeOfScope: root.scope { $0 }.scope { $0 }
      case .optionalScope: root.scope(toOptional: { .some($0) })
      case .selected: root.scope(to: \.self)
      default: root.projection(action: { $0 }, state: { $0 })
      }
    let counted = store.scope { state in
      looked.add(state.root.count)
      return state.root.count
    }
    let (states, counts) = (store.states(), counted.states())
    for action in [0, 1, 0, 0, 2, 0] { store.dispatch(action) }
    #expect(try await store.send(0) { $0.root.count } == 2, "committed all the same")
    #expect(try await store.state.root.count == 2)
    await root.shutdown()
    #expect(await states.collect().map(\.root.count) == [0, 1, 2])
    #expect(await counts.collect() == [0, 1, 2])
    #expect(looked.all == [0, 1, 2], "the first state, and the two commits that changed something")
  }

  @Test func `a child's commits are published by the child's own rule, from every commit of its parent`() async throws {
    let root = RootStore<Tally, Int>(initialState: Tally(), emits: .whenDifferent) { state, action in
      if action > 0 { state.enter(action) }
    }
    let child = root.childStore(initialState: 0) { count, _ in count += 1 }
    let (above, below) = (root.states(), child.states())
    child.dispatch(0)
    root.dispatch(0)
    root.dispatch(1)
    await root.shutdown()
    #expect(await above.collect().map(\.sum) == [0, 1])
    #expect(
      await below.collect().map { [$0.0.sum, $0.1] } == [[0, 0], [0, 1], [0, 1], [1, 1]],
      "the child changed where its parent did not, and asked to leave nothing out")
  }

  @Test func `a child that emits differences follows its parent's changes`() async throws {
    let root = RootStore<Tally, Int>(initialState: Tally()) { state, action in state.enter(action) }
    let child = root.childStore(
      initialState: 0, stateMapping: { [$0.sum, $1] }, emits: .whenDifferent, reducer: { $0 += $1 })
    let deaf = root.childStore(
      initialState: 0, stateMapping: { $1 }, emits: .whenDifferent, reducer: { $0 += $1 })
    let below = child.childStore(initialState: 0, stateMapping: { $0 + [$1] }, reducer: { $0 += $1 })
    let (states, deafStates, belowStates) = (child.states(), deaf.states(), below.states())
    root.dispatch(1)
    child.dispatch(0)
    deaf.dispatch(2)
    below.dispatch(3)
    await root.shutdown()
    #expect(await states.collect() == [[0, 0], [1, 0], [3, 0], [6, 3]])
    #expect(await deafStates.collect() == [0, 2], "its state has nothing of its parent's")
    #expect(await belowStates.collect() == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [3, 0, 0], [6, 3, 3]])
  }

  @Test func `a custom rule gets the state before and after each commit`() async throws {
    let asked = Record<[Int]>()
    let rising = Emission<Int>.when { before, after in
      asked.add([before, after])
      return after > before
    }
    let store = RootStore<Int, Int>(initialState: 5, emits: rising) { $0 += $1 }
    try await store.send(1)
    #expect(asked.all.isEmpty, "nobody follows")
    let states = store.states()
    for action in [-1, -1, 1, 1, 0] { store.dispatch(action) }
    let late = store.states()
    store.dispatch(2)
    await store.shutdown()
    #expect(await states.collect() == [6, 5, 6, 8])
    #expect(await late.collect() == [6, 8])
    #expect(asked.all == [[6, 5], [5, 4], [4, 5], [5, 6], [6, 6], [6, 8]])
  }

  @Test func `a rule for a value compares only that value, and keeps only that value between commits`() async throws {
    struct Held: Sendable {
      var version = 0
      var token = Token()
    }
    let store = RootStore<Held, Int>(initialState: Held(), emits: .whenDifferent { $0.version }) { state, action in
      state.version += action
      state.token = Token()
    }
    let states = store.states().map(\.version)
    let first = Weak(await store.state.token)
    var iterator = states.makeAsyncIterator()
    #expect(await iterator.next() == 0)
    try await store.send(0)
    #expect(first.object == nil)
    try await store.send(1)
    #expect(await iterator.next() == 1)
  }

  @Test func `subscribers that come and go do not affect others, and the compared value is released with the last`()
    async throws
  {
    struct Held: Sendable, Equatable {
      var token = Token()
      static func == (lhs: Held, rhs: Held) -> Bool { lhs.token === rhs.token }
    }
    let store = RootStore<Held, Int>(initialState: Held(), emits: .whenDifferent) { state, action in
      if action > 0 { state.token = Token() }
    }
    var states: AsyncStream<Held>? = store.states()
    try await store.send(0)
    let first = Weak(await store.state.token)
    do {
      var iterator = states?.makeAsyncIterator()
      _ = await iterator?.next()
    }
    states = nil
    try await store.send(1)
    #expect(first.object == nil)
    var again = store.states().makeAsyncIterator()
    let now = await again.next()
    try await store.send(0)
    try await store.send(1)
    #expect(await again.next() != now)
  }

  @Test func `interceptors, histories and middleware see commits that are not published`() async throws {
    let seen = Record<Int>()
    let history = History<Int, Int>(limit: 9)
    let store = RootStore<Int, Int>(
      initialState: 0, interceptors: Interceptor { action, _ in seen.add(action) },
      middleware: [.passingOn], emits: .when { _, _ in false }, history: history
    ) { $0 += $1 }
    let states = store.states()
    try await store.send(1)
    await store.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(seen.all == [1])
    #expect(history.entries.map(\.state) == [1])
    #expect(await states.collect() == [0])
  }
}
