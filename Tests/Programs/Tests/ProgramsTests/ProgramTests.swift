import Testing

@testable import Programs

@Suite(.serialized, .timeLimit(.minutes(15))) struct ProgramTests {
  @Test func `random programs keep the contract`() async {
    let base = UInt64.random(in: 1..<1_000_000_000)
    for index in 0..<300 {
      let program = Program(seed: Program.seed(base: base, index: index))
      let failures = Checker.failures(of: await program.run())
      #expect(failures.isEmpty, "program \(index) of seed \(base): \(failures.joined(separator: "; "))")
    }
  }

  @Test func `a planted failure is made as small as it can be`() async {
    var program = Program(seed: 4)
    program.tasks[0].insert(.shutDown(0, finishing: true), at: program.tasks[0].count / 2)
    let smallest = await Shrinker.shrink(program) { program in
      program.tasks.joined().contains { if case .shutDown(0, _) = $0 { true } else { false } }
    }
    #expect(smallest.tasks == [[.shutDown(0, finishing: false)]])
    #expect(smallest.stores == [StoreSpec()])
    #expect(smallest.interceptor == nil)
  }

  @Test func `a program keeps failing while it is made smaller`() async {
    // As if all commits given to store 1 were lost.
    let lossy: (Program) async -> Bool = { program in
      var recorded = await program.run()
      recorded.commits.removeAll { $0.store == 1 }
      return Checker.failures(of: recorded).contains { $0.hasPrefix("G9") }
    }
    var program = Program()
    program.stores = [StoreSpec(), StoreSpec(parent: 0), StoreSpec(parent: 1)]
    program.stores[2].middleware = [.passing]
    program.tasks = [
      [.state(Via(0)), .dispatch(Via(1), ActionSpec(.number(3))), .yield], [.statistics, .send(Via(2), ActionSpec())],
    ]
    #expect(await lossy(program))
    let smallest = await Shrinker.shrink(program, fails: lossy)
    #expect(smallest.stores.count == 2)
    #expect(smallest.tasks.joined().count == 1)
  }

  @Test func `removing a store moves those behind it`() {
    var program = Program()
    program.stores = [StoreSpec(), StoreSpec(parent: 0), StoreSpec(parent: 0)]
    program.tasks = [[.state(Via(1)), .state(Via(2))]]
    let smaller = program.simplifications.compactMap { $0() }.first {
      $0.stores.count == 2 && $0.tasks == [[.state(Via(1))]]
    }
    #expect(smaller != nil)
  }
}
