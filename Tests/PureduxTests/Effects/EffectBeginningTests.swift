import PureduxTestSupport
import Testing

@testable import Puredux

/// No work begins after its cancellation, whichever object it belongs to (G8).
@Suite(.timeLimit(.minutes(15))) struct EffectBeginningTests {
  private let begun = Record<Int>()

  @Test func `work that is cancelled by its id, or by the state, before it begins does not begin`() async {
    let store = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let node = store.core.node
    let running = RunningEffect(of: EffectRunner(of: node))
    let run = Effect<Int>.Run { [begun] _ in begun.add(1) }
    for isRevoked in [true, false] {
      let revocation = Revocation()
      if isRevoked { revocation.revoke() }
      await run.perform(for: node, within: running, revocation, TreeEffects.Settings()) {
        Dispatch(.effect(node, running, $0 ?? revocation))
      }
    }
    #expect(begun.all == [1])
    await store.shutdown()
  }

  @Test(arguments: [true, false])
  func `work that fails and is cancelled is not retried`(retriesAtOnce: Bool) async {
    struct Mishap: Error {}
    let store = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let node = store.core.node
    let running = RunningEffect(of: EffectRunner(of: node))
    let revocation = Revocation()
    var run = Effect<Int>.Run { [begun] _ in
      begun.add(1)
      revocation.revoke()
      throw Mishap()
    }
    run.retry = .constant(retriesAtOnce ? .zero : .nanoseconds(1))
    await run.perform(for: node, within: running, revocation, TreeEffects.Settings()) {
      Dispatch(.effect(node, running, $0 ?? revocation))
    }
    #expect(begun.all == [1])
    await store.shutdown()
  }

  @Test func `work whose store has ended does not begin`() async {
    let store = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let node = store.core.node
    let runner = EffectRunner(of: node)
    let early = ActionEffect<Int>(of: runner, in: node) { [begun] _ in begun.add(1) }
    let late = ActionEffect<Int>(of: runner, in: node) { [begun] _ in begun.add(2) }
    for effect in [early, late] { runner.add(effect, spawn: { _ in }) }
    await early.run()
    await store.shutdown()
    await late.run()
    #expect(begun.all == [1])
  }

  @Test func `ids of different types are different`() async throws {
    let cancelled = Record<String>()
    let store = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { [begun] action, _ in
        let effect = Effect<Int>.run { _ in
          begun.add(action)
          await untilCancelled()
          cancelled.add("\(action)")
        }
        return switch action {
        case 1: effect.id(1)
        case 2: effect.id(1.0)
        case 3: effect.id(UInt8(1))
        case 4: effect.id(Optional(1))
        case 5: .cancel(1.0)
        default: .cancel(Optional(1))
        }
      }
    ) { $0 += $1 }
    for action in 1...4 { try await store.send(action) }
    await begun.untilCount(4)
    try await store.send(5)
    try await store.send(6)
    await cancelled.untilCount(2)
    #expect(cancelled.all.sorted() == ["2", "4"])
    await store.shutdown()
    #expect(cancelled.all.sorted() == ["1", "2", "3", "4"])
  }
}
