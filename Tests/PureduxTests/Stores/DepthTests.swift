import Foundation
import Synchronization
import Testing

@testable import Puredux

/// Stores lie below stores, and scopes below scopes, to any depth: ends and releases do not recurse, and what is
/// computed on the way recurses no further than a stack of eight megabytes has room for at ten thousand levels, in a
/// debug build.
@Suite(.timeLimit(.minutes(15))) struct DepthTests {
  /// The sanitizers make each frame several times as large.
  static let isSanitized = ProcessInfo.processInfo.environment["PUREDUX_SANITIZED"] != nil
  /// How deep states are computed, and how deep stores are made, ended and released.
  static let evaluated = isSanitized ? 1_000 : 10_000
  static let any = isSanitized ? 5_000 : 50_000

  struct Wide: Sendable {
    var count = 0
    var text = "text"
    var numbers = [1]
    var a = (0, 0, 0, 0, 0, 0, 0, 0)
    var b = (0, 0, 0, 0, 0, 0, 0, 0)
  }

  private func makeRoot() -> RootStore<Wide, Int> { RootStore(initialState: Wide()) { $0.count += $1 } }

  private func descendant(of root: RootStore<Wide, Int>, depth: Int, isAttended: Bool = false) -> StateStore<Wide, Int>
  {
    // One history has the actions of every store below it pass stages.
    func child(of parent: some StoreParent<Wide, Int>, isAttended: Bool = false) -> StateStore<Wide, Int> {
      parent.childStore(
        initialState: 0,
        stateMapping: { state, local in
          var state = state
          state.count += local
          return state
        }, history: isAttended ? History(limit: 1) : nil, reducer: { $0 += $1 })
    }
    return (1..<depth).reduce(child(of: root, isAttended: isAttended)) { last, _ in child(of: last) }
  }

  private func scopeOfScopes(of root: RootStore<Wide, Int>, depth: Int, isSelected: Bool) -> Store<Wide, Int> {
    (0..<depth).reduce(root.store()) { last, _ in
      isSelected ? last.scope(to: \.self) : last.scope { (state: Wide) -> Wide in state }
    }
  }

  @Test(arguments: [false, true])
  func `a store far down reduces, is read and is followed`(isAttended: Bool) async throws {
    let depth = Self.evaluated
    let store = descendant(of: makeRoot(), depth: depth, isAttended: isAttended)
    var states = store.states().makeAsyncIterator()
    #expect(await states.next()?.count == 0)
    #expect(try await store.send(1) { $0.count } == depth + 1)
    #expect(await states.next()?.count == depth + 1)
    #expect(await store.state.count == depth + 1)
  }

  @Test(arguments: [false, true])
  func `an action passes any number of reducers`(isAttended: Bool) async throws {
    let root = makeRoot()
    let store = descendant(of: root, depth: Self.any, isAttended: isAttended)
    store.dispatch(1)
    try await store.send(1)
    #expect(await root.state.count == 2)
    // The sum of what all of them own is composed in the loop that reads it.
    #expect(await store.state.count == 2 * (Self.any + 1))
  }

  @Test(arguments: [false, true])
  func `an action passes children of a part, one below the other`(isAttended: Bool) async throws {
    let root = RootStore<Wide, Int>(initialState: Wide(), history: isAttended ? History(limit: 1) : nil) {
      $0.count += $1
    }
    let lowest = (1..<Self.evaluated).reduce(child(ofPartOf: root)) { last, _ in child(ofPartOf: last) }
    try await lowest.send(1)
    #expect(await root.state.count == 1)
    #expect(await lowest.state.count == Self.evaluated + 1)
  }

  @Test func `children of a part, one below the other, are followed, whether or not the part changes`() async throws {
    let root = RootStore<Wide, Int>(initialState: Wide()) { $0.count += $1 }
    var stores = [equalChild(ofPartOf: root)]
    while stores.count < Self.evaluated { stores.append(equalChild(ofPartOf: stores[stores.count - 1])) }
    let followed = [0, 1, 63, 64, 65, stores.count - 1].map { stores[$0].states() as StateSequence }
    // All parts stay equal, and then all change.
    try await stores[stores.count - 1].send(0)
    try await stores[stores.count - 1].send(1)
    for states in followed { #expect(await states.collect(3).map(\.count) == [0, 0, 1]) }
  }

  enum Beginning: CaseIterable { case states, effect, interceptor }

  /// Each begins to follow what nobody followed before.
  @Test(arguments: Beginning.allCases)
  func `who begins to follow far down has each state above computed a few times, however many there are`(
    beginning: Beginning
  ) async throws {
    let depth = 2_000
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
    // From one break of the chain to the next all are computed once, and within each several times.
    #expect(count <= Depth.reach * depth)
    // The part stays equal, and then it changes.
    for action in [0, 1] {
      #expect(try await meter.count { try await store.send(action) }.count <= Depth.reach * depth)
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

  /// A child that shows what its parent's part is.
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
    let scope = scopeOfScopes(of: root, depth: Self.evaluated, isSelected: isSelected)
    var states = scope.states().makeAsyncIterator()
    #expect(await states.next()?.count == 0)
    try await root.send(1)
    #expect(await states.next()?.count == 1)
    #expect(try await scope.state.count == 1)
    #expect(await root.statistics.subscriptions == 1)
  }

  @Test func `an optional scope far down is missing where one above it is`() async throws {
    let root = makeRoot()
    let optional = scopeOfScopes(of: root, depth: 100, isSelected: false).scope(toOptional: { $0.count > 0 ? $0 : nil })
    let scope = (0..<200).reduce(optional) { last, _ in last.scope { (state: Wide) -> Wide in state } }
    await #expect(throws: StoreError.stateUnavailable) { try await scope.state }
    #expect(try await scope.send(1) { $0.count } == 1)
    #expect(try await scope.state.count == 1)
  }

  @Test func `every store of a deep tree that is followed gets every commit`() async throws {
    let root = makeRoot()
    var stores = [descendant(of: root, depth: 1)]
    for _ in 1..<300 {
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
    stores[299].dispatch(1)
    await root.shutdown()
    for (index, sequence) in sequences.enumerated() {
      #expect(await sequence.collect().map(\.count) == [0, 1, 2, 3, 5 + index])
    }
  }

  @Test func `a chain of any length ends with its root`() async throws {
    let root = makeRoot()
    let store = descendant(of: root, depth: Self.any)
    let states = store.states()
    await root.shutdown()
    #expect(await states.collect().count == 1)
    #expect(store.dispatch(1) == .terminated)
  }

  @Test func `a chain of any length is let go of by the last who follows it`() async throws {
    let root = makeRoot()
    let store = descendant(of: root, depth: Self.any)
    do { _ = store.states() }
    #expect(await root.statistics.subscriptions == 0)
    #expect(await store.state.count == 0)
  }

  @Test(arguments: [false, true])
  func `a chain of any length goes with its last proxy`(isAttended: Bool) async throws {
    let gone: Gate
    do {
      let (proxy, states): (Store<Wide, Int>, AsyncStream<Wide>)
      do {
        let token = Token()
        gone = token.gone
        let root = RootStore(initialState: Wide()) { (state, action: Int) in
          withExtendedLifetime(token) { state.count += action }
        }
        let store = descendant(of: root, depth: Self.any, isAttended: isAttended)
        (proxy, states) = (store.store(), store.states())
      }
      #expect(proxy.dispatch(1) == .terminated)
      withExtendedLifetime(states) {}
    }
    // The release may be another thread's, which is in the middle of one.
    await gone.wait()
  }

  @Test func `projections of projections of any depth go with the last`() async throws {
    let root = makeRoot()
    do {
      let projection = (0..<Self.any).reduce(root.store()) { last, _ in
        last.projection(action: { (action: Int) in action }, state: { (state: Wide) in state })
      }
      withExtendedLifetime(projection) {}
    }
    #expect(await root.state.count == 0)
  }

  @Test(arguments: [false, true])
  func `scopes of scopes of any depth go with the last`(isSelected: Bool) async throws {
    let root = makeRoot()
    var scope: Store<Wide, Int>? = scopeOfScopes(of: root, depth: Self.any, isSelected: isSelected)
    #expect(scope?.dispatch(1) == .enqueued)
    scope = nil
    #expect(await root.state.count == 1)
  }
}
