import Puredux
import PureduxTestSupport
import Testing

/// The first element is the state after all requests ordered before the subscription, whose place is taken in the call.
@Suite(.timeLimit(.minutes(15))) struct G5TheFirstElement {
  @Test(arguments: Kind.inMemory)
  func `a subscription right after a dispatch and right before one sees the first at once and the second next`(
    kind: Kind
  ) async throws {
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    executor.hold()
    subject.store.dispatch(1)
    let states = subject.states()
    subject.store.dispatch(2)
    executor.letGo()
    #expect(await states.collect(2) == [subject.expected(after: [1]), subject.expected(after: [1, 2])])
  }

  @Test(arguments: Kind.allCases)
  func `nothing is lost between the call and the loop`(kind: Kind) async throws {
    let subject = Subject(kind)
    let states = subject.states()
    for action in 1...50 { try await subject.store.send(action) }
    await subject.root.shutdown()
    #expect(await states.collect() == subject.expectedStates(during: Array(1...50)))
  }

  @Test(arguments: Kind.inMemory)
  func `a consumer that waits before its subscription has its turn gets the first element too`(kind: Kind) async throws
  {
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    executor.hold()
    subject.store.dispatch(1)
    let states = subject.states()
    async let first = states.collect(1)
    await Task.yield()
    executor.letGo()
    #expect(await first == [subject.expected(after: [1])])
  }

  @Test(arguments: Kind.inMemory)
  func `a subscription made by a reducer takes its place after earlier dispatches`(kind: Kind) async throws {
    let executor = HeldExecutor()
    let sequences = Record<AsyncStream<Snapshot>>()
    let proxies = Record<Store<Snapshot, Int>>()
    let subject = Subject(
      kind, executor: .serial(executor), reducing: { if $0 == 2 { sequences.add(proxies.all[0].states()) } })
    proxies.add(subject.store.store())
    executor.hold()
    for action in 1...3 { subject.store.dispatch(action) }
    executor.letGo()
    _ = try await subject.store.state
    await subject.root.shutdown()
    #expect(await sequences.all[0].collect().first?.root.last == 3)
  }
}
