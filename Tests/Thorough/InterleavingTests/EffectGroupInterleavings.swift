import PureduxTestSupport
import Testing

@testable import Puredux

/// The effect group, with the steps that `EffectRunner` takes around it.
private struct EffectSystem: Interleaved {
  enum Effect: Hashable {
    case brief(Int)
    case endless(Int)
  }

  enum Call: Hashable {
    case add(Effect)
    case end(cancelling: Bool)
    case untilEnded
  }

  typealias Machine = EffectGroup<Effect, Wait, EndWaiter>

  struct EndWaiter: Hashable {
    let wait: Wait
    let then: Next<Step>
  }

  /// The group's instruction, made hashable.
  enum Instruction: Hashable {
    case start([Effect])
    case cancel
    case leave

    init(_ instruction: Machine.Instruction) {
      switch instruction {
      case .start(let effects): self = .start(Array(effects))
      case .cancel: self = .cancel
      case .leave: self = .leave
      }
    }
  }

  indirect enum Step: AtomicStep {
    /// The first step of `EffectRunner.add`, `end` and `untilEnded`.
    case call(Call, [Call])
    case spawn([Call])
    case wake(Wait, Instruction, then: Next<Step>)
    case tell([EndWaiter], then: Next<Step>)
    // EffectRunner.run
    case next
    case obey(Instruction)
    case awaitChildren
    case runnerEnded
    case effect(Effect, Int)

    var place: StepPlace { .anywhere }
  }

  enum Mistake {
    case adderForgetsToWake
    case effectForgetsToWake
    case runnerLeavesItsChildren
    case endForgetsToTell
    case endForgetsToWake
  }

  struct Record: Hashable {
    var isCancellingAsked = false
    var isCancelled = false
    var runnersLeft = 0
    /// Added and not yet started, in order.
    var pending: [Effect] = []
    var running: Set<Effect> = []
    var started = 0
  }

  var printed = Printed(Machine())
  var record = Record()
  var crowd = Crowd<Step>()
  let hasTrunk: Bool
  let mistake: Mistake?

  /// The runner of a trunk exists before the first effect is added.
  init(_ clients: [[Call]], hasTrunk: Bool = false, mistake: Mistake? = nil) {
    self.hasTrunk = hasTrunk
    self.mistake = mistake
    for client in clients { crowd.join("client", next(client)) }
    if hasTrunk { crowd.join("runner", .step(.next)) }
  }

  private func next(_ calls: [Call]) -> Next<Step> {
    calls.first.map { .step(.call($0, Array(calls.dropFirst()))) } ?? .end
  }

  func isReady(_ step: Step) -> Bool {
    switch step {
    case .effect(.endless, _): record.isCancelled
    case .awaitChildren: crowd.count(named: "effect") == 0 || mistake == .runnerLeavesItsChildren
    default: true
    }
  }

  mutating func perform(_ step: Step, by me: Int) throws(Violation) -> Next<Step> {
    switch step {
    case .call(let call, let rest): return try begin(call, rest, by: me)
    case .spawn(let rest):
      if !hasTrunk { crowd.join("runner", .step(.next)) }
      return next(rest)
    case .wake(let runner, let instruction, let then):
      try crowd.resume(runner, with: .step(.obey(instruction)))
      return then
    case .tell(let waiters, let then):
      try checkEnded()
      try crowd.resume(waiters[0].wait, with: waiters[0].then)
      return tell(waiters.dropFirst(), then: then)

    case .next:
      let instruction = machine.next(orPark: crowd.makeWait(of: me))
      return instruction.map { .step(.obey(Instruction($0))) } ?? .wait
    case .obey(.start(let effects)):
      guard let effect = effects.first else { return .step(.next) }
      guard record.pending.first == effect else { throw Violation("an effect is not started in its turn") }
      record.pending.removeFirst()
      record.running.insert(effect)
      crowd.join("effect", .step(.effect(effect, record.started)))
      record.started += 1
      return .step(.obey(.start(Array(effects.dropFirst()))))
    case .obey(.cancel):
      guard record.isCancellingAsked || record.running.isEmpty else { throw Violation("nobody asked to cancel") }
      record.isCancelled = true
      return .step(.next)
    case .obey(.leave): return .step(.awaitChildren)
    case .awaitChildren: return .step(.runnerEnded)
    case .runnerEnded:
      record.runnersLeft += 1
      return tell(Array(machine.runnerEnded())[...], unless: .endForgetsToTell, then: .end)

    case .effect(let effect, let number):
      record.running.remove(effect)
      let end = machine.effectEnded(number)
      let then = tell(Array(end.ended)[...], then: .end)
      return wake(end.wake, unless: .effectForgetsToWake, then: then)
    }
  }

  private mutating func begin(_ call: Call, _ rest: [Call], by me: Int) throws(Violation) -> Next<Step> {
    switch call {
    case .add(let effect):
      let addition = machine.add(effect)
      if case .refused = addition { return next(rest) }
      record.pending.append(effect)
      switch addition {
      case .refused, .added: return next(rest)
      case .spawn: return .step(.spawn(rest))
      case .wake(let wake): return self.wake(wake, unless: .adderForgetsToWake, then: next(rest))
      }
    case .end(let cancelling): return end(cancelling: cancelling, then: next(rest))
    case .untilEnded: return try untilEnded(by: me, then: next(rest))
    }
  }

  private mutating func end(cancelling: Bool, then: Next<Step>) -> Next<Step> {
    if cancelling { record.isCancellingAsked = true }
    let end = machine.end(cancelling: cancelling)
    return wake(end.wake, unless: .endForgetsToWake, then: tell(Array(end.ended)[...], then: then))
  }

  private mutating func untilEnded(by me: Int, then: Next<Step>) throws(Violation) -> Next<Step> {
    guard machine.hasEnded(orTells: EndWaiter(wait: crowd.makeWait(of: me), then: then)) else { return .wait }
    try checkEnded()
    return then
  }

  private func tell(
    _ waiters: ArraySlice<EndWaiter>, unless mistake: Mistake? = nil, then: Next<Step>
  ) -> Next<Step> {
    if waiters.isEmpty || (mistake != nil && self.mistake == mistake) { return then }
    return .step(.tell(Array(waiters), then: then))
  }

  private func wake(_ wake: Machine.Wake?, unless mistake: Mistake, then: Next<Step>) -> Next<Step> {
    guard let wake, self.mistake != mistake else { return then }
    return .step(.wake(wake.runner, Instruction(wake.instruction), then: then))
  }

  private func checkEnded() throws(Violation) {
    guard record.pending.isEmpty, record.running.isEmpty else {
      throw Violation("a waiter for the end is resumed while effects run")
    }
  }

  func checkEnd() throws(Violation) {
    try checkEnded()
    guard machine.unfinishedCount == 0 else { throw Violation("the group counts effects that have ended") }
    guard record.runnersLeft <= 1 else { throw Violation("two runners") }
  }
}

@Suite(.timeLimit(.minutes(15))) struct EffectGroupInterleavings {
  fileprivate typealias Call = EffectSystem.Call

  @Test func `each added effect is started once and awaited`() async {
    await explore { EffectSystem([[.add(.brief(1)), .add(.brief(2))], [.end(cancelling: false), .untilEnded]]) }
      .expectNoFailure(atLeast: 1_000)
  }

  @Test func `running effects are cancelled if the end asks for it`() async {
    await explore { EffectSystem([[.add(.brief(1)), .add(.endless(2))], [.end(cancelling: true), .untilEnded]]) }
      .expectNoFailure(atLeast: 1_000)
    await explore { EffectSystem([[.add(.brief(0)), .add(.endless(1))], [.end(cancelling: true)], [.untilEnded]]) }
      .expectNoFailure(atLeast: 1_000)
  }

  @Test(arguments: [false, true])
  func `cancelling overtakes finishing, and both callers are resumed`(hasTrunk: Bool) async {
    let calls: [[Call]] = [
      [.add(.endless(1))], [.end(cancelling: false), .untilEnded], [.end(cancelling: true), .untilEnded],
    ]
    await explore { EffectSystem(calls, hasTrunk: hasTrunk) }.expectNoFailure(atLeast: 10_000)
  }

  @Test func `a trunk that was never used ends`() async {
    await explore {
      EffectSystem([[.end(cancelling: false), .untilEnded], [.end(cancelling: true), .untilEnded]], hasTrunk: true)
    }.expectNoFailure(atLeast: 500)
  }

  @Test(
    arguments: [
      (.adderForgetsToWake, "client, runner: waits for ever"),
      (.effectForgetsToWake, "client, runner: waits for ever"),
      (.runnerLeavesItsChildren, "a waiter for the end is resumed while effects run"),
      (.endForgetsToTell, "client: waits for ever"),
      (.endForgetsToWake, "client, runner: waits for ever"),
    ] as [(EffectSystem.Mistake, String)])
  fileprivate func `a mistake is found`(mistake: EffectSystem.Mistake, reason: String) async {
    let effects: [Call] = [.add(.brief(1)), .add(.brief(2))]
    let end: [Call] = [.end(cancelling: mistake == .runnerLeavesItsChildren)]
    let exploration = await explore {
      EffectSystem([effects, end, [.untilEnded]], mistake: mistake)
    }
    #expect(exploration.failures.keys.contains(reason))
  }
}
