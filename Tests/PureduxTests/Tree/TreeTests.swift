import PureduxTestSupport
import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(15))) struct TreeTests {
  /// G10: even at a high priority, the tree does not return to the executor before the visitor.
  @Test func `a drain that has spent its quantum leaves the rest to a visitor that is on its way`() async throws {
    let executor = HeldExecutor()
    let begun = Gate()
    let subject = Subject(.child, executor: .serial(executor), reducing: { _ in begun.open() })
    let tree = subject.root.core.node.tree
    executor.hold()
    for action in 1...3000 { subject.store.dispatch(action) }
    tree.announceVisit()
    executor.letGo()
    await begun.wait()
    executor.waitForRunningJob()
    #expect(tree.withRequests { $0.inbox.phase } == .leftToVisitor)
    let visit = try await tree.runNow(
      for: nil, { _ throws(StoreError) in }, pending: { PendingRequest { _ throws(StoreError) in } })
    guard case .pending(let request) = visit else {
      Issue.record("A visitor was let in before what was asked before it.")
      return
    }
    try await request.value()
    #expect(await subject.root.state.root.count == 3000)
    await tree.untilIdle()
    #expect(tree.withRequests { $0.inbox.phase } == .idle)
  }

  /// G10: this happens if the caller's thread gets no time between the call and its arrival on the executor.
  @Test(arguments: Kind.inMemory)
  func `a visitor that stands still before it reaches the executor holds up nobody`(kind: Kind) async throws {
    for executor in [StoreExecutor.own, .serial(HeldExecutor()), .mainActor] {
      let subject = Subject(kind, executor: executor)
      let tree = subject.root.core.node.tree
      tree.announceVisit()
      try await subject.servesAndEnds { await tree.untilIdle() }
      let visit = try await tree.runNow(
        for: nil, { _ throws(StoreError) in }, pending: { PendingRequest { _ throws(StoreError) in } })
      if case .pending(let request) = visit { try await request.value() }
      #expect(tree.departed.load(ordering: .relaxed) == tree.ended.load(ordering: .relaxed))
    }
  }

  @Test func `stores check those above them while a closed one exists`() async {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let tree = root.core.node.tree
    var closed: StateStore<(Int, Int), Int>? = root.childStore(initialState: 0) { $0 += $1 }
    var child = closed.map { $0.childStore(initialState: 0) { $0 += $1 } }
    let proxy = child?.store()
    var sibling: StateStore<(Int, Int), Int>? = root.childStore(initialState: 0) { $0 += $1 }
    var siblingProxy = sibling?.store()
    #expect(tree.closedCount.load(ordering: .relaxed) == 0)
    // A store is counted once, however often and in whichever way it is closed.
    await closed?.shutdown(interceptors: .finish(within: .seconds(60)))
    await closed?.shutdown()
    await sibling?.shutdown()
    #expect(tree.closedCount.load(ordering: .relaxed) == 2)
    sibling = nil
    siblingProxy = nil
    await tree.untilIdle()
    #expect(siblingProxy == nil && tree.closedCount.load(ordering: .relaxed) == 1)
    #expect(proxy?.dispatch(1) == .terminated)
    #expect(root.childStore(initialState: 0) { $0 += $1 }.dispatch(1) == .enqueued)
    closed = nil
    await tree.untilIdle()
    #expect(proxy?.dispatch(1) == .terminated)
    #expect(child?.dispatch(1) == .terminated)
    child = nil
    await tree.untilIdle()
    #expect(proxy?.dispatch(1) == .terminated)
  }

  @Test func `without a visitor the rest is performed as well`() async throws {
    let executor = HeldExecutor()
    let subject = Subject(.child, executor: .serial(executor))
    executor.hold()
    let states = subject.store.states(bufferingPolicy: .bufferingNewest(1))
    for action in 1...3000 { subject.store.dispatch(action) }
    executor.letGo()
    #expect(await states.collect(until: { $0.root.count == 3000 }).last?.isWhole == true)
  }

  @Test(arguments: [false, true])
  func `a flood's memory is released when all is done, visited or not`(isVisited: Bool) async throws {
    let executor = HeldExecutor()
    let root = RootStore<Int, [64 of Int]>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, _ in state += 1
    }
    let tree = root.core.node.tree
    executor.hold()
    for _ in 0..<20_000 { root.dispatch(.init(repeating: 0)) }
    if isVisited {
      let visitor = Task { await root.state }
      await executor.untilEnqueued(2)
      executor.letGo()
      #expect(await visitor.value == 20_000)
    } else {
      executor.letGo()
    }
    await tree.untilIdle()
    let kept = Requests<[64 of Int]>.greatestKept
    #expect(kept * MemoryLayout<[64 of Int]>.stride <= 131_072)
    let batch = try await tree.run { _ throws(StoreError) in tree.assumeIsolated { $0.batch.actions.capacity } }
    #expect(batch < kept)
    #expect(tree.withRequests { $0.waiting.actions.capacity } < kept)
    #expect(tree.withRequests { $0.full.capacity } == 0)
  }

  @Test func `a flood of several segments keeps its order, from any stores`() async throws {
    typealias Large = [64 of Int]
    let length = Requests<Large>.greatestKept
    let executor = HeldExecutor()
    let root = RootStore<[Int], Large>(initialState: [], options: StoreOptions(executor: .serial(executor))) {
      $0.append($1[0])
    }
    let child = root.childStore(initialState: 0) { $0 += $1[0] }
    let tree = root.core.node.tree
    executor.hold()
    var expected: [Int] = []
    var sequences: [(StateSequence<[Int]>, begins: Int)] = []
    for number in 0..<(length * 30) {
      // Runs of one store cross the ends of segments, with subscriptions on both sides of these ends and elsewhere.
      if tree.withRequests({ $0.waiting.actions.count + 1 >= $0.waiting.actions.capacity }) || number % 500 == 7 {
        sequences.append((root.states(bufferingPolicy: .bufferingOldest(1)), begins: expected.count))
      }
      expected.append(number)
      let store = number / 300 % 2 == 0 ? root.store().scope { _ in 0 } : child.store().scope { _ in 0 }
      store.dispatch(.init(repeating: number))
    }
    #expect(tree.withRequests { $0.count } == expected.count + sequences.count)
    #expect(tree.withRequests { $0.full.count } >= 3)
    executor.letGo()
    #expect(await child.state == (expected, (0..<expected.count).filter { $0 / 300 % 2 == 1 }.reduce(0, +)))
    for (states, begins) in sequences {
      var iterator = states.makeAsyncIterator()
      #expect(await iterator.next()?.count == begins)
    }
    #expect(await root.statistics.waiting == 0)
  }

  /// The reducer runs any waiting job, as a nested run loop does, and so the visitor's in the middle of a commit.
  @Test func `a reentrant visitor gets its turn before an endless flood`() async throws {
    let executor = ManualExecutor(isStepByStep: false)
    let (width, length) = (2_000, 20)
    let proxies = Record<Store<Int, Int>>()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
      state, action in
      state += 1
      executor.run()
      if action > 1 { proxies.all.first?.dispatch(action - 1) }
    }
    proxies.add(root.store())
    executor.hold()
    for _ in 0..<width { root.dispatch(length) }
    let visitor = Task { try await Neighbor(on: executor).send(0, to: root) }
    await executor.untilWaiting(2)
    executor.letGo()
    let count = try await visitor.value
    #expect(count <= 4 * width, "of \(width * length)")
    await root.shutdown()
  }

  @Test func `a waiter until the tree is idle is told after a rest was left to a visitor`() async throws {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    let tree = root.core.node.tree
    executor.hold()
    for _ in 0..<Int(Tree<Int>.greatestQuantum) + 1 { root.dispatch(1) }
    let waiting = Task { await tree.untilIdle() }
    while tree.withRequests({ $0.inbox.idleWaiters.isEmpty }) { await Task.yield() }
    let visitor = Task { await root.state }
    await executor.untilEnqueued(2)
    executor.letGo()
    #expect(await visitor.value == Int(Tree<Int>.greatestQuantum) + 1)
    await waiting.value
  }
}

private actor Neighbor {
  private let executor: ManualExecutor
  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

  init(on executor: ManualExecutor) { self.executor = executor }

  /// Returns the number of commits after the send.
  func send(_ action: Int, to store: RootStore<Int, Int>) async throws -> Int { try await store.send(action) { $0 } }
}
