import Puredux
import PureduxTestSupport
import Testing

private typealias Decide = Interceptor<Snapshot, Int>

private struct Mishap: Error, Equatable {}

/// Effects are decided in commit order, with the state of the commit. Their ids determine how they affect each other.
@Suite(.timeLimit(.minutes(15))) struct G8Effects {
  /// The store's states after these actions, up to the commit of the last one.
  private func states(_ subject: Subject, until last: Int) -> Task<[Int], Never> {
    let states = subject.states()
    return Task { await states.collect(until: { $0.root.last == last }).dropFirst().map(\.root.last) }
  }

  @Test(arguments: Kind.allCases)
  func `an effect is decided with the state right after its commit`(kind: Kind) async throws {
    let seen = Record<[Int]>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, context in
        seen.add([action, context.state.root.last, context.state.root.count, context.position])
        return nil
      })
    for action in 1...200 { subject.store.dispatch(action) }
    try await subject.store.send(201)
    #expect(seen.all == (1...201).map { [$0, $0, $0, $0] })
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `an effect can use a value from before the commit`(kind: Kind) async throws {
    let seen = Record<[Int]>()
    let subject = Subject(
      kind,
      interceptors: .effects(before: \.root.count) { action, before, context in
        seen.add([action, before, context.state.root.count])
        return nil
      })
    for action in 1...3 { try await subject.store.send(action) }
    #expect(seen.all == [[1, 0, 1], [2, 1, 2], [3, 2, 3]])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `the latest effect cancels the earlier ones, which dispatch nothing more`(kind: Kind) async throws {
    let (started, cancelled) = (Gate(), Gate())
    let answers = Record<DispatchResult>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action < 100 else { return nil }
        return .run { dispatch in
          if action == 1 {
            started.open()
            await untilCancelled()
            answers.add(dispatch(101))
            cancelled.open()
          } else {
            await cancelled.wait()
            dispatch(102)
          }
        }.id("a")
      })
    let states = states(subject, until: 102)
    subject.store.dispatch(1)
    await started.wait()
    subject.store.dispatch(2)
    #expect(await states.value == [1, 2, 102])
    #expect(answers.all == [.terminated])
    await subject.root.shutdown()
  }

  /// The effect's actions were accepted before the commit of the action that cancels it, but their place is after that
  /// action.
  @Test(arguments: Kind.inMemory, [false, true])
  func `nothing of an effect is committed from the commit on that cancels it, by its id or by the state`(
    kind: Kind, isOfState: Bool
  ) async throws {
    let (mayDispatch, dispatched) = (Gate(), Gate())
    let executor = HeldExecutor()
    let answers = Record<DispatchResult>()
    let effect = Effect<Int>.run { dispatch in
      dispatch(51)
      await mayDispatch.wait()
      answers.add(dispatch(53))
      dispatched.open()
    }
    let byID = Decide.effects { action, _ in
      switch action {
      case 1: effect.id("a")
      case 2: .cancel("a")
      default: nil
      }
    }
    let subject = Subject(kind, executor: .serial(executor), interceptors: isOfState ? nil : byID)
    if isOfState { subject.store.subscribe(effect: .while({ $0.root.last % 2 == 1 }) { effect }) }
    let states = states(subject, until: 4)
    let sequence = subject.states()
    subject.store.dispatch(1)
    _ = await sequence.collect(until: { $0.root.last == 51 })
    executor.hold()
    subject.store.dispatch(2)
    mayDispatch.open()
    await dispatched.wait()
    subject.store.dispatch(4)
    executor.letGo()
    #expect(await states.value == [1, 51, 2, 4])
    #expect(answers.all == [.enqueued])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `while the first effect runs, later ones are dropped`(kind: Kind) async throws {
    let (started, mayEnd) = (Record<Int>(), Gate())
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        .run { _ in
          started.add(action)
          await mayEnd.wait()
        }.id(1, .first)
      })
    for action in 1...10 { try await subject.store.send(action) }
    #expect(await subject.root.statistics.effects == ["1": 1])
    mayEnd.open()
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(started.all == [1])
  }

  @Test(arguments: Kind.allCases)
  func `effects in turn run one after the other, and one beyond the limit is reported`(kind: Kind) async throws {
    let (done, reports) = (Record<Int>(), Record<String>())
    let gates = (0...4).map { _ in Gate() }
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action <= 4 else { return nil }
        return .run { dispatch in
          await gates[action].wait()
          done.add(action)
          dispatch(action + 100)
        }.id("turn", .inTurn(limit: 2))
      }, reporting: { reports.add("\($0)") })
    for action in 1...4 { try await subject.store.send(action) }
    #expect(await subject.root.statistics.effects == ["turn": 3])
    let states = states(subject, until: 103)
    for number in [3, 2, 1] { gates[number].open() }
    #expect(await states.value == [101, 102, 103])
    #expect(done.all == [1, 2, 3])
    #expect(reports.all.count == 1)
    #expect(reports.all.first?.contains("\"turn\"") == true)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `at most a limited number of effects run at a time`(kind: Kind) async throws {
    let running = Record<Int>()
    let gates = (0...4).map { _ in Gate() }
    let begun = (0...4).map { _ in Gate() }
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        .run { _ in
          running.add(action)
          begun[action].open()
          await gates[action].wait()
        }.id("few", .concurrent(limit: 2))
      })
    for action in 1...4 { try await subject.store.send(action) }
    await begun[1].wait()
    await begun[2].wait()
    #expect(Set(running.all) == [1, 2])
    gates[2].open()
    await begun[3].wait()
    #expect(Set(running.all) == [1, 2, 3])
    for gate in gates { gate.open() }
    await begun[4].wait()
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
  }

  @Test(arguments: Kind.allCases)
  func `of debounced effects the last one runs, after a pause`(kind: Kind) async throws {
    let clock = ManualClock()
    let ran = Record<Int>()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        guard action <= 1000 else { return nil }
        return .run { dispatch in
          ran.add(action)
          dispatch(action + 1000)
        }.id("search", .debounced(for: .seconds(3)))
      })
    let states = states(subject, until: 2000)
    for action in 1..<1000 { try await subject.store.send(action) }
    await clock.untilAsleep(1)
    #expect(await subject.root.statistics.runningTasks == 1)
    clock.advance(by: .seconds(2))
    try await subject.store.send(1000)
    // The timer wakes, notices the later action, and sleeps again.
    clock.advance(by: .seconds(1))
    await clock.untilAsleep(1)
    #expect(ran.all.isEmpty)
    clock.advance(by: .seconds(2))
    #expect(await states.value == Array(1...1000) + [2000])
    #expect(ran.all == [1000])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `of throttled effects the first runs, and then the last of each window`(kind: Kind) async throws {
    let clock = ManualClock()
    let ran = Record<Int>()
    let done = (0...20).map { _ in Gate() }
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        .run { _ in
          ran.add(action)
          done[action].open()
        }.id("save", .throttled(for: .seconds(10)))
      })
    for action in 1...5 { try await subject.store.send(action) }
    await done[1].wait()
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(10))
    await done[5].wait()
    try await subject.store.send(6)
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(10))
    await done[6].wait()
    clock.advance(by: .seconds(10))
    try await subject.store.send(7)
    await done[7].wait()
    #expect(ran.all == [1, 5, 6, 7])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `a delay can be cancelled, and the end of the store cancels it`(kind: Kind) async throws {
    let clock = ManualClock()
    let ran = Record<Int>()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        switch action {
        case 1, 2: .run { _ in ran.add(action) }.after(.seconds(action)).id(action)
        case 3: .cancel(1)
        default: .run { _ in ran.add(action) }.after(.seconds(100))
        }
      })
    for action in 1...2 { try await subject.store.send(action) }
    await clock.untilAsleep(2)
    try await subject.store.send(3)
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(2))
    await clock.untilAsleep(0)
    try await subject.store.send(4)
    await clock.untilAsleep(1)
    await subject.root.shutdown()
    #expect(ran.all == [2])
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `work that throws is retried, and then followed by an action or a report`(kind: Kind, isCaught: Bool)
    async throws
  {
    let clock = ManualClock()
    let (begun, reports) = (Record<Int>(), Record<EffectReport>())
    let reported = Gate()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        let effect = Effect<Int>.run { _ in
          begun.add(action)
          throw Mishap()
        }.retried(.exponential(from: .seconds(1), upTo: .seconds(3), attempts: 4)).id("work")
        return isCaught ? effect.catching { $0 is Mishap ? 99 : nil } : effect
      },
      reporting: { report in
        reports.add(report)
        reported.open()
      })
    let states = states(subject, until: 99)
    try await subject.store.send(1)
    for (number, delay) in [1, 2, 3].enumerated() {
      await clock.untilAsleep(1)
      #expect(begun.all.count == number + 1)
      clock.advance(by: .seconds(delay))
      await clock.untilAsleep(0)
    }
    if !isCaught {
      await reported.wait()
      try await subject.store.send(99)
    }
    #expect(await states.value == [1, 99])
    #expect(begun.all.count == 4)
    #expect(reports.all.count == (isCaught ? 0 : 1))
    if let report = reports.all.first {
      guard case .failed(let error) = report.reason else {
        Issue.record("\(report)")
        return
      }
      #expect(error as? Mishap == Mishap())
      #expect(report.effect == "work")
    }
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.children)
  func `the interceptors on the path are called once each, the lowest first, with their own state`(kind: Kind)
    async throws
  {
    let asked = Record<String>()
    @Sendable func asking(_ name: String) -> Decide {
      .effects(before: \.root.count) { action, before, context in
        asked.add("\(name) \(action): \(before) \(context.state.root.count) \(context.state.locals.map(\.count))")
        return nil
      }
    }
    let subject = Subject(.rootActor, interceptors: asking("root"))
    let child = subject.root.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, interceptors: asking("child"),
      middleware: kind.isAttended ? [.passingOn] : [], reducer: { $0.enter($1) })
    let grandchild = child.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, interceptors: asking("grandchild"),
      history: kind.isAttended ? History(limit: 2) : nil, reducer: { $0.enter($1) })
    let sibling = child.ledgerChild()
    try await subject.root.send(1)
    try await child.send(2)
    try await grandchild.send(3)
    try await sibling.send(4)
    #expect(
      asked.all == [
        "root 1: 0 1 []", "child 2: 1 2 [1]", "root 2: 1 2 []",
        "grandchild 3: 2 3 [2, 1]", "child 3: 2 3 [2]", "root 3: 2 3 []", "child 4: 3 4 [3]", "root 4: 3 4 []",
      ])
  }

  @Test func `the ids of two stores never meet`() async throws {
    let (cancelled, started) = (Record<Int>(), (0...3).map { _ in Gate() })
    let cancellation = Gate()
    let subject = Subject(
      .rootActor,
      interceptors: .effects { action, _ in
        if action == 9 { return .cancel("a") }
        return .run { _ in
          started[action].open()
          await untilCancelled()
          cancelled.add(action)
          cancellation.open()
        }.id("a")
      })
    let children = [subject.root.ledgerChild(), subject.root.ledgerChild()]
    try await subject.root.send(1)
    try await children[0].send(2)
    try await children[1].send(3)
    for gate in started.dropFirst() { await gate.wait() }
    #expect(await subject.root.statistics.effects == ["a": 3])
    try await children[0].send(9)
    await cancellation.wait()
    #expect(cancelled.all == [2])
    #expect(await subject.root.statistics.effects == ["a": 2])
    // If they were released earlier, the second would have ended with its effect.
    withExtendedLifetime(children) {}
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `a stopped clock delays no shutdown`(kind: Kind) async throws {
    let clock = ManualClock()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, _ in
        switch action {
        case 1: .run { _ in }.after(.seconds(1))
        case 2: .run { _ in }.id(2, .debounced(for: .seconds(1)))
        case 3: .run { _ in throw Mishap() }.retried(.constant(.seconds(1), attempts: 3)).id(3)
        default:
          .all(.run { _ in }.after(.seconds(Int64.max)), .run { _ in }.id(4, .debounced(for: .seconds(Int64.max))))
        }
      })
    for action in 1...4 { try await subject.store.send(action) }
    await clock.untilAsleep(5)
    await subject.root.shutdown()
  }

  /// Each effect causes the next one: by its own dispatch, by a proxy, and by `send`.
  @Test(arguments: Kind.allCases)
  func `actions of a finishing store's own effects are committed, and have effects`(kind: Kind) async throws {
    let (started, mayGoOn) = (Gate(), Gate())
    let proxies = Record<Store<Snapshot, Int>>()
    let answers = Record<DispatchResult>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action < 30 else { return nil }
        return .run { dispatch in
          if action == 1 {
            started.open()
            await mayGoOn.wait()
          }
          switch action % 3 {
          case 0: answers.add(dispatch(action + 1))
          case 1: answers.add(proxies.all[0].dispatch(action + 1))
          default: try await proxies.all[0].send(action + 1)
          }
        }.id(action % 2, .inTurn())
      }, reporting: { Issue.record("\($0)") })
    proxies.add(subject.store.store())
    let states = subject.states()
    subject.store.dispatch(1)
    await started.wait()
    let isClosed = Gate()
    let clock = ManualClock()
    let end = Task {
      await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: clock)
      isClosed.open()
    }
    await clock.untilAsleep(1)
    #expect(subject.store.dispatch(100) == .terminated)
    await #expect(throws: StoreError.terminated) { try await subject.store.send(101) }
    mayGoOn.open()
    await end.value
    #expect(await states.collect() == subject.expectedStates(during: Array(1...30)))
    #expect(answers.all.allSatisfy { $0 == .enqueued })
    #expect(subject.store.dispatch(102) == .terminated)
  }

  @Test(arguments: Kind.allCases)
  func `an endless effect is cancelled at the limit of finishing, and its actions are committed until then`(kind: Kind)
    async throws
  {
    let clock = ManualClock()
    let answers = Record<DispatchResult>()
    let tenth = Gate()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        .run { dispatch in
          if action == 10 { tenth.open() }
          let answer = dispatch(action + 1)
          if answer != .enqueued { answers.add(answer) }
        }
      })
    let states = subject.states()
    subject.store.dispatch(1)
    let end = Task { await subject.root.shutdown(interceptors: .finish(within: .seconds(1)), clock: clock) }
    await tenth.wait()
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(1))
    await end.value
    let seen = await states.collect().dropFirst().map(\.root.last)
    #expect(seen.count >= 10)
    #expect(seen == Array(1...seen.count))
  }

  @Test(arguments: Kind.children)
  func `a finishing child commits actions of its own effects, and of no others`(kind: Kind) async throws {
    let (started, mayGoOn) = ([Gate(), Gate()], Gate())
    let answers = Record<String>()
    let subject = Subject(
      .rootActor,
      interceptors: .effects { action, _ in
        guard action < 10 else { return nil }
        return .run { dispatch in
          started[action].open()
          await mayGoOn.wait()
          answers.add("\(action): \(dispatch(action + 10))")
        }
      })
    let child = kind.isAttended ? subject.root.attendedChild() : subject.root.ledgerChild()
    let grandchild = child.ledgerChild()
    let sequences = [child, grandchild].map { $0.states() }
    grandchild.dispatch(0)
    subject.root.dispatch(1)
    for gate in started { await gate.wait() }
    let clock = ManualClock()
    let end = Task { await child.shutdown(interceptors: .finish(within: .seconds(60)), clock: clock) }
    await clock.untilAsleep(1)
    #expect(child.dispatch(5) == .terminated)
    #expect(grandchild.dispatch(5) == .terminated)
    mayGoOn.open()
    await end.value
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(answers.all.sorted() == ["0: enqueued", "1: enqueued"])
    for states in sequences { #expect(await states.collect().last?.locals.first?.last == 10) }
  }

  @Test(arguments: Kind.children, ["released", "shut down", "finished", "shut down and released"])
  func `a child may have a last action, given once at its end`(kind: Kind, way: String) async throws {
    let subject = Subject(.rootActor)
    let parent = kind.isAttended ? subject.root.attendedChild() : subject.root.ledgerChild()
    var child: StateStore<Snapshot, Int>? = parent.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, middleware: kind.isAttended ? [.passingOn] : [], atEnd: 99,
      reducer: { $0.enter($1) })
    let (states, above) = (child?.states(), parent.states())
    child?.dispatch(1)
    switch way {
    case "released": break
    case "finished": await child?.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    default: await child?.shutdown()
    }
    let proxy = child?.store()
    if way != "finished" { child = nil }
    let ledgers = [0, 1, 99].enumerated().map { Ledger(count: $0, last: $1) }
    #expect(await states?.collect() == ledgers.map { Snapshot(root: $0, locals: [$0, $0]) })
    #expect(proxy?.dispatch(2) == .terminated)
    subject.root.dispatch(3)
    #expect(await above.collect(until: { $0.root.last == 3 }).map(\.root.last) == [0, 1, 99, 3])
    #expect(await parent.state.locals == [ledgers[2]])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.children)
  func `a child that ends with a store above it is given nothing`(kind: Kind) async throws {
    let seen = Record<Int>()
    let subject = Subject(.rootActor, reducing: { seen.add($0) })
    let parent = kind.isAttended ? subject.root.attendedChild() : subject.root.ledgerChild()
    var child: StateStore<Snapshot, Int>? = parent.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, atEnd: 99, reducer: { $0.enter($1) })
    try await child?.send(1)
    await parent.shutdown()
    child = nil
    try await subject.root.send(2)
    #expect(seen.all == [1, 2])
  }

  /// Each effect dispatches the next one's action and ends at once, so that at times no effect works while an action
  /// waits.
  @Test(arguments: Kind.allCases, [false, true])
  func `a chain of brief effects comes to its end while the store finishes`(kind: Kind, isInTurn: Bool) async throws {
    for length in [10, 300] {
      let subject = Subject(
        kind,
        interceptors: .effects { action, _ in
          guard action < length else { return nil }
          let effect = Effect<Int>.run { $0(action + 1) }
          return isInTurn ? effect.id("turn", .inTurn()) : effect
        })
      let states = subject.states()
      subject.store.dispatch(1)
      await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
      #expect(await states.collect() == subject.expectedStates(during: Array(1...length)))
    }
  }

  @Test(arguments: Kind.allCases)
  func `all effects that wait their turn run while the store finishes`(kind: Kind) async throws {
    let count = 60
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        action <= count ? .run { $0(action + count) }.id("turn", .inTurn()) : nil
      })
    let states = subject.states()
    for action in 1...count { subject.store.dispatch(action) }
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    let seen = await states.collect().map(\.root.last)
    #expect(seen.filter { $0 > count } == Array(count + 1...2 * count))
  }

  /// The shutdown does not await an effect that waits for a state, but awaits one that works on a state.
  @Test(arguments: Kind.allCases, [false, true])
  func `an effect that follows its store is awaited only while it works`(kind: Kind, isWorking: Bool) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let (follows, mayGoOn) = (Gate(), Gate())
    let answers = Record<DispatchResult>()
    let clock = ManualClock()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action == 1 else { return nil }
        return .run { dispatch in
          for await state in proxies.all[0].states() {
            follows.open()
            if !isWorking { continue }
            await mayGoOn.wait()
            if state.root.last == 1 { answers.add(dispatch(2)) }
          }
          answers.add(dispatch(3))
        }
      })
    proxies.add(subject.store.store())
    let states = subject.states()
    subject.store.dispatch(1)
    await follows.wait()
    let end = Task { await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: clock) }
    await clock.untilAsleep(1)
    mayGoOn.open()
    await end.value
    #expect(answers.all == (isWorking ? [.enqueued, .terminated] : [.terminated]))
    #expect(await states.collect().map(\.root.last) == (isWorking ? [0, 1, 2] : [0, 1]))
  }

  /// Two effects shut the store down, and cannot wait for each other.
  @Test(arguments: Kind.allCases)
  func `of several effects that finish their own store, one waits for the rest`(kind: Kind) async throws {
    let proxies = Record<RootStore<Snapshot, Int>>()
    let (started, mayGoOn, isDone) = (Gate(), Gate(), Gate())
    let answers = Record<DispatchResult>()
    let stopped = [Gate(), Gate()]
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        switch action {
        case 1:
          .run { dispatch in
            started.open()
            await mayGoOn.wait()
            answers.add(dispatch(9))
            isDone.open()
          }
        case 2, 3:
          .run { _ in
            stopped[action - 2].open()
            await proxies.all[0].shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
          }
        default: nil
        }
      })
    proxies.add(subject.root)
    for action in 1...3 { subject.store.dispatch(action) }
    await started.wait()
    for gate in stopped { await gate.wait() }
    mayGoOn.open()
    await isDone.wait()
    #expect(answers.all == [.enqueued])
    await subject.root.shutdown()
  }

  @Test(arguments: ["shut down", "released", "finished"])
  func `a child that was released before the root has ended is given its last action`(way: String) async throws {
    for _ in 0..<50 {
      let seen = Record<Int>()
      let executor = HeldExecutor()
      var root: RootStore<Int, Int>? = RootStore(initialState: 0, options: StoreOptions(executor: .serial(executor))) {
        _, action in
        seen.add(action)
      }
      var child = root?.childStore(initialState: 0, atEnd: 99) { _, _ in }
      let end = try #require(root?.states())
      executor.hold()
      child?.dispatch(1)
      child = nil
      _ = child
      let task = Task { [root] in
        switch way {
        case "shut down": await root?.shutdown()
        case "finished": await root?.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
        default: break
        }
      }
      root = nil
      executor.letGo()
      await task.value
      _ = await end.collect()
      #expect(seen.all == [1, 99])
    }
  }

  /// The child's last action has an effect, and the child finishes: the effect's actions are committed.
  @Test func `the effect of a last action is awaited if the child finishes`() async throws {
    let answers = Record<DispatchResult>()
    let subject = Subject(
      .rootActor,
      interceptors: .effects { action, _ in action == 99 ? .run { answers.add($0(100)) } : nil })
    let child = subject.root.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, atEnd: 99, reducer: { $0.enter($1) })
    await child.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(answers.all == [.enqueued])
    #expect(await subject.root.state.root == Ledger(count: 2, last: 100))
  }

  /// No effect has run in the tree before the last action's.
  @Test(arguments: Kind.allCases)
  func `the effect of a last action is awaited, though it is the first of its tree`(kind: Kind) async throws {
    let ended = Record<Int>()
    let subject = Subject(
      kind,
      interceptors: .effects { action, _ in
        guard action == 99 else { return nil }
        return .run { _ in
          for _ in 0..<1_000 { await Task.yield() }
          ended.add(action)
        }
      })
    let child = subject.root.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, atEnd: 99, reducer: { $0.enter($1) })
    await child.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(ended.all == [99])
    await subject.root.shutdown()
  }

  /// An effect that cancels another one of the same commit, before it begins.
  enum Canceller: CaseIterable, Sendable {
    case cancellation, latest, newest, debounced

    func effect(_ begun: Record<Int>) -> Effect<Int> {
      let effect = Effect<Int>.run { _ in begun.add(2) }
      return switch self {
      case .cancellation: .cancel("x")
      case .latest: effect.id("x")
      case .newest: effect.id("x", .newest(limit: 1))
      case .debounced: effect.id("x", .debounced(for: .zero))
      }
    }
  }

  /// The canceller belongs to the same interceptor, or to the next one on the path.
  @Test(arguments: Kind.inMemory, Canceller.allCases)
  func `an effect that its own commit cancels does not begin`(kind: Kind, canceller: Canceller) async throws {
    for isAbove in [false, true] {
      let begun = Record<Int>()
      let first = Decide.effects { _, _ in .run { _ in begun.add(1) }.id("x") }
      let second = Decide.effects { _, _ in canceller.effect(begun) }
      let subject = Subject(kind)
      if isAbove, let child = subject.children.last {
        child.interceptActions(with: first)
        subject.root.interceptActions(with: second)
      } else if isAbove {
        subject.root.interceptActions(with: Decide(combining: [first, second]))
      } else {
        subject.root.interceptActions(
          with: .effects { _, _ in .all(.run { _ in begun.add(1) }.id("x"), canceller.effect(begun)) })
      }
      for action in 1...200 { try await subject.store.send(action) }
      await subject.root.settled()
      #expect(begun.all.allSatisfy { $0 == 2 }, "\(begun.all.count { $0 == 1 }) of 200 have begun")
      // The later effect begins, unless the next commit cancels it.
      #expect(begun.all.isEmpty == (canceller == .cancellation))
      #expect(await subject.root.statistics.effects.isEmpty)
      await subject.root.shutdown()
    }
  }

  @Test(arguments: Kind.inMemory)
  func `a waiting effect does not begin with the commit that unblocks and cancels it`(kind: Kind) async throws {
    for _ in 0..<50 {
      let begun = Record<Int>()
      let subject = Subject(
        kind,
        interceptors: .effects { action, _ in
          let effect = Effect<Int>.run { dispatch in
            begun.add(action)
            try await dispatch.sleep(for: .seconds(86_400))
          }
          return switch action {
          case 1: effect.id("x")
          case 2: effect.id("x", .inTurn())
          // Cancels the first, so that the second begins, and cancels the second.
          case 3: .all(effect.id("x", .newest(limit: 2)), .cancel("x"))
          default: nil
          }
        })
      for action in 1...3 { try await subject.store.send(action) }
      await subject.root.settled()
      #expect(!begun.all.contains(2) && !begun.all.contains(3))
      await subject.root.shutdown()
    }
  }

  @Test(arguments: Kind.inMemory)
  func `an element's effect that its own commit cancels does not begin`(kind: Kind) async throws {
    let begun = Record<Int>()
    let part = Interceptor<Ledger, Int>.effects { _, _ in .run { _ in begun.add(1) }.id("x") }
    let lifted: Decide = part.lifted(state: { $0.root }, action: { $0 }, into: { $0 })
    let subject = Subject(kind)
    subject.children.last?.interceptActions(with: lifted)
    subject.root.interceptActions(
      with: subject.children.isEmpty
        ? Decide(combining: [lifted, .effects { _, _ in .cancel("x") }]) : .effects { _, _ in .cancel("x") })
    for action in 1...200 { try await subject.store.send(action) }
    await subject.root.settled()
    #expect(begun.all.isEmpty)
    await subject.root.shutdown()
  }
}
