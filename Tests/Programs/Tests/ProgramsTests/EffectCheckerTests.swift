import Testing

@testable import Programs

/// A program that gives its root one action twice. The action's effect sleeps, then dispatches another action.
private func program(
  _ policy: EffectProgram.Policy, steps: [EffectProgram.Step] = [.give([.init(0, to: 0)]), .give([.init(0, to: 0)])]
) -> EffectProgram {
  var program = EffectProgram()
  let work = EffectProgram.Work([.sleep(1_000_003), .dispatch(1), .sleep(2_000_030)])
  program.actions = [EffectProgram.Deed(orders: [.init(.begin(work, id: .zero, policy))]), EffectProgram.Deed()]
  program.steps = []
  for step in steps { program.steps += [step, .advance(100_001)] }
  return program
}

private func failures(_ program: EffectProgram, _ change: (inout [EffectPhase]) -> Void = { _ in }) -> [String] {
  let expected = EffectModel(program).phases
  var actual = expected
  for number in actual.indices { actual[number].maybe = [] }
  change(&actual)
  return EffectChecker.failures(expected: expected, actual: actual, isCarrying: false)
}

@Suite struct EffectCheckerTests {
  private static let policies: [EffectProgram.Policy] = [
    .latest, .first, .inTurn(1), .concurrent(2), .debounced(500_000), .throttled(5_000_000, latest: true),
    .throttled(5_000_000, latest: false), .newest(2),
  ]

  @Test(arguments: policies) func `a correct run is accepted`(policy: EffectProgram.Policy) async {
    #expect(failures(program(policy)) == [])
  }

  @Test(arguments: policies) func `each wrong run is detected`(policy: EffectProgram.Policy) {
    let right = program(policy)
    let phases = EffectModel(right).phases
    for number in phases.indices {
      #expect(
        !failures(right) { $0[number].commits.append(EffectCommit(store: 0, action: 1, cause: .atEnd(0), carried: 0)) }
          .isEmpty)
      #expect(!failures(right) { $0[number].entries[.order(9, 9)] = 1 }.isEmpty)
      #expect(!failures(right) { $0[number].live.insert(.order(9, 9)) }.isEmpty)
      #expect(!failures(right) { $0[number].failed.append(.order(1, 0)) }.isEmpty)
      #expect(!failures(right) { $0[number].turnedAway += 1 }.isEmpty)
      if phases[number].doing != .shutDown(0) { #expect(!failures(right) { $0[number].count += 1 }.isEmpty) }
      if !phases[number].commits.isEmpty {
        #expect(!failures(right) { $0[number].commits.removeLast() }.isEmpty)
        #expect(!failures(right) { $0[number].commits[0].carried = 77 }.isEmpty)
      }
      for key in phases[number].entries.keys {
        #expect(!failures(right) { $0[number].entries[key] = nil }.isEmpty)
        #expect(!failures(right) { $0[number].carried[key] = 5 }.isEmpty)
      }
      for key in phases[number].live { #expect(!failures(right) { $0[number].live.remove(key) }.isEmpty) }
      if !phases[number].answers.isEmpty { #expect(!failures(right) { $0[number].answers[0].toggle() }.isEmpty) }
    }
    #expect(!failures(right) { $0.removeLast() }.isEmpty)
  }

  /// The works that are entered, in order, by the commit that began each.
  private func entered(_ program: EffectProgram) -> [Int] {
    EffectModel(program).phases.flatMap { phase in
      phase.entries.keys.sorted().compactMap { if case .order(let position, _) = $0 { position } else { nil } }
    }
  }

  @Test func `the model distinguishes the policies`() {
    let give = EffectProgram.Step.give([.init(0, to: 0)])
    func entered(_ policy: EffectProgram.Policy, _ count: Int) -> [Int] {
      self.entered(program(policy, steps: Array(repeating: give, count: count)))
    }
    #expect(entered(.latest, 3) == [1, 2, 3])
    #expect(entered(.first, 3) == [1])
    #expect(entered(.inTurn(1), 3) == [1, 2])
    #expect(entered(.concurrent(2), 3) == [1, 2, 3])
    #expect(entered(.debounced(500_000), 3) == [3])
    #expect(entered(.throttled(500_000, latest: true), 3) == [1, 3])
    #expect(entered(.throttled(500_000, latest: false), 3) == [1])
    #expect(entered(.newest(2), 3) == [1, 2, 3])
  }

  @Test func `a run is as the model predicts`() async {
    for policy in Self.policies {
      #expect(await program(policy).run().failures == [])
    }
  }
}

@Suite struct DirectoryCheckerTests {
  private func failures(_ events: [DirectoryEvent.What]) -> [String] {
    DirectoryChecker.failures(of: events.enumerated().map { DirectoryEvent(what: $1, begin: 2 * $0, end: 2 * $0 + 1) })
  }

  private let right: [DirectoryEvent.What] = [
    .making(key: 0, 0), .used(key: 0), .sent(0, count: 1), .sent(0, count: 2), .endBegan(0), .notSent(0), .ended(0),
    .making(key: 0, nil), .makerFailed(key: 0), .making(key: 0, 1), .shutdownBegan, .terminated(key: 0), .shutDown,
    .terminated(key: 1),
  ]

  @Test func `a correct record is accepted`() { #expect(failures(right) == []) }

  @Test func `each wrong record is detected`() {
    #expect(!failures([.twoStores(key: 0, 0)]).isEmpty)
    #expect(!failures([.stillAtWork(0)]).isEmpty)
    #expect(!failures([.kept(1)]).isEmpty)
    #expect(!failures([.cutOff(0)]).isEmpty)
    #expect(!failures([.makerFailed(key: 0)] + right).isEmpty)
    #expect(!failures([.terminated(key: 0)] + right).isEmpty)
    #expect(!failures([.notSent(0)] + right).isEmpty)
    #expect(!failures([.refused(key: 0, "", mayBeCycle: false)]).isEmpty)
    #expect(!failures(right + [.used(key: 0)]).isEmpty)
    #expect(!failures(right + [.sent(1, count: 1)]).isEmpty)
    #expect(!failures([.sent(0, count: 1), .sent(0, count: 1)]).isEmpty)
    #expect(
      !DirectoryChecker.failures(of: [
        DirectoryEvent(what: .making(key: 0, 0), begin: 1, end: 4),
        DirectoryEvent(what: .making(key: 0, 1), begin: 2, end: 3),
      ]).isEmpty)
  }
}

@Suite struct EffectRecordCheckerTests {
  /// A correct record of a program whose root is given action 0, with effects under one id that dispatch.
  private func failures(
    _ policy: EffectProgram.Policy, works: [(position: Int, entered: Int, left: Int)], count: Int? = 0,
    dispatching: (by: Int, as: Int)? = nil
  ) -> [String] {
    var program = EffectProgram()
    program.actions = [
      EffectProgram.Deed(orders: [.init(.begin(.init([.sleep(1), .dispatch(1)]), id: .zero, policy))]),
      EffectProgram.Deed(),
    ]
    program.tasks = 1
    var record = EffectRecord()
    record.count = count
    for position in 1...2 {
      let commit = EffectCommit(store: 0, action: 0, cause: .driver(step: position, gift: 0), carried: 0)
      record.commits.append((commit, 10 * position))
    }
    if let dispatching {
      let cause = EffectCause.effect(.order(dispatching.by, 0), attempt: 0, place: 1)
      record.commits.insert(
        (EffectCommit(store: 0, action: 1, cause: cause, carried: 0), 10 * dispatching.as - 5), at: dispatching.as - 1)
    }
    record.works = works.map { EffectRecord.Work(key: .order($0.position, 0), entered: $0.entered, left: $0.left) }
    return EffectRecordChecker.failures(of: record, program)
  }

  @Test func `a correct record is accepted`() {
    for policy in [EffectProgram.Policy.concurrent(2), .throttled(5, latest: true), .newest(2), .latest] {
      #expect(failures(policy, works: [(1, 12, 35), (2, 22, 32)]) == [])
    }
    for policy in [EffectProgram.Policy.inTurn(1), .concurrent(1), .latest] {
      #expect(failures(policy, works: [(1, 12, 25), (2, 32, 35)]) == [])
    }
    #expect(failures(.first, works: [(1, 12, 35)]) == [])
    #expect(failures(.latest, works: [(2, 32, 35)]) == [])
    #expect(failures(.concurrent(2), works: [(1, 12, 35), (2, 22, 32)], dispatching: (by: 1, as: 3)) == [])
  }

  @Test func `two effects at a time are detected`() {
    for policy in [EffectProgram.Policy.inTurn(1), .concurrent(1)] {
      #expect(!failures(policy, works: [(1, 12, 35), (2, 22, 32)]).isEmpty)
    }
  }

  @Test func `an effect that is never entered is detected`() {
    for policy in [EffectProgram.Policy.inTurn(1), .concurrent(1), .latest, .debounced(5)] {
      #expect(!failures(policy, works: [(1, 12, 15)]).isEmpty)
    }
  }

  @Test func `work without an effect is detected`() {
    #expect(!failures(.latest, works: [(1, 12, 15), (2, 22, 25), (7, 32, 35)]).isEmpty)
  }

  @Test func `an action dispatched by a cancelled effect is detected`() {
    #expect(!failures(.latest, works: [(1, 12, 35), (2, 22, 32)], dispatching: (by: 1, as: 3)).isEmpty)
    #expect(failures(.latest, works: [(1, 12, 35), (2, 22, 32)], dispatching: (by: 2, as: 3)) == [])
  }
}
