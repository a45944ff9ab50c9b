import Puredux
import PureduxTesting
import Testing

@Suite(.timeLimit(.minutes(15))) struct RecorderBacklogs {
  @Test func `a million states`() async throws {
    let count = 1_000_000
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let states = root.record()
    for _ in 1...count { root.dispatch(1) }
    await states.next { $0 == count / 2 }
    await states.expect(count / 2 + 1)
    #expect(await states.all().count == count / 2 - 1)
    await root.shutdown()
  }
}
