import Testing

@testable import Programs

@Suite struct ModelTests {
  @Test func `an action is reduced by its store and those above it`() {
    var program = Program()
    program.stores = [StoreSpec(), StoreSpec(parent: 0), StoreSpec(parent: 1), StoreSpec(parent: 0)]
    let commits = [2, 1, 0, 3].enumerated().map { Action(given: $0.offset, store: $0.element, spec: ActionSpec()) }
    let model = Model(program, commits: commits)
    #expect(program.stores.indices.map { model.ledger(of: $0, after: 4).count } == [4, 2, 1, 1])
    #expect(model.state(of: 2, after: 2).ledgers.map(\.count) == [2, 2, 1])
  }

  @Test func `the chain shows the order`() {
    let actions = (1...2).map { Action(given: $0, store: 0, spec: ActionSpec()) }
    var (forth, back) = (Ledger(store: 0), Ledger(store: 0))
    for action in actions { forth.reduce(action) }
    for action in actions.reversed() { back.reduce(action) }
    #expect(forth != back)
  }

  @Test func `middleware passes on, replaces, doubles and stops, from the inside out`() {
    let action = Action(given: 1, store: 0, spec: ActionSpec(rule: 3))
    #expect([MiddlewareRule.passing, .logging](action).committed.map(\.copy) == [0])
    #expect([MiddlewareRule.doubling(3), .replacing(3)](action).committed.map(\.copy) == [9, 13])
    #expect([MiddlewareRule.doubling(3), .rejecting(3)](action).committed.isEmpty)
    #expect([MiddlewareRule.rejecting(3)](action).reason == MiddlewareRule.reason)
    #expect([MiddlewareRule.rejecting(2)](action).committed.count == 1)
  }

  @Test func `a seed makes the same program each time, and another seed another one`() {
    for seed in 0..<50 as Range<UInt64> {
      #expect(Program(seed: seed) == Program(seed: seed))
      #expect(Program(seed: seed) != Program(seed: seed + 1))
    }
  }

  @Test func `an excluded feature is in no program`() {
    for seed in 0..<300 as Range<UInt64> {
      let program = Program(seed: seed, features: Features.all.subtracting([.observers, .interceptors, .middleware]))
      #expect(program.interceptor == nil)
      #expect(program.stores.allSatisfy { $0.middleware.isEmpty })
      for case .observe in program.tasks.joined() { Issue.record("seed \(seed)") }
    }
  }
}
