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

  @Test func `the first effect spawns the runner, which starts all that was added, in order`() {
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

  @Test func `the end of an effect wakes nobody while the group is open`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    #expect(group.effectEnded() == nil)
    #expect(group.running == 0)
  }

  @Test func `finishing, the runner leaves when the last effect has ended`() {
    var group = Group()
    _ = group.add(1)
    _ = group.add(2)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    #expect(group.end(cancelling: false).wake == nil)
    #expect(group.effectEnded() == nil)
    #expect(isLeave(group.effectEnded()?.instruction))
    #expect(group.hasEnded(orTells: "a") == false)
    #expect(Array(group.runnerEnded()) == ["a"])
    #expect(group.hasEnded(orTells: "b") == true)
  }

  @Test func `finishing with nothing running, the runner leaves at once`() {
    var group = Group()
    _ = group.add(1)
    _ = group.next(orPark: "runner")
    #expect(group.next(orPark: "runner") == nil)
    _ = group.effectEnded()
    #expect(isLeave(group.end(cancelling: false).wake?.instruction))
  }

  @Test func `cancelling, what was added is started, then all is cancelled, then the runner leaves`() {
    var group = Group()
    _ = group.add(1)
    _ = group.end(cancelling: true)
    #expect(started(group.next(orPark: "runner")) == [1])
    #expect(isCancel(group.next(orPark: "runner")))
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
  func `an ending group takes nothing more`(cancelling: Bool) {
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
}
