import Puredux
import PureduxTestSupport
import Testing

/// The parent's and the local part of a state always come from the same commit.
@Suite(.timeLimit(.minutes(15))) struct G3AllOrNothing {
  @Test(arguments: Kind.children)
  func `no reader sees a torn state under load from eight producers`(kind: Kind) async throws {
    let subject = Subject(kind)
    let every = subject.states()
    let newest = subject.states(bufferingPolicy: .bufferingNewest(1))
    let halves = subject.store.scope { [$0.root] + $0.locals }.states()
    await withTaskGroup { group in
      for _ in 0..<8 {
        group.addTask {
          for action in 1...200 {
            switch action % 20 {
            case 0: #expect((try? await subject.store.send(action) { $0.isWhole }) == true)
            case 10: #expect((try? await subject.store.state.isWhole) == true)
            default: subject.store.dispatch(action)
            }
          }
        }
      }
      group.addTask { #expect(await every.collect(until: { $0.root.count == 1520 }).allSatisfy(\.isWhole)) }
      group.addTask { #expect(await newest.collect(until: { $0.root.count == 1520 }).allSatisfy(\.isWhole)) }
      group.addTask {
        let seen = await halves.collect(until: { $0[0].count == 1520 })
        #expect(seen.allSatisfy { half in half.allSatisfy { $0 == half[0] } })
      }
    }
  }
}
