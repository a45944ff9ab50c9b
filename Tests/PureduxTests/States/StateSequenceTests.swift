import Puredux
import PureduxTestSupport
import Testing

/// A `StateSequence`, and the `AsyncStream` that is a view of it. The tests in Contract/ show that both keep the
/// contract, by the kinds of stores that are read as a sequence.
@Suite(.timeLimit(.minutes(15))) struct StateSequenceTests {
  /// A child that shows its parent's state and records each computation of it.
  private func child(of root: RootStore<Int, Int>, recording composed: Record<Int>) -> StateStore<Int, Int> {
    root.childStore(
      initialState: 0,
      stateMapping: { state, _ in
        composed.add(state)
        return state
      }
    ) { _, _ in }
  }

  @Test func `nothing is computed after the last of several sequences is released, one of which never began`()
    async throws
  {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    let composed = Record<Int>()
    let child = child(of: root, recording: composed)
    var first: StateSequence<Int>? = child.states()
    #expect(await first?.collect(1) == [0])
    executor.hold()
    _ = child.states() as StateSequence
    first = nil
    root.dispatch(1)
    executor.letGo()
    for _ in 0..<5 { try await root.send(1) }
    #expect(composed.all == [0])
    await root.shutdown()
    withExtendedLifetime(child) {}
  }

  @Test func `no commit follows a sequence released before its place in the order`() async throws {
    let executor = HeldExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 += $1 }
    let composed = Record<Int>()
    let child = child(of: root, recording: composed)
    executor.hold()
    for _ in 0..<3 { _ = child.states() as StateSequence }
    root.dispatch(1)
    executor.letGo()
    _ = await root.state
    #expect(composed.all.isEmpty)
    let states = child.states() as StateSequence
    try await root.send(1)
    #expect(await states.collect(2) == [1, 2])
    #expect(composed.all == [1, 2])
    await root.shutdown()
    withExtendedLifetime(child) {}
  }

  @Test func `every call that returns a stream can return a sequence`() async throws {
    let root = RootStore<Snapshot, Int>(initialState: Snapshot()) { $0.root.enter($1) }
    let child = root.ledgerChild()
    let selector = StateSelector<Snapshot, Int>(\.root.last)
    #expect(type(of: root.states()) == AsyncStream<Snapshot>.self)
    #expect(type(of: root.store().states(\.root)) == AsyncStream<Ledger>.self)
    let whole: [StateSequence<Snapshot>] = [
      root.states(), child.states(bufferingPolicy: .bufferingNewest(9)), child.store().states(),
      (child as any StoreType<Snapshot, Int>).states(removeStateDuplicates: .equal),
    ]
    let parts: [StateSequence<Int>] = [root.states(\.root.last), child.states(selector)]
    for action in [1, 1, 2] { try await child.send(action) }
    await root.shutdown()
    #expect(await whole[0].collect().map(\.root.last) == [0, 1, 1, 2])
    #expect(await whole[1].collect().map(\.locals[0].last) == [0, 1, 1, 2])
    #expect(await whole[2].collect().map(\.locals[0].last) == [0, 1, 1, 2])
    #expect(await whole[3].collect().map(\.root.count) == [0, 1, 2, 3])
    for part in parts { #expect(await part.collect() == [0, 1, 1, 2]) }
  }

  @Test func `a stream made of a sequence shares the elements, and ends the sequence`() async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let sequence: StateSequence<Int> = root.states()
    let stream = AsyncStream(sequence)
    for action in 1...3 { try await root.send(action) }
    #expect(await sequence.collect(1) == [0])
    #expect(await stream.collect(1) == [1])
    #expect(await sequence.collect(1) == [2])
    let waits = Gate()
    let consumer = Task {
      for await state in stream where state == 3 { waits.open() }
    }
    await waits.wait()
    consumer.cancel()
    await consumer.value
    #expect(await sequence.collect().isEmpty)
  }

  @Test func `a consumer on an actor does not leave it for available states`() async throws {
    let executor = HeldExecutor()
    let consumer = Consumer(executor)
    let root = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let sequence: StateSequence<Int> = root.states()
    for action in 1...100 { try await root.send(action) }
    #expect(await consumer.read(101, of: sequence) == 0)
  }
}

private actor Consumer {
  private let executor: HeldExecutor

  init(_ executor: HeldExecutor) {
    self.executor = executor
  }

  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe executor.asUnownedSerialExecutor() }

  /// Returns the number of jobs that the reads enqueued on the executor.
  func read(_ count: Int, of states: StateSequence<Int>) async -> Int {
    let before = executor.enqueued
    var iterator = states.makeAsyncIterator()
    for _ in 0..<count { _ = await iterator.next(isolation: self) }
    return executor.enqueued - before
  }
}
