import PureduxTestSupport
import Synchronization
import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(15))) struct HistoryTests {
  static let reducers: [Reducer<Int, Int>] = [
    Reducer("add") { $0 += $1 }, Reducer("double") { state, _ in state *= 2 }, Reducer { $0 -= $1 },
  ]

  @Test func `an entry has the action, its store, its position, the state before, and each reducer's result`()
    async throws
  {
    let history = History<Int, Int>(limit: 10)
    let store = RootStore(initialState: 1, reducers: Self.reducers, history: history)
    try await store.send(2)
    try await store.send(3)
    #expect(history.entries.map(\.action) == [2, 3])
    #expect(history.entries.map(\.store) == [.root, .root])
    #expect(history.entries.map(\.position) == [1, 2])
    #expect(history.entries.map(\.stateBefore) == [1, 4])
    #expect(history.entries.map(\.state) == [4, 11])
    #expect(history.entries[0].steps.map(\.state) == [3, 6, 4])
    #expect(history.entries[1].steps.map(\.reducer) == ["add", "double", nil])
  }

  @Test(arguments: Kind.allCases)
  func `a root store's history has every commit of the tree, in order, each with its store`(kind: Kind)
    async throws
  {
    let history = History<Snapshot, Int>(limit: 100)
    let subject = Subject(kind, history: history)
    let sibling = subject.root.ledgerChild()
    let below = subject.children.last?.ledgerChild() ?? subject.root.ledgerChild()
    subject.root.dispatch(1)
    sibling.dispatch(2)
    let ignored = subject.store.states()
    below.dispatch(3)
    try await subject.store.send(4)
    withExtendedLifetime(ignored) {}
    #expect(history.entries.map(\.action) == [1, 2, 3, 4])
    #expect(history.entries.map(\.position) == [1, 2, 3, 4])
    #expect(history.entries.map(\.store) == [.root, sibling.id, below.id, subject.store.id])
    #expect(history.entries.map(\.state.root.count) == [1, 2, 3, 4])
  }

  @Test func `nested children's histories have the actions that passed through them, with the tree's positions`()
    async throws
  {
    let (top, middle, bottom) = (
      History<Int, Int>(limit: 9), History<Int, Int>(limit: 9), History<String, Int>(limit: 9)
    )
    let root = RootStore(initialState: 0, history: top) { $0 += $1 }
    let child = root.childStore(
      initialState: 0, reducers: Self.reducers, stateMapping: { ($0, $1) }, history: middle)
    let plain = child.childStore(initialState: 0) { $0 += $1 }
    let lowest = plain.childStore(
      initialState: "", stateMapping: { "\($0)\($1)" }, history: bottom, reducer: { $0 += "\($1)" })
    root.dispatch(1)
    child.dispatch(2)
    plain.dispatch(3)
    lowest.dispatch(4)
    try await root.send(5)
    #expect(top.entries.map(\.position) == [1, 2, 3, 4, 5])
    #expect(middle.entries.map(\.position) == [2, 3, 4])
    #expect(bottom.entries.map(\.position) == [4])
    #expect(top.entries.map(\.store) == [.root, child.id, plain.id, lowest.id, .root])
    #expect(middle.entries.map(\.store) == [child.id, plain.id, lowest.id])
    #expect(top.entries.map(\.state) == [1, 3, 6, 10, 15])
    #expect(middle.entries.map(\.state) == [2, 7, 18])
    #expect(bottom.entries.map(\.state) == ["4"])
  }

  @Test func `it keeps the newest entries up to its limit, and at least one`() async throws {
    let (three, one) = (History<Int, Int>(limit: 3), History<Int, Int>(limit: -1))
    let store = RootStore(initialState: 0, history: three) { $0 += $1 }
    let child = store.childStore(initialState: 0, history: one) { $0 += $1 }
    #expect(three.entries.isEmpty)
    for action in 1...50 { child.dispatch(action) }
    _ = await store.state
    #expect(three.entries.map(\.action) == [48, 49, 50])
    #expect(one.entries.map(\.action) == [50])
    #expect(one.limit == 1)
  }

  @Test func `as a sequence it yields the stored entries, then all new ones, and ends with the store`() async throws {
    let history = History<Int, Int>(limit: 2)
    let early = history.commits()
    var store: RootStore<Int, Int>? = RootStore(initialState: 0, history: history) { $0 += $1 }
    for action in 1...5 { try await store?.send(action) }
    let late = history.commits()
    let newest = history.commits(bufferingPolicy: .bufferingNewest(1))
    for action in 6...9 { try await store?.send(action) }
    store = nil
    #expect(await early.collect().map(\.action) == Array(1...9))
    #expect(await late.collect().map(\.action) == Array(4...9))
    #expect(await newest.collect().map(\.action) == [4, 5, 9])
    #expect(await history.commits().collect().map(\.action) == [8, 9], "it outlives the store")
  }

  @Test(arguments: [false, true])
  func `a child's sequence ends with the child, and with its root`(endsRoot: Bool) async throws {
    let history = History<Int, Int>(limit: 2)
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let child = root.childStore(initialState: 0, history: history) { $0 += $1 }
    let commits = history.commits()
    child.dispatch(1)
    if endsRoot { await root.shutdown() } else { await child.shutdown() }
    #expect(await commits.collect().map(\.action) == [1])
    let late = child.childStore(initialState: 0, history: history) { $0 += $1 }
    #expect(late.dispatch(2) == .terminated)
    #expect(await history.commits().collect().map(\.action) == [1], "a store that has ended before it began")
  }

  @Test func `a sequence that waits ends when it is cancelled`() async throws {
    let history = History<Int, Int>(limit: 2)
    let store = RootStore<Int, Int>(initialState: 0, history: history) { $0 += $1 }
    let reached = Gate()
    let reader = Task {
      var count = 0
      for await _ in history.commits() {
        count += 1
        reached.open()
      }
      return count
    }
    store.dispatch(1)
    await reached.wait()
    reader.cancel()
    #expect(await reader.value == 1)
  }

  @Test func `several stores may share a history, whose sequences end with the last of them`() async throws {
    let history = History<Int, Int>(limit: 10)
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let (first, second) = (
      root.childStore(initialState: 0, history: history) { $0 += $1 },
      root.childStore(initialState: 0, history: history) { $0 += $1 }
    )
    let commits = history.commits()
    first.dispatch(1)
    second.dispatch(2)
    await first.shutdown()
    second.dispatch(3)
    await second.shutdown()
    #expect(await commits.collect().map(\.store) == [first.id, second.id, second.id])
    let third = root.childStore(initialState: 0, history: history) { $0 += $1 }
    let more = history.commits()
    third.dispatch(4)
    await third.shutdown()
    #expect(await more.collect().map(\.action) == [1, 2, 3, 4])
  }

  @Test(arguments: Kind.allCases)
  func `replay into a new store gives the same states`(kind: Kind) async throws {
    let history = History<Snapshot, Int>(limit: 20)
    let subject = Subject(kind, history: history)
    for action in 1...50 { subject.store.dispatch(action) }
    _ = try await subject.store.state
    let recorded = history.entries
    let again = History<Snapshot, Int>(limit: 20)
    let fresh = RootStore(initialState: recorded[0].stateBefore, history: again) { $0.root.enter($1) }
    try await recorded.replay(into: fresh)
    #expect(again.entries.map(\.state) == recorded.map(\.state))
    #expect(again.entries.map(\.action) == Array(31...50))
    let even = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    try await recorded.filter { $0.action.isMultiple(of: 2) }.replay(into: even)
    #expect(await even.state == stride(from: 32, through: 50, by: 2).reduce(0, +))
  }

  @Test func `a child's history is replayed into a new child`() async throws {
    let (history, again) = (History<Int, Int>(limit: 9), History<Int, Int>(limit: 9))
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let child = root.childStore(
      initialState: 7, reducers: Self.reducers, stateMapping: { ($0, $1) }, history: history)
    for action in 1...9 { try await child.send(action) }
    let fresh = root.childStore(
      initialState: history.entries[0].stateBefore, reducers: Self.reducers, stateMapping: { ($0, $1) }, history: again)
    try await history.entries.replay(into: fresh)
    #expect(again.entries.map { $0.steps.map(\.state) } == history.entries.map { $0.steps.map(\.state) })
    await root.shutdown()
    await #expect(throws: StoreError.terminated) { try await history.entries.replay(into: fresh) }
  }

  @Test(arguments: [false, true])
  func `a tree whose stores have histories and had observers is released completely`(isShutDown: Bool) async throws {
    let history = History<Int, Int>(limit: 3)
    /// Objects that reducers hold are released when nothing refers to the tree, and so is the tree itself.
    func run() async throws -> [Gate] {
      let (rootToken, childToken) = (Token(), Token())
      let root = RootStore<Int, Int>(initialState: 0, history: history) { state, action in
        withExtendedLifetime(rootToken) { state += action }
      }
      let child = root.childStore(initialState: 0, history: history) { state, action in
        withExtendedLifetime(childToken) { state += action }
      }
      child.subscribe(observer: Observer { _ in .dead })
      try await child.send(1)
      if isShutDown { await root.shutdown() }
      return [rootToken.gone, childToken.gone]
    }
    for gate in try await run() { await gate.wait() }
  }

  @Test func `dropped entries are released, and their states with them`() async throws {
    struct Held: Sendable {
      var token = Token()
    }
    let history = History<Held, Int>(limit: 1)
    let store = RootStore<Held, Int>(initialState: Held(), history: history) { state, _ in state.token = Token() }
    let first = Weak(await store.state.token)
    try await store.send(1)
    #expect(first.object != nil, "the state before")
    try await store.send(2)
    #expect(first.object == nil)
  }

  /// A state whose release tells whether the history's lock is free.
  private final class Telling: Sendable {
    let tell: @Sendable () -> Void
    init(_ tell: @escaping @Sendable () -> Void) { self.tell = tell }
    deinit { tell() }
  }

  @Test func `no state is released while the history is locked, even if a reader is behind`() async throws {
    let history = History<Telling, Int>(limit: 1)
    let isFree = Record<Bool>()
    // The history holds these states.
    let weak = Weak(history)
    let telling = { @Sendable in
      Telling {
        if let history = weak.object { isFree.add(history.contents.mutex.withLockIfAvailable { _ in } != nil) }
      }
    }
    let store = RootStore<Telling, Int>(initialState: telling(), history: history) { state, _ in state = telling() }
    let commits = history.commits(bufferingPolicy: .bufferingNewest(3))
    for action in 1...10 { try await store.send(action) }
    #expect(isFree.all.count >= 6)
    #expect(!isFree.all.contains(false))
    withExtendedLifetime(commits) {}
    await store.shutdown()
  }

  @Test func `an entry has a step for each reducer, and none without reducers`() async throws {
    let (alone, none) = (History<Int, Int>(limit: 1), History<Int, Int>(limit: 1))
    let stores = [
      RootStore(initialState: 0, history: alone) { $0 += $1 },
      RootStore<Int, Int>(initialState: 0, reducers: [], history: none),
    ]
    for store in stores { try await store.send(1) }
    #expect(alone.entries.first?.steps.map(\.state) == [1])
    #expect(none.entries.first?.steps.isEmpty == true)
  }
}
