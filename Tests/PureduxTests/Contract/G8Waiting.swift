import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

@Suite(.timeLimit(.minutes(15))) struct G8Waiting {
  @Test(arguments: Kind.allCases)
  func `the first matching state is the current one or a later one`(kind: Kind) async throws {
    let subject = Subject(kind)
    try await subject.store.send(1)
    #expect(try await subject.store.first(where: { $0.root.last == 1 }) == subject.expected(after: [1]))
    #expect(
      try await subject.store.first(where: { $0.root.last == 1 }, within: .zero) == subject.expected(after: [1]))
    let waiting = Task { [store = subject.store] in try await store.first(where: { $0.root.count >= 3 }) }
    for action in 2...9 { try await subject.store.send(action) }
    let found = try await waiting.value
    #expect(found.root.count >= 3)
    #expect(found == subject.expected(after: Array(1...found.root.count)))
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `a wait takes its place when it is called, so that no state is lost`(kind: Kind) async throws {
    let subject = Subject(kind)
    for round in 0..<20 {
      let waiting = Task.immediate { [store = subject.store] in
        try await store.first(where: { $0.root.last == 2 * round + 1 })
      }
      subject.store.dispatch(2 * round + 1)
      subject.store.dispatch(2 * round + 2)
      #expect(try await waiting.value.root.last == 2 * round + 1)
    }
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `a wait ends with its time, with the store, and with its task`(kind: Kind) async throws {
    let clock = ManualClock()
    let subject = Subject(kind, clock: clock)
    let store = subject.store
    await #expect(throws: TimedOut()) { try await store.first(where: { $0.root.last == 1 }, within: .zero) }
    await #expect(throws: TimedOut()) {
      try await store.first(where: { _ in false }, within: Duration(attoseconds: .min))
    }
    let late = Task { try await store.first(where: { _ in false }, within: .seconds(5)) }
    await clock.untilAsleep(1)
    clock.advance(by: .seconds(4))
    try await store.send(1)
    clock.advance(by: .seconds(1))
    await #expect(throws: TimedOut()) { try await late.value }
    let cancelled = Task { try await store.first(where: { _ in false }, within: Duration(attoseconds: .max)) }
    await clock.untilAsleep(1)
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    await clock.untilAsleep(0)
    let ended = Task { try await store.first(where: { _ in false }, within: .seconds(5)) }
    await clock.untilAsleep(1)
    await subject.root.shutdown()
    await #expect(throws: StoreError.terminated) { try await ended.value }
    await #expect(throws: StoreError.terminated) { try await store.first(where: { _ in true }) }
  }

  @Test(arguments: Kind.allCases)
  func `an effect that waits is at rest until the state comes or the time is over`(kind: Kind) async throws {
    let clock = ManualClock()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, context in
        guard action < 10 else { return nil }
        return context.run { store in
          do {
            store.dispatch(try await store.first(where: { $0.root.last >= 50 }, within: .seconds(3)).root.last + 1)
          } catch is TimedOut {
            store.dispatch(20)
          }
        }
      }, reporting: { Issue.record("\($0)") })
    try await subject.store.send(1)
    await subject.root.settled()
    clock.advance(by: .seconds(2))
    await subject.root.settled()
    #expect(try await subject.store.state.root.last == 1)
    clock.advance(by: .seconds(1))
    await subject.root.settled()
    #expect(try await subject.store.state.root.last == 20)
    try await subject.store.send(2)
    await subject.root.settled()
    try await subject.store.send(50)
    await subject.root.settled()
    #expect(try await subject.store.state.root.last == 51)
    #expect(clock.nextDeadline == nil)
    #expect(await subject.root.statistics.runningTasks == 0)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `a finishing store does not wait for an effect that waits`(kind: Kind, isForAction: Bool) async throws {
    let errors = Record<StoreError>()
    let clock = ManualClock()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { _, context in
        context.run { store in
          do {
            if isForAction {
              _ = try await store.firstAction(matching: { $0 == 100 }, within: .seconds(3_600)) as Bool
            } else {
              _ = try await store.first(where: { $0.root.last == 100 }, within: .seconds(3_600))
            }
          } catch let error as StoreError {
            errors.add(error)
          }
        }
      }, reporting: { Issue.record("\($0)") })
    try await subject.store.send(1)
    await subject.root.settled()
    await subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(errors.all == [.terminated])
  }

  @Test(arguments: Kind.allCases)
  func `the first action that matches is one that is committed after the call`(kind: Kind) async throws {
    let subject = Subject(kind)
    let store = subject.store
    let pattern: @Sendable (Int) -> String? = { $0 >= 5 ? "\($0)" : nil }
    if kind == .projection || kind == .projectionOfProjection {
      await #expect(throws: StoreError.unmapped) { try await store.firstAction(matching: pattern) }
      return await subject.root.shutdown()
    }
    try await store.send(9)
    let waiting = Task.immediate { try await store.firstAction(matching: pattern) }
    for action in [1, 6, 7] { store.dispatch(action) }
    #expect(try await waiting.value == "6")
    let next = Task.immediate { try await store.firstAction(matching: pattern, within: .seconds(3_600)) }
    store.dispatch(8)
    #expect(try await next.value == "8")
    await #expect(throws: TimedOut()) { try await store.firstAction(matching: pattern, within: .zero) }
    let cancelled = Task.immediate { try await store.firstAction(matching: { _ in nil as Int? }) }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    let ended = Task.immediate { try await store.firstAction(matching: { _ in nil as Int? }) }
    await subject.root.shutdown()
    await #expect(throws: StoreError.terminated) { try await ended.value }
  }

  @Test(arguments: Kind.children)
  func `a child's first action is one given to the child or below it`(kind: Kind) async throws {
    let subject = Subject(kind)
    let child = subject.children[0]
    let (sibling, grandchild) = (subject.root.ledgerChild(), child.ledgerChild())
    let waiting = Task.immediate { try await child.firstAction(matching: { $0 }) }
    let above = Task.immediate { try await subject.root.firstAction(matching: { $0 }) }
    subject.root.dispatch(1)
    sibling.dispatch(2)
    grandchild.dispatch(3)
    child.dispatch(4)
    #expect(try await waiting.value == 3)
    #expect(try await above.value == 1)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `an effect may wait for an action, at rest`(kind: Kind) async throws {
    let clock = ManualClock()
    let subject = Subject(
      kind, clock: clock,
      interceptors: .effects { action, context in
        guard action == 1 else { return nil }
        return context.run { store in
          let found = try await store.firstAction(where: { $0 >= 5 }, within: .seconds(3))
          store.dispatch(found + 100)
        }.catching { $0 is TimedOut ? 50 : nil }
      }, reporting: { Issue.record("\($0)") })
    for isLate in [true, false] {
      try await subject.store.send(1)
      await subject.root.settled()
      if isLate { await clock.advance(by: .seconds(3), settling: subject.root) } else { subject.store.dispatch(7) }
      await subject.root.settled()
      #expect(try await subject.store.state.root.last == (isLate ? 50 : 107))
    }
    await subject.root.shutdown()
  }
}
