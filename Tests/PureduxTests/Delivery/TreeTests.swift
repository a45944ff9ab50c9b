import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(1))) struct TreeTests {
  /// G10: however high the priority of the tree, it does not come back to the executor before the visitor.
  @Test func `a drain that has spent its quantum leaves the rest to a visitor that is on its way`() async throws {
    let executor = HeldExecutor()
    let begun = Gate()
    let subject = Subject(.child, executor: .serial(executor), reducing: { _ in begun.open() })
    let tree = subject.root.core.origin.tree
    executor.hold()
    for action in 1...3000 { subject.store.dispatch(action) }
    tree.announceVisit()
    executor.letGo()
    await begun.wait()
    executor.waitForRunningJob()
    #expect(tree.inbox.withLock { $0.phase } == .leftToVisitor)
    try await tree.visitNow { _ throws(StoreError) in }
    #expect(await subject.root.state.root.count == 3000)
    #expect(tree.inbox.withLock { $0.phase } == .idle)
  }

  @Test func `without a visitor the rest is done all the same`() async throws {
    let executor = HeldExecutor()
    let subject = Subject(.child, executor: .serial(executor))
    executor.hold()
    let states = subject.store.states(bufferingPolicy: .bufferingNewest(1))
    for action in 1...3000 { subject.store.dispatch(action) }
    executor.letGo()
    #expect(await states.collect(until: { $0.root.count == 3000 }).last?.isWhole == true)
  }
}
