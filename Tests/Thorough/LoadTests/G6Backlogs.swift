import Puredux
import PureduxTestSupport
import Testing

/// G6 with a large unread backlog.
@Suite(.timeLimit(.minutes(15))) struct G6Backlogs {
  @Test func `a backlog of a million states is released in one go`() async throws {
    let subject = Subject(.rootActor)
    var stalled: AsyncStream<Snapshot>? = subject.root.states()
    for action in 1...1_000_000 { subject.root.dispatch(action) }
    _ = await subject.root.state
    #expect(stalled != nil)
    stalled = nil
    #expect(try await subject.root.send(7) { $0.root.count } == 1_000_001)
    await subject.root.shutdown()
  }

  @Test func `a backlog of 200,000 references is released in one go`() async throws {
    let gone = Counter()
    let root = RootStore<Counted, Int>(initialState: Counted(gone)) { state, _ in state = Counted(gone) }
    var stalled: AsyncStream<Counted>? = root.states()
    for action in 1...200_000 { root.dispatch(action) }
    _ = await root.state
    #expect(stalled != nil)
    #expect(gone.count == 0)
    stalled = nil
    #expect(gone.count == 200_000)
  }
}
