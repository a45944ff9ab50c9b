import PureduxTestSupport
import Synchronization
import Testing

@testable import Puredux

/// Stores, parts, scopes and projections can be nested up to the limit, also in a debug build and under sanitizers.
@Suite(.timeLimit(.minutes(15))) struct DepthTests {
  static let greatest = AnySource.greatestLevel

  struct Wide: Sendable {
    var count = 0
    var text = "text"
    var numbers = [1]
    var a = (0, 0, 0, 0, 0, 0, 0, 0)
    var b = (0, 0, 0, 0, 0, 0, 0, 0)
  }

  private func makeRoot() -> RootStore<Wide, Int> {
    RootStore(initialState: Wide(), options: StoreOptions(reporting: { _ in })) { $0.count += $1 }
  }

  private func child(of parent: some StoreParent<Wide, Int>, isAttended: Bool = false) -> StateStore<Wide, Int> {
    parent.childStore(
      initialState: 0,
      stateMapping: { state, local in
        var state = state
        state.count += local
        return state
      }, history: isAttended ? History(limit: 1) : nil, reducer: { $0 += $1 })
  }

  /// - Parameter isAttended: Whether the topmost child has a history, so that the actions of every store below it pass
  ///   through stages.
  private func descendant(of root: RootStore<Wide, Int>, depth: Int, isAttended: Bool = false) -> StateStore<Wide, Int>
  {
    (1..<depth).reduce(child(of: root, isAttended: isAttended)) { last, _ in child(of: last) }
  }

  private func scopeOfScopes(of root: RootStore<Wide, Int>, depth: Int, isSelected: Bool) -> Store<Wide, Int> {
    (0..<depth).reduce(root.store()) { last, _ in
      isSelected ? last.scope(to: \.self) : last.scope { (state: Wide) -> Wide in state }
    }
  }

  @Test(arguments: [false, true])
  func `a store far down reduces, is read and is followed`(isAttended: Bool) async throws {
    let depth = Self.greatest
    let store = descendant(of: makeRoot(), depth: depth, isAttended: isAttended)
    var states = store.states().makeAsyncIterator()
    #expect(await states.next()?.count == 0)
    #expect(try await store.send(1) { $0.count } == depth + 1)
    #expect(await states.next()?.count == depth + 1)
    #expect(await store.state.count == depth + 1)
  }

  @Test(arguments: [false, true])
  func `an action passes the reducers of all levels`(isAttended: Bool) async throws {
    let root = makeRoot()
    let store = descendant(of: root, depth: Self.greatest, isAttended: isAttended)
    store.dispatch(1)
    try await store.send(1)
    #expect(await root.state.count == 2)
    // The sum of all levels' own states is composed in the loop that reads it.
    #expect(await store.state.count == 2 * (Self.greatest + 1))
  }

  @Test(arguments: [false, true])
  func `an action passes children of parts, one below the other`(isAttended: Bool) async throws {
    let root = RootStore<Wide, Int>(initialState: Wide(), history: isAttended ? History(limit: 1) : nil) {
      $0.count += $1
    }
    let lowest = (1..<Self.greatest).reduce(child(ofPartOf: root)) { last, _ in child(ofPartOf: last) }
    try await lowest.send(1)
    #expect(await root.state.count == 1)
    #expect(await lowest.state.count == Self.greatest + 1)
  }

  @Test func `children of parts, one below the other, are followed, whether or not the part changes`() async throws {
    let root = RootStore<Wide, Int>(initialState: Wide()) { $0.count += $1 }
    var stores = [equalChild(ofPartOf: root)]
    while stores.count < Self.greatest { stores.append(equalChild(ofPartOf: stores[stores.count - 1])) }
    let followed = [0, 1, 63, 64, 65, stores.count - 1].map { stores[$0].states() as StateSequence }
    // First all parts stay equal, then all change.
    try await stores[stores.count - 1].send(0)
    try await stores[stores.count - 1].send(1)
    for states in followed { #expect(await states.collect(3).map(\.count) == [0, 0, 1]) }
  }

  enum Beginning: CaseIterable { case states, effect, interceptor }

  /// Begins to follow where nothing was followed before.
  @Test(arguments: Beginning.allCases)
  func `beginning to follow far down computes each state above at most once for each level`(
    beginning: Beginning
  ) async throws {
    let depth = Self.greatest - 1
    let meter = Meter()
    let root = RootStore<Wide, Int>(initialState: Wide()) { $0.count += $1 }
    var lowest = child(ofPartOf: root, meter)
    for _ in 1..<depth { lowest = child(ofPartOf: lowest, meter) }
    var states: StateSequence<Wide>?
    let (count, store) = await meter.count { [lowest] () -> StateStore<Wide, Int> in
      let effect = StateEffect<Wide, Int>.onChange(of: { $0.count }, { _ in nil })
      var store = lowest
      switch beginning {
      case .states: states = store.states()
      case .effect: store.subscribe(effect: effect)
      case .interceptor: store = child(ofPartOf: lowest, meter, .effects(ofState: effect))
      }
      _ = await store.state
      return store
    }
    #expect(count <= depth * depth)
    // First the part stays equal, then it changes.
    for action in [0, 1] {
      #expect(try await meter.count { try await store.send(action) }.count <= depth * depth)
    }
    withExtendedLifetime(states) {}
  }

  /// Counts how often states are composed.
  private final class Meter: Sendable {
    private let total = Atomic(0)

    func tick() { total.wrappingAdd(1, ordering: .relaxed) }

    func count<Result>(_ body: () async throws -> Result) async rethrows -> (count: Int, result: Result) {
      let before = total.load(ordering: .relaxed)
      let result = try await body()
      return (total.load(ordering: .relaxed) - before, result)
    }
  }

  private func child(
    ofPartOf parent: some StoreParent<Wide, Int>, _ meter: Meter, _ interceptors: Interceptor<Wide, Int>...
  ) -> StateStore<Wide, Int> {
    parent.part { $0.count }.childStore(
      initialState: 0,
      stateMapping: { count, _ in
        meter.tick()
        var state = Wide()
        state.count = count
        return state
      }, interceptors: Interceptor(combining: interceptors), reducer: { $0 += $1 })
  }

  /// A child whose state is that of its parent's part.
  private func equalChild(ofPartOf parent: some StoreParent<Wide, Int>) -> StateStore<Wide, Int> {
    parent.part { $0.count }.childStore(
      initialState: 0,
      stateMapping: { count, _ in
        var state = Wide()
        state.count = count
        return state
      }, reducer: { $0 += $1 })
  }

  private func child(ofPartOf parent: some StoreParent<Wide, Int>) -> StateStore<Wide, Int> {
    parent.part { $0.count }.childStore(
      initialState: 0,
      stateMapping: { count, local in
        var state = Wide()
        state.count = count + local
        return state
      }, reducer: { $0 += $1 })
  }

  @Test(arguments: [false, true])
  func `a scope of scopes far down is read and followed`(isSelected: Bool) async throws {
    let root = makeRoot()
    let scope = scopeOfScopes(of: root, depth: Self.greatest, isSelected: isSelected)
    var states = scope.states().makeAsyncIterator()
    #expect(await states.next()?.count == 0)
    try await root.send(1)
    #expect(await states.next()?.count == 1)
    #expect(try await scope.state.count == 1)
    #expect(await root.statistics.subscriptions == 1)
  }

  @Test func `an optional scope far down has no state if one above it has none`() async throws {
    let root = makeRoot()
    let optional = scopeOfScopes(of: root, depth: Self.greatest / 2 - 1, isSelected: false)
      .scope(toOptional: { $0.count > 0 ? $0 : nil })
    let scope = (Self.greatest / 2..<Self.greatest).reduce(optional) { last, _ in
      last.scope { (state: Wide) -> Wide in state }
    }
    await #expect(throws: StoreError.stateUnavailable) { try await scope.state }
    #expect(try await scope.send(1) { $0.count } == 1)
    #expect(try await scope.state.count == 1)
  }

  @Test func `every store of a deep tree that is followed gets every commit`() async throws {
    let root = makeRoot()
    var stores = [descendant(of: root, depth: 1)]
    for _ in 1..<Self.greatest {
      stores.append(
        stores[stores.count - 1].childStore(
          initialState: 0,
          stateMapping: { state, local in
            var state = state
            state.count += local
            return state
          }, reducer: { $0 += $1 }))
    }
    let sequences = stores.map { $0.states() }
    for _ in 0..<3 { root.dispatch(1) }
    stores[Self.greatest - 1].dispatch(1)
    await root.shutdown()
    for (index, sequence) in sequences.enumerated() {
      #expect(await sequence.collect().map(\.count) == [0, 1, 2, 3, 5 + index])
    }
  }

  @Test func `a chain of all levels ends with its root`() async throws {
    let root = makeRoot()
    let store = descendant(of: root, depth: Self.greatest)
    let states = store.states()
    await root.shutdown()
    #expect(await states.collect().count == 1)
    #expect(store.dispatch(1) == .terminated)
  }

  @Test func `a chain of all levels is released by its last subscriber`() async throws {
    let root = makeRoot()
    let store = descendant(of: root, depth: Self.greatest)
    do { _ = store.states() }
    #expect(await root.statistics.subscriptions == 0)
    #expect(await store.state.count == 0)
  }

  @Test(arguments: [false, true])
  func `a chain of all levels is released with its last proxy`(isAttended: Bool) async throws {
    let gone: Gate
    do {
      let (proxy, states): (Store<Wide, Int>, AsyncStream<Wide>)
      do {
        let token = Token()
        gone = token.gone
        let root = RootStore(initialState: Wide()) { (state, action: Int) in
          withExtendedLifetime(token) { state.count += action }
        }
        let store = descendant(of: root, depth: Self.greatest, isAttended: isAttended)
        (proxy, states) = (store.store(), store.states())
      }
      #expect(proxy.dispatch(1) == .terminated)
      withExtendedLifetime(states) {}
    }
    // Another thread may be in the middle of the release.
    await gone.wait()
  }

  @Test func `projections of projections of all levels are released with the last`() async throws {
    let root = makeRoot()
    do {
      let projection = (0..<Self.greatest).reduce(root.store()) { last, _ in
        last.projection(action: { (action: Int) in action }, state: { (state: Wide) in state })
      }
      withExtendedLifetime(projection) {}
    }
    #expect(await root.state.count == 0)
  }

  @Test(arguments: [false, true])
  func `scopes of scopes of all levels are released with the last`(isSelected: Bool) async throws {
    let root = makeRoot()
    var scope: Store<Wide, Int>? = scopeOfScopes(of: root, depth: Self.greatest, isSelected: isSelected)
    #expect(scope?.dispatch(1) == .enqueued)
    scope = nil
    #expect(await root.state.count == 1)
  }

  // MARK: Beyond the limit

  @Test func `a store that is too deep refuses calls, and keeps its first state`() async throws {
    let root = makeRoot()
    let lowest = descendant(of: root, depth: Self.greatest)
    try await lowest.send(1)
    let beyond = child(of: lowest)
    try await lowest.send(1)
    #expect(await lowest.state.count == 2 * (Self.greatest + 1))
    #expect(beyond.dispatch(1) == .tooDeep)
    #expect(beyond.store().dispatch(1) == .tooDeep)
    await #expect(throws: StoreError.tooDeep) { try await beyond.send(1) }
    await #expect(throws: StoreError.tooDeep) { try await beyond.send(1) { $0.count } }
    await #expect(throws: StoreError.tooDeep) { try await beyond.store().state }
    #expect(await beyond.states().collect().isEmpty)
    #expect(await beyond.state.count == Self.greatest + 1)
    await beyond.shutdown()
    #expect(await beyond.state.count == Self.greatest + 1)
    await root.shutdown()
    #expect(beyond.dispatch(1) == .tooDeep)
    #expect(await beyond.state.count == Self.greatest + 1)
  }

  @Test func `any number of stores below one that is too deep are released`() async throws {
    let gone: Gate
    do {
      let token = Token()
      gone = token.gone
      let root = RootStore(initialState: Wide(), options: StoreOptions(reporting: { _ in })) { (state, action: Int) in
        withExtendedLifetime(token) { state.count += action }
      }
      let tree = root.core.node.tree
      root.dispatch(3)
      do {
        var last = descendant(of: root, depth: Self.greatest)
        for _ in 0..<10_000 { last = child(of: last) }
        // The intermediate stores are gone, and their releases have taken their turns.
        #expect(await last.state.count == 3)
        #expect(last.dispatch(1) == .tooDeep)
        #expect(tree.childCount == Self.greatest + 1)
        #expect(last.id != root.id)
        #expect(root.dispatch(1) == .enqueued)
      }
      #expect(await root.state.count == 4)
      #expect(tree.childCount == 0)
    }
    await gone.wait()
  }

  @Test func `an anchor of a store that is too deep makes children after the store is gone`() async throws {
    let root = makeRoot()
    root.dispatch(2)
    let anchor = child(of: descendant(of: root, depth: Self.greatest)).anchor
    let beyond = child(of: anchor)
    #expect(beyond.dispatch(1) == .tooDeep)
    #expect(await beyond.state.count == 2)
  }

  @Test func `a store that is too deep calls none of its closures`() async throws {
    let root = makeRoot()
    let lowest = descendant(of: root, depth: Self.greatest)
    let calls = Atomic(0)
    let call: @Sendable () -> Void = { calls.add(1, ordering: .relaxed) }
    let history = History<Int, Int>(limit: 1)
    let commits = history.commits()
    do {
      let beyond = lowest.childStore(
        initialState: 0, stateMapping: { state, _ in state },
        interceptors: Interceptor { _, _ in call() },
        middleware: [
          Middleware { action, _, next in
            call()
            next(action)
          }
        ],
        emits: .whenDifferent { (state: Wide) -> Int in
          call()
          return state.count
        }, history: history, atEnd: 5,
        reducer: { _, _ in call() })
      #expect(beyond.dispatch(1) == .tooDeep)
      try await lowest.send(1)
      await beyond.shutdown()
    }
    for await _ in commits { call() }
    try await lowest.send(1)
    #expect(await root.state.count == 2)
    #expect(calls.load(ordering: .relaxed) == 0)
  }

  @Test func `a store that is too deep keeps alive the last store above it that is not`() async throws {
    var beyond: StateStore<Wide, Int>?
    weak var root: RootStore<Wide, Int>?
    do {
      let made = makeRoot()
      root = made
      made.dispatch(1)
      beyond = child(of: child(of: descendant(of: made, depth: Self.greatest)))
    }
    #expect(root?.dispatch(1) == .enqueued)
    #expect(await beyond?.state.count == 1)
    beyond = nil
    #expect(root == nil)
  }

  @Test func `scopes and projections that are too deep refuse calls`() async throws {
    let root = makeRoot()
    let lowest = scopeOfScopes(of: root, depth: Self.greatest, isSelected: false)
    #expect(lowest.dispatch(1) == .enqueued)
    #expect(try await lowest.state.count == 1)
    let views = [
      lowest.scope { (state: Wide) -> Wide in state }, lowest.scope(toOptional: { $0 }), lowest.scope(to: \.self),
      lowest.projection(action: { (action: Int) in action }, state: { (state: Wide) in state }),
    ]
    for view in views {
      let further = (0..<10_000).reduce(view) { last, place in
        place.isMultiple(of: 2)
          ? last.scope(to: \.self)
          : last.projection(action: { (action: Int) in action }, state: { (state: Wide) in state })
      }
      for beyond in [view, further] {
        #expect(beyond.id == root.id)
        #expect(beyond.dispatch(1) == .tooDeep)
        await #expect(throws: StoreError.tooDeep) { try await beyond.send(1) }
        await #expect(throws: StoreError.tooDeep) { try await beyond.send(1) { $0.count } }
        await #expect(throws: StoreError.tooDeep) { try await beyond.state }
        await #expect(throws: StoreError.tooDeep) { try await beyond.firstAction(where: { _ in true }) }
        #expect(await beyond.states().collect().isEmpty)
      }
    }
    #expect(try await lowest.send(1) { $0.count } == 2)
  }

  @Test func `parts of parts to all levels, and beyond`() async throws {
    let root = makeRoot()
    root.dispatch(1)
    let lowest = (1..<Self.greatest).reduce(root.part { $0.count }) { last, _ in last.part { $0 } }
    let child = lowest.childStore(initialState: 0) { $0 += $1 }
    #expect(try await child.send(1) { $0.0 } == 2)
    let beyond = lowest.part { $0 }.part(\.self).childStore(initialState: 7) { $0 += $1 }
    #expect(beyond.dispatch(1) == .tooDeep)
    #expect(await beyond.state == (2, 7))
    let tooDeep = child.childStore(initialState: 0) { $0 += $1 }
    #expect(tooDeep.dispatch(1) == .tooDeep)
    #expect(child.dispatch(1) == .enqueued)
  }
}
