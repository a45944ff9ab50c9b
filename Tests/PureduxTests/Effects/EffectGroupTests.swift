import PureduxTestSupport
import Testing

@testable import Puredux

@Suite struct EffectGroupTests {
  private typealias Group = EffectGroup<Int, String, String>

  private func started(_ instruction: Group.Instruction?) -> [Int]? {
    if case .start(let effects) = instruction { Array(effects) } else { nil }
  }

  private func isLeave(_ instruction: Group.Instruction?) -> Bool {
    if case .leave = instruction { true } else { false }
  }

  private func isCancel(_ instruction: Group.Instruction?) -> Bool {
    if case .cancel = instruction { true } else { false }
  }

  private func isSpawn(_ addition: Group.Addition) -> Bool {
    if case .spawn = addition { true } else { false }
  }

  @Test func `the first effect spawns the runner, which starts the added effects in order`() {
    var group = Group()
    #expect(isSpawn(group.add(1)))
    for effect in 2...4 {
      guard case .added = group.add(effect) else {
        Issue.record("not added")
        return
      }
    }
    #expect(started(group.next(orPark: "runner")) == [1, 2, 3, 4])
    #expect(group.running == 4)
  }

  @Test(arguments: [nil, false, true])
  func `a held effect starts when it is released, and so do the later ones`(cancelling: Bool?) {
    var group = Group()
    guard case .added = group.add(1, isHeld: true), case .added = group.add(2) else {
      Issue.record("not held")
      return
    }
    #expect(group.unfinishedCount == 2)
    #expect(!group.isIdle(.nothingRuns))
    if let cancelling { #expect(group.end(cancelling: cancelling).ended.isEmpty) }
    #expect(isSpawn(group.release()))
    guard case .added = group.release() else {
      Issue.record("released twice")
      return
    }
    #expect(started(group.next(orPark: "runner")) == [1, 2])
    if cancelling == true { #expect(isCancel(group.next(orPark: "runner"))) }
    guard cancelling != nil else { return }
    for number in 0...1 { _ = group.effectEnded(number) }
    #expect(isLeave(group.next(orPark: "runner")))
  }

  @Test(arguments: [false, true])
  func `an ending group waits for held effects`(cancelling: Bool) {
    var group = Group()
    #expect(group.next(orPark: "runner") == nil)
    _ = group.add(1, isHeld: true)
    #expect(group.end(cancelling: cancelling).wake == nil)
    guard case .wake(let wake) = group.release() else {
      Issue.record("not woken")
      return
    }
    #expect(started(wake.instruction) == [1])
  }

  @Test func `an effect wakes the runner that waits`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    guard case .wake(let wake) = group.add(2) else {
      Issue.record("not woken")
      return
    }
    #expect(wake.runner == "runner")
    #expect(started(wake.instruction) == [2])
    guard case .added = group.add(3) else {
      Issue.record("woken twice")
      return
    }
  }

  @Test func `a runner that comes before the first effect waits for it`() {
    var group = Group()
    #expect(group.next(orPark: "runner") == nil)
    guard case .wake(let wake) = group.add(1) else {
      Issue.record("not woken")
      return
    }
    #expect(started(wake.instruction) == [1])
  }

  @Test func `the end of an effect wakes no waiter while the group is open`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    #expect(group.effectEnded(0).wake == nil)
    #expect(group.running == 0)
  }

  /// A pause that holds according to the answers, one per check, and after them always.
  private func pause(for cause: RunningEffect.Pause.Cause, _ answers: [Bool] = []) -> RunningEffect.Pause {
    let left = LockedValue(answers[...])
    return RunningEffect.Pause(for: cause) { _ in left.withLock { $0.popFirst() ?? true } }
  }

  private func over() -> RunningEffect.Pause {
    let pause = pause(for: .states)
    pause.end()
    return pause
  }

  @Test func `a waiter until nothing works is told once, when the last effect has ended or waits for a state`() {
    for isFollowing in [false, true] {
      var group = Group()
      for effect in 1...3 { _ = group.add(effect, isObserver: effect == 3) }
      _ = group.next(orPark: "runner")
      #expect(group.isIdle(.nothingWorks, orTells: "all").isIdle == false)
      if isFollowing {
        #expect(group.effect(1, pausesBy: pause(for: .time)).told.isEmpty)
        #expect(group.effect(1, pausesBy: over()).told.isEmpty)
        #expect(group.effect(1, pausesBy: pause(for: .states)).told.isEmpty)
      } else {
        #expect(group.effectEnded(1).ended.isEmpty)
      }
      #expect(Array(group.effectEnded(0).ended) == ["all"])
      #expect(group.isIdle(.nothingWorks, orTells: "nobody").isIdle == true)
    }
  }

  @Test func `an effect that will be interrupted rests until then, and again afterwards`() {
    var group = Group()
    for effect in 1...2 { _ = group.add(effect) }
    _ = group.next(orPark: "runner")
    for number in 0...1 { _ = group.effect(number, pausesBy: pause(for: .states)) }
    let isDue = Flag()
    let alarm = RunningEffect.Pause(for: .time) { _ in !isDue.isRaised }
    group.expects(alarm)
    #expect(group.isIdle(.nothingRuns))
    isDue.raise()
    for sleep in group.sleeps { sleep.look() }
    #expect(group.isIdle(.nothingRuns, orTells: "waiter").isIdle == false)
    #expect(group.isIdle(.nothingWorks))
    #expect(group.isIdle(.allFollow))
    alarm.end()
    #expect(Array(group.ended(alarm)) == ["waiter"])
    #expect(group.isIdle(.nothingRuns))
    #expect(group.sleeps.isEmpty)
  }

  @Test func `a waiter until nothing runs is told when all effects and observers sleep or wait for a state`() {
    var group = Group()
    for effect in 1...3 { _ = group.add(effect, isObserver: effect == 3) }
    _ = group.next(orPark: "runner")
    #expect(group.isIdle(.nothingRuns, orTells: "waiter").isIdle == false)
    #expect(group.effect(0, pausesBy: pause(for: .time)).told.isEmpty)
    #expect(group.effect(1, pausesBy: over()).told.isEmpty)
    #expect(group.effect(2, pausesBy: pause(for: .states)).told.isEmpty)
    let asleep = pause(for: .time)
    #expect(Array(group.effect(1, pausesBy: asleep).told) == ["waiter"])
    #expect(group.isIdle(.nothingRuns))
    let changes = group.changeCount
    asleep.end()
    #expect(!group.isIdle(.nothingRuns))
    #expect(group.changeCount == changes)
    _ = group.effectEnded(1)
    #expect(group.changeCount == changes + 1)
  }

  @Test func `a cancelled waiter is not told`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    let (_, number) = group.isIdle(.nothingRuns, orTells: "waiter")
    _ = group.isIdle(.nothingWorks, orTells: "other")
    #expect(group.forgetIdleWaiter(number) == "waiter")
    #expect(group.forgetIdleWaiter(number) == nil)
    #expect(Array(group.effectEnded(0).ended) == ["other"])
  }

  @Test func `a follower that receives a state while waiters are told does not cause a second report`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.isIdle(.nothingWorks, orTells: "waiter").isIdle == false)
    let once = pause(for: .states, [true] + Array(repeating: false, count: 10))
    #expect(Array(group.effect(0, pausesBy: once).told) == ["waiter"])
    #expect(group.effectEnded(0).ended.isEmpty)
  }

  @Test func `a finishing runner ends with the last effect`() {
    var group = Group()
    _ = group.add(1)
    _ = group.add(2)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    #expect(group.end(cancelling: false).wake == nil)
    #expect(group.effectEnded(1).wake == nil)
    #expect(isLeave(group.effectEnded(0).wake?.instruction))
    #expect(group.hasEnded(orTells: "a") == false)
    #expect(Array(group.runnerEnded()) == ["a"])
    #expect(group.hasEnded(orTells: "b") == true)
  }

  @Test func `a finishing runner without effects ends at once`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    _ = group.effectEnded(0)
    #expect(isLeave(group.end(cancelling: false).wake?.instruction))
  }

  @Test func `a cancelling end starts the added effects, cancels all, and then ends the runner`() {
    var group = Group()
    _ = group.add(1)
    _ = group.end(cancelling: true)
    #expect(started(group.next(orPark: "runner")) == [1])
    #expect(isCancel(group.next(orPark: "runner")))
    #expect(isLeave(group.next(orPark: "runner")))
  }

  @Test func `an effect about to be cancelled does not rest, unless it waits regardless`() {
    var group = Group()
    for effect in 1...2 { _ = group.add(effect) }
    _ = group.next(orPark: "runner")
    for effect in 0...1 { _ = group.effect(effect, pausesBy: pause(for: .states)) }
    #expect(group.isIdle(.nothingRuns))
    #expect(group.next(orPark: "runner") == nil)
    #expect(isCancel(group.end(cancelling: true).wake?.instruction))
    #expect(!group.isIdle(.nothingRuns))
    #expect(group.isIdle(.nothingRuns, orTells: "waiter").isIdle == false)
    // Cancelling ends a pause, unless the pause ignores cancellation.
    #expect(Array(group.cancelled()) == ["waiter"])
    #expect(group.isIdle(.nothingRuns))
    #expect(isLeave(group.next(orPark: "runner")))
  }

  @Test func `cancelling overtakes finishing, and finishing does not overtake cancelling`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    #expect(group.end(cancelling: false).wake == nil)
    #expect(isCancel(group.end(cancelling: true).wake?.instruction))
    #expect(group.end(cancelling: false).wake == nil)
    #expect(isLeave(group.next(orPark: "runner")))
  }

  @Test(arguments: [false, true])
  func `an ending group takes no more effects`(cancelling: Bool) {
    var group = Group()
    _ = group.add(1)
    _ = group.end(cancelling: cancelling)
    guard case .refused = group.add(2) else {
      Issue.record("taken")
      return
    }
    #expect(started(group.next(orPark: "runner")) == [1])
  }

  @Test func `a group that was never used ends at once`() {
    var group = Group()
    #expect(group.hasEnded(orTells: "a") == false)
    let end = group.end(cancelling: false)
    #expect(end.wake == nil)
    #expect(Array(end.ended) == ["a"])
    guard case .refused = group.add(1) else {
      Issue.record("taken")
      return
    }
    #expect(isCancel(group.next(orPark: "late runner")))
    #expect(isLeave(group.next(orPark: "late runner")))
  }

  @Test(arguments: [false, true])
  func `a waiter for the end of the group can stop waiting, and is not told earlier`(cancelling: Bool) {
    var group = Group()
    for effect in 0..<2 { _ = group.add(effect) }
    _ = group.next(orPark: "runner")
    let (isIdle, number) = group.isIdle(.allEnded, orTells: "a")
    #expect(!isIdle)
    #expect(!group.isIdle(.allEnded, orTells: "b").isIdle)
    #expect(group.effect(0, pausesBy: pause(for: .states)).told.isEmpty)
    #expect(group.effectEnded(1).ended.isEmpty)
    #expect(group.end(cancelling: cancelling).ended.isEmpty)
    #expect(group.forgetIdleWaiter(number) == "a")
    #expect(group.effectEnded(0).ended.isEmpty)
    #expect(Array(group.runnerEnded()) == ["b"])
    #expect(group.isIdle(.allEnded))
  }

  /// A check of a pause may run the user's code, and is made under a lock.
  @Test(arguments: [false, true])
  func `a caller that waits for rest causes few checks of pauses per event, however many effects there are`(
    haveTimeouts: Bool
  ) {
    let count = 2_000
    let looks = Counter()
    func counted() -> RunningEffect.Pause {
      RunningEffect.Pause(for: .states) { _ in
        looks.increment()
        return true
      }
    }
    var group = Group()
    for effect in 0...count { _ = group.add(effect) }
    _ = group.next(orPark: "runner")
    #expect(!group.isIdle(.nothingRuns, orTells: "all").isIdle)
    if haveTimeouts { for _ in 0...count { group.expects(counted()) } }
    // The last effect never rests, so it represents all working effects, wherever the group looks for one.
    #expect(group.effect(count, pausesBy: over()).told.isEmpty)
    for _ in 0..<3 {
      for effect in 0..<count { #expect(group.effect(effect, pausesBy: counted()).told.isEmpty) }
    }
    // One after the other, all except the first continue and wait again.
    var pauses: [RunningEffect.Pause] = []
    for effect in 0..<count {
      let pause = counted()
      pauses.append(pause)
      _ = group.effect(effect, pausesBy: pause)
    }
    #expect(looks.count < 20 * count)
    for pause in pauses.dropFirst() { pause.end() }
    for effect in 1..<count { _ = group.effect(effect, pausesBy: counted()) }
    #expect(looks.count < 40 * count)
    #expect(Array(group.effect(count, pausesBy: counted()).told) == ["all"])
    #expect(looks.count < 50 * count)
  }
}
