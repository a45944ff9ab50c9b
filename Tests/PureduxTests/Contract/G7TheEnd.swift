import PureduxTestSupport
import Testing

@testable import Puredux

/// A sequence ends when its consumer leaves or is cancelled, and after its store is released or shut down; every
/// earlier state is still delivered. A sequence never keeps a store alive, and after the end nothing of it remains in
/// memory.
@Suite(.timeLimit(.minutes(15))) struct G7TheEnd {
  @Test(arguments: Kind.allCases)
  func `a consumer that is cancelled while it waits ends at once`(kind: Kind) async throws {
    let subject = Subject(kind)
    let started = Gate()
    let states = subject.states()
    let consumer = Task {
      var seen: [Snapshot] = []
      for await state in states {
        seen.append(state)
        started.open()
      }
      return seen
    }
    await started.wait()
    consumer.cancel()
    #expect(await consumer.value == [subject.expected(after: [])])
    subject.store.dispatch(1)
    #expect(try await subject.store.state.root.count == 1, "the store goes on")
  }

  @Test(arguments: Kind.allCases)
  func `a consumer that is cancelled before it reads gets nothing more`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    for action in 1...10 { subject.store.dispatch(action) }
    let cancelled = Gate()
    let consumer = Task {
      await cancelled.wait()
      return await states.collect()
    }
    consumer.cancel()
    cancelled.open()
    #expect(await consumer.value.isEmpty)
  }

  /// The scope's transform runs during the publication of its state, and cancels the consumer there.
  @Test(arguments: Kind.allCases)
  func `a consumer that is cancelled during a publication ends, and the others are unaffected`(
    kind: Kind
  ) async throws {
    let subject = Subject(kind)
    let consumers = Record<Task<[Int], Never>>()
    let scope = subject.store.scope { snapshot in
      if snapshot.root.last == 2 { consumers.all[0].cancel() }
      return snapshot.root.last
    }
    let doomed = scope.states()
    let other = scope.states()
    let goesOn = Gate()
    consumers.add(
      Task {
        var seen: [Int] = []
        for await state in doomed {
          seen.append(state)
          if state == 1 { goesOn.open() }
        }
        return seen
      })
    subject.store.dispatch(1)
    await goesOn.wait()
    for action in 2...4 { subject.store.dispatch(action) }
    let seen = await consumers.all[0].value
    #expect(seen == [0, 1] || seen == [0, 1, 2])
    await subject.root.shutdown()
    #expect(await other.collect() == [0, 1, 2, 3, 4])
  }

  @Test(arguments: Kind.allCases)
  func `a consumer that is cancelled in the middle of its backlog gets nothing more`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    for action in 1...100 { try await subject.store.send(action) }
    let consumer = Task {
      var seen: [Snapshot] = []
      for await state in states {
        seen.append(state)
        if seen.count == 3 { unsafe withUnsafeCurrentTask { unsafe $0?.cancel() } }
      }
      return seen
    }
    #expect(await consumer.value == subject.expectedStates(during: [1, 2]))
    #expect(await states.collect().isEmpty)
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `the end comes after every earlier state, also for a consumer that waits`(kind: Kind, isReleased: Bool)
    async throws
  {
    var subject: Subject? = Subject(kind)
    let waiting = try #require(subject?.states())
    let late = try #require(subject?.states())
    let expected = try #require(subject?.expectedStates(during: [1, 2, 3]))
    let hasAll = Gate()
    let consumer = Task { [waiting] in
      var seen: [Snapshot] = []
      for await state in waiting {
        seen.append(state)
        if state.root.last == 3 { hasAll.open() }
      }
      return seen
    }
    for action in 1...3 { subject?.store.dispatch(action) }
    await hasAll.wait()
    if isReleased { subject = nil } else { await subject?.root.shutdown() }
    #expect(await consumer.value == expected)
    #expect(await late.collect() == expected)
  }

  @Test(arguments: Kind.allCases, Buffering.allCases)
  func `a store released while actions are queued commits and delivers them, and then ends`(
    kind: Kind, buffering: Buffering
  ) async throws {
    let executor = HeldExecutor()
    var subject: Subject? = Subject(kind, executor: .serial(executor))
    let states = try #require(subject?.states(bufferingPolicy: buffering.policy))
    let expected = try #require(subject?.expectedStates(during: Array(1...50)))
    executor.hold()
    for action in 1...50 { subject?.store.dispatch(action) }
    subject = nil
    executor.letGo()
    switch buffering {
    case .unbounded: #expect(await states.collect() == expected)
    // If the consumer arrives before some of the commits, it sees more states than the buffer holds.
    case .newest: #expect(await states.collect().suffix(3) == expected.suffix(3))
    case .oldest: #expect(await states.collect().prefix(3) == expected.prefix(3))
    }
  }

  @Test(arguments: Kind.allCases, Buffering.allCases)
  func `a consumer that waits is ended by a cancellation and by a release, whatever the policy`(
    kind: Kind, buffering: Buffering
  ) async throws {
    var subject: Subject? = Subject(kind)
    let waits = (0..<2).map { _ in Gate() }
    let consumers = try waits.map { gate in
      let states = try #require(subject?.states(bufferingPolicy: buffering.policy))
      return Task {
        for await _ in states { gate.open() }
      }
    }
    for gate in waits { await gate.wait() }
    consumers[0].cancel()
    await consumers[0].value
    subject = nil
    await consumers[1].value
  }

  @Test(arguments: Kind.allCases)
  func `neither a sequence nor its consumer keeps a store alive`(kind: Kind) async throws {
    var subject: Subject? = Subject(kind)
    let root = Weak(try #require(subject?.root))
    let children = try #require(subject?.children.map(Weak.init))
    let states = try #require(subject?.states())
    let waits = Gate()
    let consumer = Task {
      for await _ in states { waits.open() }
    }
    await waits.wait()
    subject = nil
    #expect(root.object == nil)
    #expect(children.allSatisfy { $0.object == nil })
    await consumer.value
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `after the end nothing of it remains in memory`(kind: Kind, isShutDown: Bool) async throws {
    var token: Token? = Token()
    let gone = try #require(token).gone
    var root: RootStore<Token?, Int>? = RootStore(initialState: token) { _, _ in }
    token = nil
    var child = root?.childStore(initialState: 0, stateMapping: { token, _ in token }, reducer: { $0 += $1 })
    var store: (any StoreType<Token?, Int>)? = kind.depth > 0 ? child : root
    let proxy = try #require(store?.store())
    let stalled = try #require(store?.scope { $0 }.states())
    for await _ in try #require(store?.states()) { break }
    let consumer = Task { for await _ in proxy.states() {} }
    proxy.dispatch(1)
    if isShutDown { await root?.shutdown() }
    store = nil
    child = nil
    root = nil
    await consumer.value
    #expect(await stalled.collect().count == 2)
    // Proxies and the sequences themselves still exist, and hold nothing of the state.
    await gone.wait()
    #expect(proxy.dispatch(2) == .terminated)
    withExtendedLifetime(stalled) {}
  }

  @Test(arguments: [false, true], [false, true])
  func `an interceptor that holds a proxy of its own tree is released with the tree`(isShutDown: Bool, isUsed: Bool)
    async throws
  {
    let gone: Gate
    do {
      let token = Token()
      gone = token.gone
      let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
      let proxy = root.store()
      root.interceptActions { action, _ in
        withExtendedLifetime(token) { if action > 0 { proxy.dispatch(action - 1) } }
      }
      if isUsed { try await root.send(3) }
      if isShutDown { await root.shutdown() }
    }
    await gone.wait()
  }

  @Test(arguments: [false, true], [(false, false), (false, true), (true, false), (true, true)])
  func `a store without followers releases its state, even if proxies remain`(
    isChild: Bool, ways: (isUsed: Bool, isShutDown: Bool)
  ) async throws {
    var token: Token? = Token()
    let gone = try #require(token).gone
    var root: RootStore<Token?, Int>? = RootStore(initialState: isChild ? nil : token) { _, _ in }
    var child: StateStore<Token?, Int>?
    if isChild { child = root?.childStore(initialState: token, stateMapping: { $0 ?? $1 }, reducer: { _, _ in }) }
    token = nil
    let proxy = try #require(child?.store() ?? root?.store())
    let scope = proxy.scope { $0 }
    if ways.isUsed { try await scope.send(1) }
    if ways.isShutDown { await root?.shutdown() }
    child = nil
    root = nil
    await gone.wait()
    #expect(proxy.dispatch(2) == .terminated)
    withExtendedLifetime(scope) {}
  }

  @Test(arguments: Kind.allCases)
  func `nothing is stored for a consumer that has left its loop`(kind: Kind) async throws {
    let tokens = Record<Weak<Token>>()
    let root = RootStore<Token?, Int>(initialState: nil) { state, _ in
      let token = Token()
      tokens.add(Weak(token))
      state = token
    }
    let child = root.childStore(initialState: 0, stateMapping: { token, _ in token }, reducer: { $0 += $1 })
    let store: any StoreType<Token?, Int> = kind.depth > 0 ? child : root
    for await _ in store.states() { break }
    for action in 1...100 { store.dispatch(action) }
    try await store.send(101)
    #expect(tokens.all.dropLast().allSatisfy { $0.object == nil })
  }

  @Test(arguments: Kind.allCases)
  func `two tasks that iterate one sequence share its elements, and both end`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    let consumers = (0..<2).map { _ in Task { await states.collect() } }
    let actions = Array(1...500)
    for action in actions { subject.store.dispatch(action) }
    await subject.root.shutdown()
    let seen = [await consumers[0].value, await consumers[1].value]
    for part in seen { #expect(part.map(\.root.count) == part.map(\.root.count).sorted()) }
    #expect(seen.joined().map(\.root.count).sorted() == Array(0...500))
  }

  @Test(arguments: Kind.allCases)
  func `two tasks that wait at one sequence both end when one of them is cancelled`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    #expect(await states.collect(1).count == 1)
    let consumers = (0..<2).map { _ in Task { await states.collect() } }
    consumers[0].cancel()
    for consumer in consumers { #expect(await consumer.value.isEmpty) }
  }

  @Test func `a store's end ends the sequences of the stores and scopes below it`() async throws {
    let root = RootStore<Snapshot, Int>(initialState: Snapshot()) { $0.root.enter($1) }
    let child = root.ledgerChild()
    let grandchild = child.ledgerChild()
    let sequences = [child.states(), grandchild.states(), grandchild.scope { $0 }.states()]
    let others = root.states()
    grandchild.dispatch(1)
    await child.shutdown()
    for sequence in sequences { #expect(await sequence.collect().map(\.root.last) == [0, 1]) }
    #expect(grandchild.dispatch(2) == .terminated)
    #expect(root.dispatch(3) == .enqueued)
    await root.shutdown()
    #expect(await others.collect().map(\.root.last) == [0, 1, 3])
  }

  @Test func `the parent holds none of ten thousand children that were made and released while the root was busy`()
    async throws
  {
    let gone = Counter()
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    executor.hold()
    for number in 0..<10_000 {
      let child = root.childStore(initialState: Counted(gone)) { _, _ in }
      if number.isMultiple(of: 2) { child.dispatch(1) }
      if number.isMultiple(of: 5) { _ = child.scope { $0.0 }.states() }
      if number.isMultiple(of: 7) { _ = child.states() }
    }
    executor.letGo()
    #expect(await root.state == 5_000)
    #expect(gone.count == 10_000)
  }

  @Test(arguments: [[0, 3, 1, 2], [3, 2, 1, 0], [1, 3, 0, 2]])
  func `scopes without followers are not computed, in whatever order the followers left`(order: [Int])
    async throws
  {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let counters = (0..<4).map { _ in Counter() }
    var followed: [Int: AsyncStream<Int>] = [:]
    for (index, counter) in counters.enumerated() {
      followed[index] = root.scope { state in
        counter.increment()
        return state
      }.states()
    }
    for index in order {
      followed[index] = nil
      try await root.send(0)
      let before = counters.map(\.count)
      try await root.send(1)
      let worked = counters.indices.filter { counters[$0].count > before[$0] }
      #expect(worked == followed.keys.sorted())
    }
  }

  /// A state that signals its release.
  private struct Telling: Sendable, Equatable {
    var token = Token()
    static func == (lhs: Telling, rhs: Telling) -> Bool { lhs.token === rhs.token }
  }

  @Test(arguments: [false, true], [0, 1, 2])
  func `after the end a filter and a selector that are still held remember nothing`(isShutDown: Bool, way: Int)
    async throws
  {
    var root: RootStore<Telling, Int>? = RootStore(initialState: Telling()) { state, _ in state = Telling() }
    var child: StateStore<Telling, Int>? = root!.childStore(
      initialState: 0, stateMapping: { state, _ in state }, reducer: { _, _ in })
    let selector = StateSelector<Telling, Telling>("all", of: \.self) { $0 }
    let selected = [
      root!.scope(selecting: selector), child!.scope(selecting: selector),
      root!.scope { $0 }.scope(selecting: selector),
    ][way]
    let filter = [Equating<Telling>.equal, .equal { $0 }, .equal && .equal { $0 }][way]
    let sequence: StateSequence<Telling> = child!.states(removeStateDuplicates: filter)
    #expect(try await selected.send(1) { _ in true })
    var state: Telling? = try await selected.state
    let weak = Weak(state!.token)
    state = nil
    if isShutDown { await root?.shutdown() }
    let tree = root!.core.node.tree
    child = nil
    root = nil
    await tree.untilIdle()
    for await _ in sequence {}
    #expect(weak.object == nil)
    withExtendedLifetime((selected, sequence)) {}
  }

  enum Following: CaseIterable, Sendable { case first, states, filteredStates, observer, effect }

  /// An effect of the root's interceptor belongs to the child that got its action, and follows the root's states.
  @Test(arguments: Following.allCases, [false, true])
  func `after a child's end the store above it holds nothing of the child's effects that followed it`(
    following: Following, isShutDown: Bool
  ) async throws {
    let gone = Record<Gate>()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, context in
        guard action == 1 else { return nil }
        let token = Token()
        gone.add(token.gone)
        let seen: @Sendable (Int) -> Int = { state in withExtendedLifetime(token) { state } }
        return context.run { store in
          switch following {
          case .first: try await store.first { seen($0) < 0 }
          case .states: for await _ in store.scope(to: seen).states() {}
          case .filteredStates: for await _ in store.states(removeStateDuplicates: .equal(seen)) {}
          case .observer: store.scope(to: seen).subscribe(observer: Observer { _ in .active })
          case .effect: store.subscribe(effect: .onChange(of: seen) { _ in nil })
          }
        }
      }
    ) { $0 += $1 }
    var child: StateStore<Int, Int>? = root.childStore(initialState: 0, stateMapping: { $0 + $1 }) { _, _ in }
    child?.dispatch(1)
    await root.settled()
    if isShutDown { await child?.shutdown() }
    child = nil
    for gate in gone.all { await gate.wait() }
    #expect(gone.all.count == 1)
    #expect(try await root.send(2) { $0 } == 3)
    await root.shutdown()
  }

  @Test func `a long chain of stores is released one by one`() async throws {
    let gone = Counter()
    // Stores that are too deep are reported.
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(reporting: { _ in })) { $0 += $1 }
    var last: StateStore<Int, Int>? = root.childStore(
      initialState: Counted(gone), stateMapping: { state, _ in state }, reducer: { _, _ in })
    for _ in 1..<20_000 {
      last = last?.childStore(initialState: Counted(gone), stateMapping: { state, _ in state }, reducer: { _, _ in })
    }
    last = nil
    _ = await root.state
    await root.shutdown()
    #expect(gone.count == 20_000)
  }
}

/// The buffering policies; the bounded ones have room for three states.
enum Buffering: CaseIterable, Sendable {
  case unbounded, newest, oldest

  var policy: AsyncStream<Snapshot>.Continuation.BufferingPolicy {
    switch self {
    case .unbounded: .unbounded
    case .newest: .bufferingNewest(3)
    case .oldest: .bufferingOldest(3)
    }
  }
}
