import Testing

@testable import Puredux

/// Effects that shut stores down and wait for the effects of these, as `TreeEffects.untilEnded` has them do.
private struct WaitSystem: Interleaved {
  /// The stores that are shut down together: a store and those below it.
  typealias Shutdown = Set<Int>

  enum Step: AtomicStep {
    case begin([Shutdown])
    case untilOthersEnded(effect: Int, number: Int, Shutdown, [Shutdown])
    case end(number: Int, [Shutdown])
    case ended

    var place: StepPlace { .anywhere }
  }

  enum Mistake {
    case cycleIsNotNoticed
    case waitIsForgotten
  }

  struct Record: Hashable {
    var ended: Set<Int> = []
    /// What each effect waits for.
    var awaited: [Int: Set<Int>] = [:]
  }

  var printed = Printed(EffectWaits<Int, Int>())
  var record = Record()
  var crowd = Crowd<Step>()
  /// The store of each effect.
  let stores: [Int]
  let mistake: Mistake?

  /// - Parameter shutdowns: What each effect shuts down, one after the other.
  init(stores: [Int], _ shutdowns: [[Shutdown]], mistake: Mistake? = nil) {
    self.stores = stores
    self.mistake = mistake
    for shutdowns in shutdowns { crowd.join("effect", shutdowns.isEmpty ? .step(.ended) : .step(.begin(shutdowns))) }
  }

  /// The other effects of stores that have not ended.
  private func others(_ effect: Int, in shutdown: Shutdown) -> Set<Int> {
    Set(stores.indices.filter { $0 != effect && shutdown.contains(stores[$0]) }).subtracting(record.ended)
  }

  func isReady(_ step: Step) -> Bool {
    guard case .untilOthersEnded(let effect, _, let shutdown, _) = step else { return true }
    return others(effect, in: shutdown).isEmpty
  }

  mutating func perform(_ step: Step, by me: Int) throws(Violation) -> Next<Step> {
    switch step {
    case .begin(let shutdowns):
      let awaited = others(me, in: shutdowns[0])
      let number = machine.begin(of: [(me, stores[me])], for: shutdowns[0].sorted()) { [record] effect in
        record.ended.contains(effect)
      }
      let isCycle = closesCycle(me, awaited)
      if let number {
        if isCycle { throw Violation("a cycle is closed") }
        record.awaited[me] = awaited
        return .step(.untilOthersEnded(effect: me, number: number, shutdowns[0], Array(shutdowns.dropFirst())))
      }
      guard isCycle else { throw Violation("what is no cycle does not wait") }
      if mistake == .cycleIsNotNoticed {
        return .step(.untilOthersEnded(effect: me, number: 0, shutdowns[0], Array(shutdowns.dropFirst())))
      }
      return next(Array(shutdowns.dropFirst()))
    case .untilOthersEnded(_, let number, _, let rest): return .step(.end(number: number, rest))
    case .end(let number, let rest):
      if mistake != .waitIsForgotten { _ = machine.end(number) }
      record.awaited[me] = nil
      return next(rest)
    case .ended:
      record.ended.insert(me)
      return .end
    }
  }

  private func next(_ shutdowns: [Shutdown]) -> Next<Step> {
    shutdowns.isEmpty ? .step(.ended) : .step(.begin(shutdowns))
  }

  /// As the contract has it (G10), computed anew from who waits for whom.
  private func closesCycle(_ me: Int, _ awaited: Set<Int>) -> Bool {
    var (reached, next) = (awaited, Array(awaited))
    while let effect = next.popLast() {
      for other in record.awaited[effect] ?? [] where !record.ended.contains(other) {
        if other == me { return true }
        if reached.insert(other).inserted { next.append(other) }
      }
    }
    return false
  }

  func checkEnd() throws(Violation) {
    guard machine.isEmpty else { throw Violation("a wait is left") }
  }
}

@Suite(.timeLimit(.minutes(5))) struct EffectWaitInterleavings {
  @Test func `effects that shut each other's stores down all end, and only who closes a cycle does not wait`() async {
    await explore { WaitSystem(stores: [0, 1], [[[1], [0]], [[0], [1]]]) }.expectNoFailure(atLeast: 2)
    await explore { WaitSystem(stores: [0, 0], [[[0]], [[0]]]) }.expectNoFailure(atLeast: 2)
    await explore { WaitSystem(stores: [0, 1, 2], [[[1], [2]], [[2], [0]], [[0], [1]]]) }
      .expectNoFailure(atLeast: 6)
    await explore { WaitSystem(stores: [0, 1, 2, 3], [[[1]], [[2]], [[3]], [[0, 1]]]) }
      .expectNoFailure(atLeast: 40)
  }

  @Test(arguments: [[0, 1, 2], [0, 0, 1], [0, 0, 0]])
  func `three effects, each of which shuts any stores down`(stores: [Int]) async {
    let all: [WaitSystem.Shutdown] = (1...7).map { bits in Set((0..<3).filter { bits >> $0 & 1 == 1 }) }
    for first in all {
      for second in all {
        for third in all {
          await explore { WaitSystem(stores: stores, [[first], [second], [third]]) }.expectNoFailure(atLeast: 6)
        }
      }
    }
  }

  @Test(
    arguments: [
      (.cycleIsNotNoticed, "effect, effect: waits for ever"), (.waitIsForgotten, "a wait is left"),
    ] as [(WaitSystem.Mistake, String)])
  fileprivate func `a mistake is found`(mistake: WaitSystem.Mistake, reason: String) async {
    let exploration = await explore { WaitSystem(stores: [0, 1], [[[1], [0]], [[0], [1]]], mistake: mistake) }
    #expect(exploration.failures.keys.contains(reason), "\(exploration.failures.keys)")
  }
}
