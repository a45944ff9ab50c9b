import PureduxTestSupport
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

/// Calls of `shutdown` that let the effects of a store finish, as `StoreCore.finishEffects` does.
private struct FinishSystem: Interleaved {
  enum Participant: Hashable {
    /// An effect of a store, which finishes another, or the same.
    case effect(of: Int, finishing: Int? = nil)
    /// A task that an effect does not wait for.
    case left(by: Int, finishing: Int)
    case outsider(finishing: Int)
  }

  enum Step: AtomicStep {
    case began
    case looked
    case untilIdle(by: Int, number: Int?)
    case wasIdle(number: Int?)
    case waited(isOver: Bool)
    case closed
    case awaitsEnd
    case untilEnded(by: Int, number: Int?)
    case hasEnded(number: Int?)
    case ended

    var place: StepPlace { .anywhere }
  }

  enum Mistake {
    case whoCannotWaitAwaitsTheEnd
    case whoCannotWaitLeavesTheStoreOpen
  }

  struct Record: Hashable {
    /// The effects that have ended.
    var ended: Set<Int> = []
    /// How many calls wait for the effects of a store to finish.
    var finishing: [Int: Int] = [:]
    var closed: Set<Int> = []
  }

  var printed = Printed(EffectWaits<Int, Int>())
  var record = Record()
  var crowd = Crowd<Step>()
  let participants: [Participant]
  let mistake: Mistake?

  init(_ participants: [Participant], mistake: Mistake? = nil) {
    self.participants = participants
    self.mistake = mistake
    for participant in participants {
      switch participant {
      case .effect(_, finishing: nil): crowd.join("effect", .step(.ended))
      case .effect: crowd.join("effect", .step(.began))
      case .left: crowd.join("what an effect left", .step(.began))
      case .outsider: crowd.join("outsider", .step(.began))
      }
    }
  }

  private func store(finishedBy participant: Int) -> Int? {
    switch participants[participant] {
    case .effect(_, let store): store
    case .left(_, let store), .outsider(let store): store
    }
  }

  /// The effect that a call is part of.
  private func caller(_ participant: Int) -> EffectWaits<Int, Int>.Caller? {
    let effect = if case .left(let effect, _) = participants[participant] { effect } else { participant }
    guard case .effect(let store, _) = participants[effect], !record.ended.contains(effect) else { return nil }
    return (effect, store)
  }

  /// Whether effects of the store that a call finishes run, except the one that it is part of.
  private func areOthersRunning(_ participant: Int) -> Bool {
    let caller = caller(participant)
    return participants.indices.contains { effect in
      guard case .effect(let store, _) = participants[effect], store == self.store(finishedBy: participant) else {
        return false
      }
      return effect != caller?.effect && !record.ended.contains(effect)
    }
  }

  func isReady(_ step: Step) -> Bool {
    switch step {
    case .untilIdle(let participant, _): !areOthersRunning(participant)
    case .untilEnded(let participant, _):
      !areOthersRunning(participant) && record.closed.contains(store(finishedBy: participant) ?? -1)
    default: true
    }
  }

  mutating func perform(_ step: Step, by me: Int) throws(Violation) -> Next<Step> {
    let store = store(finishedBy: me) ?? -1
    switch step {
    case .began:
      record.finishing[store, default: 0] += 1
      return .step(.looked)
    case .looked:
      if !areOthersRunning(me) { return .step(.waited(isOver: true)) }
      guard let caller = caller(me) else { return .step(.untilIdle(by: me, number: nil)) }
      guard let number = begin(of: caller, for: store) else { return .step(.waited(isOver: false)) }
      return .step(.untilIdle(by: me, number: number))
    case .untilIdle(_, let number): return .step(.wasIdle(number: number))
    case .wasIdle(let number):
      if let number { _ = machine.end(number) }
      return .step(.looked)
    case .waited(let isOver):
      let left = record.finishing[store, default: 1] - 1
      record.finishing[store] = left > 0 ? left : nil
      if isOver || left == 0 && mistake != .whoCannotWaitLeavesTheStoreOpen { return .step(.closed) }
      return mistake == .whoCannotWaitAwaitsTheEnd ? .step(.awaitsEnd) : returned(me)
    case .closed:
      record.closed.insert(store)
      return .step(.awaitsEnd)
    case .awaitsEnd:
      guard let caller = caller(me) else { return .step(.untilEnded(by: me, number: nil)) }
      return begin(of: caller, for: store).map { .step(.untilEnded(by: me, number: $0)) } ?? returned(me)
    case .untilEnded(_, let number): return .step(.hasEnded(number: number))
    case .hasEnded(let number):
      if let number { _ = machine.end(number) }
      return returned(me)
    case .ended:
      record.ended.insert(me)
      return .end
    }
  }

  private mutating func begin(of caller: EffectWaits<Int, Int>.Caller, for store: Int) -> Int? {
    machine.begin(of: [caller], for: [store]) { [record] in record.ended.contains($0) }
  }

  private func returned(_ participant: Int) -> Next<Step> {
    if case .effect = participants[participant] { .step(.ended) } else { .end }
  }

  func checkEnd() throws(Violation) {
    guard machine.isEmpty, record.finishing.isEmpty else { throw Violation("a wait is left") }
    guard record.closed == Set(participants.indices.compactMap { store(finishedBy: $0) }) else {
      throw Violation("a store is left open")
    }
  }
}

@Suite(.timeLimit(.minutes(15))) struct EffectWaitInterleavings {
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

  @Test func `calls that let effects finish all return, and close the stores`() async {
    await explore {
      FinishSystem([.effect(of: 0, finishing: 0), .effect(of: 0, finishing: 0), .outsider(finishing: 0)])
    }.expectNoFailure(atLeast: 100)
    await explore {
      FinishSystem([.effect(of: 0, finishing: 0), .effect(of: 0), .left(by: 1, finishing: 0), .outsider(finishing: 0)])
    }.expectNoFailure(atLeast: 100)
    await explore {
      FinishSystem([.effect(of: 0, finishing: 1), .effect(of: 1, finishing: 0), .left(by: 1, finishing: 1)])
    }.expectNoFailure(atLeast: 100)
  }

  @Test(
    arguments: [
      (
        .whoCannotWaitAwaitsTheEnd, [.effect(of: 0, finishing: 0), .effect(of: 0), .left(by: 1, finishing: 0)],
        "effect, what an effect left: waits for ever"
      ),
      (
        .whoCannotWaitLeavesTheStoreOpen, [.effect(of: 0, finishing: 1), .effect(of: 1, finishing: 0)],
        "a store is left open"
      ),
    ] as [(FinishSystem.Mistake, [FinishSystem.Participant], String)])
  fileprivate func `a mistake in finishing is found`(
    mistake: FinishSystem.Mistake, participants: [FinishSystem.Participant], reason: String
  ) async {
    let exploration = await explore { FinishSystem(participants, mistake: mistake) }
    #expect(exploration.failures.keys.contains(reason), "\(exploration.failures.keys)")
  }
}
