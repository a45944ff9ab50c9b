import PureduxTestSupport
import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(15))) struct ObserverTests {
  @Test(arguments: Kind.allCases)
  func `it is given the state now and then every commit, one at a time in order`(kind: Kind) async throws {
    let subject = Subject(kind)
    let seen = Record<Snapshot>()
    let busy = Flag()
    try await subject.store.send(1)
    subject.store.subscribe(
      observer: Observer { state in
        #expect(!busy.isRaised)
        busy.raise()
        await Task.yield()
        seen.add(state)
        busy.lower()
        return .active
      })
    for action in 2...20 { subject.store.dispatch(action) }
    await subject.root.shutdown()
    #expect(seen.all == Array(subject.expectedStates(during: Array(1...20)).dropFirst()))
  }

  @Test(arguments: Kind.allCases)
  func `a dead observer is not called again`(kind: Kind) async throws {
    let subject = Subject(kind)
    let seen = Record<Int>()
    let dead = Gate()
    subject.store.subscribe(
      observer: Observer { state in
        seen.add(state.root.count)
        if state.root.count < 2 { return .active }
        dead.open()
        return .dead
      })
    for action in 1...10 { subject.store.dispatch(action) }
    await dead.wait()
    await subject.root.shutdown()
    #expect(seen.all == [0, 1, 2])
  }

  @Test(arguments: Kind.allCases)
  func `it has its own buffering policy and duplicate filter`(kind: Kind) async throws {
    let subject = Subject(kind)
    let (began, goOn) = (Gate(), Gate())
    let (newest, tens) = (Record<Int>(), Record<Int>())
    subject.store.subscribe(
      observer: Observer(bufferingPolicy: .bufferingNewest(2)) { state in
        newest.add(state.root.last)
        began.open()
        await goOn.wait()
        return .active
      })
    subject.store.subscribe(
      observer: Observer(removeStateDuplicates: .equal { $0.root.last / 10 }) { state in
        tens.add(state.root.last)
        return .active
      })
    await began.wait()
    for action in 1...25 { try await subject.store.send(action) }
    goOn.open()
    await subject.root.shutdown()
    #expect(newest.all == [0, 24, 25])
    #expect(tens.all == [0, 10, 20])
  }

  @Test(arguments: Kind.inMemory)
  func `subscribed again, it begins again in place of its earlier subscription`(kind: Kind) async throws {
    let subject = Subject(kind)
    let seen = Record<Int>()
    let (began, goOn) = (Gate(), Gate())
    let observer = Observer<Snapshot> { state in
      seen.add(state.root.count)
      began.open()
      await goOn.wait()
      return .active
    }
    subject.store.subscribe(observer: observer)
    await began.wait()
    subject.store.dispatch(1)
    subject.store.dispatch(2)
    subject.store.subscribe(observer: observer)
    subject.store.dispatch(3)
    #expect(try await subject.store.send(4) { $0.root.count } == 4)
    #expect(await subject.root.statistics.runningTasks == 1, "the new one waits for the call that is under way")
    #expect(seen.all == [0])
    goOn.open()
    await subject.root.shutdown()
    #expect(seen.all == [0, 2, 3, 4])
  }

  @Test func `it has one subscription, also over several stores`() async throws {
    let (first, second) = (Subject(.rootActor), Subject(.child))
    let seen = Record<Int>()
    let moved = Gate()
    let observer = Observer<Snapshot> { state in
      seen.add(state.root.last)
      if state.root.last == 7 { moved.open() }
      return .active
    }
    first.store.subscribe(observer: observer)
    try await first.store.send(1)
    let before = first.store.subscribe(observer: observer)
    second.store.subscribe(observer: observer)
    before.cancel()
    first.store.dispatch(99)
    second.store.dispatch(7)
    await moved.wait()
    await first.root.shutdown()
    await second.root.shutdown()
    #expect(!seen.all.contains(99))
    #expect(seen.all.last == 7)
  }

  @Test(arguments: Kind.allCases)
  func `after a cancellation from outside it is not called, and its running call is cancelled`(kind: Kind) async throws
  {
    let subject = Subject(kind)
    let seen = Record<Int>()
    let (began, ended) = (Gate(), Gate())
    let subscription = subject.store.subscribe(
      observer: Observer { state in
        seen.add(state.root.count)
        began.open()
        await untilCancelled()
        ended.open()
        return .active
      })
    await began.wait()
    subject.store.dispatch(1)
    subscription.cancel()
    subscription.cancel()
    await ended.wait()
    try await subject.store.send(2)
    await subject.root.shutdown()
    #expect(seen.all == [0])
    subscription.cancel()
  }

  @Test(arguments: Kind.allCases)
  func `cancelled before it has begun it is never called`(kind: Kind) async throws {
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    let seen = Record<Int>()
    executor.hold()
    let subscription = subject.store.subscribe(
      observer: Observer { state in
        seen.add(state.root.count)
        return .active
      })
    subscription.cancel()
    executor.letGo()
    try await subject.store.send(1)
    await subject.root.shutdown()
    #expect(seen.all == [])
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `its task is cancelled with the store, still gets earlier states, and does not outlive the store`(
    kind: Kind, isReleased: Bool
  ) async throws {
    let seen = Record<Int>()
    let (began, done) = (Gate(), Gate())
    var subject: Subject? = Subject(kind)
    subject?.store.subscribe(
      observer: Observer { state in
        began.open()
        await untilCancelled()
        seen.add(state.root.count)
        if state.root.count == 3 { done.open() }
        return .active
      })
    await began.wait()
    for action in 1...3 { try await subject?.store.send(action) }
    if isReleased {
      subject = nil
      await done.wait()
    } else {
      await subject?.root.shutdown()
    }
    #expect(seen.all == [0, 1, 2, 3])
  }

  enum Ending: CaseIterable, Sendable { case cancelled, finished, released }

  enum Pace: CaseIterable, Sendable { case keepsUp, isBehind, isBehindWithNewest }

  /// An effect of the root's interceptor belongs to the child that got its action, and follows the root's states.
  @Test(arguments: Ending.allCases, Pace.allCases)
  func `a child's observer of the store above gets the states until the child's end, and ends then`(
    ending: Ending, pace: Pace
  ) async throws {
    let seen = Record<Int>()
    let mayGoOn = Gate()
    if pace == .keepsUp { mayGoOn.open() }
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, context in
        guard action == 1 else { return nil }
        return context.run { store in
          store.subscribe(
            observer: Observer(bufferingPolicy: pace == .isBehindWithNewest ? .bufferingNewest(1) : .unbounded) {
              seen.add($0)
              await mayGoOn.wait()
              return .active
            })
        }
      }
    ) { $0 += $1 }
    var child: StateStore<Int, Int>? = root.childStore(initialState: 0, stateMapping: { $0 + $1 }) { _, _ in }
    let states = try #require(child?.states())
    child?.dispatch(1)
    await seen.untilCount(1)
    for _ in 1...2 { try await root.send(10) }
    let end = Task { [child] in
      guard ending != .released else { return }
      await child?.shutdown(
        interceptors: ending == .finished ? .finish(within: .seconds(60)) : .cancel, clock: ManualClock())
    }
    child = nil
    // The child has ended when its states have.
    for await _ in states {}
    try await root.send(10)
    mayGoOn.open()
    await end.value
    await root.settled()
    #expect(seen.all == (pace == .isBehindWithNewest ? [1, 21] : [1, 11, 21]))
    #expect(await root.statistics.runningTasks == 0)
    await root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `on a store that has ended it is never called, and can be used again`(kind: Kind) async throws {
    let (ended, subject) = (Subject(kind), Subject(kind))
    await ended.root.shutdown()
    let called = Gate()
    let observer = Observer<Snapshot> { _ in
      called.open()
      return .dead
    }
    ended.store.subscribe(observer: observer).cancel()
    ended.store.subscribe(observer: observer)
    subject.store.subscribe(observer: observer)
    await called.wait()
  }

  @Test(arguments: Kind.allCases)
  func `it may cancel itself while its store is released`(kind: Kind) async throws {
    for _ in 0..<50 {
      var subject: Subject? = Subject(kind)
      let subscriptions = Record<Subscription>()
      let (began, known, calls) = (Gate(), Gate(), Record<Int>())
      var token: Token? = Token()
      let gone = try #require(token).gone
      subscriptions.add(
        try #require(subject).store.subscribe(
          observer: Observer { [token] state in
            calls.add(state.root.count)
            began.open()
            await known.wait()
            subscriptions.all.first?.cancel()
            withExtendedLifetime(token) {}
            return .active
          }))
      await began.wait()
      subject?.store.dispatch(1)
      known.open()
      subject = nil
      subscriptions.all.first?.cancel()
      token = nil
      await gone.wait()
      #expect(calls.all == [0])
    }
  }

  @Test(arguments: Kind.inMemory)
  func `it may send to the store it follows, subscribe itself again, and shut the store down`(kind: Kind) async throws {
    let subject = Subject(kind)
    let proxy = subject.store.store()
    let seen = Record<Int>()
    let observers = Record<Observer<Snapshot>>()
    let done = Gate()
    observers.add(
      Observer { state in
        seen.add(state.root.count)
        switch state.root.count {
        case 0: try? await proxy.send(1)
        case 1: proxy.dispatch(2)
        case 2:
          proxy.dispatch(3)
          proxy.subscribe(observer: observers.all[0])
        default:
          await subject.root.shutdown()
          done.open()
        }
        return .active
      })
    subject.store.subscribe(observer: observers.all[0])
    await done.wait()
    #expect(seen.all == [0, 1, 2, 3])
  }

  @Test func `observers that an ended store refuses leave nothing behind while proxies of it remain`() async {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let proxy = root.store()
    await root.shutdown()
    for _ in 0..<10 { proxy.subscribe(observer: Observer { _ in .active }) }
    for _ in 0..<10 { #expect(await proxy.states().collect().isEmpty) }
    #expect(proxy.source.channelOfSource.backlog.withLock { $0.cursors.count == 0 })
  }

  @Test func `a subscription does not keep its store alive, nor the observer that is over its states`() async throws {
    struct Held: Sendable {
      var token = Token()
    }
    var store: RootStore<Held, Int>? = RootStore(initialState: Held()) { state, _ in state.token = Token() }
    let called = Gate()
    let observer = Observer<Held> { _ in
      called.open()
      return .dead
    }
    let subscription = store?.subscribe(observer: observer)
    await called.wait()
    let gone = try #require(await store?.state.token.gone)
    store = nil
    await gone.wait()
    withExtendedLifetime((subscription, observer)) {}
  }

  @Test(arguments: Kind.allCases)
  func `moved while it is not being called, it does not wait for the store that it was subscribed to`(kind: Kind)
    async
  {
    let executor = HeldExecutor()
    let (first, second) = (Subject(kind, executor: .serial(executor)), Subject(kind))
    let called = Gate()
    let observer = Observer<Snapshot> { _ in
      called.open()
      return .active
    }
    executor.hold()
    first.store.subscribe(observer: observer)
    second.store.subscribe(observer: observer)
    await called.wait()
    executor.letGo()
    await first.root.shutdown()
    await second.root.shutdown()
  }

  @Test(arguments: [false, true])
  func `subscribed again and again while it is being called, it has one task`(isMoved: Bool) async throws {
    let first = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let second = isMoved ? RootStore<Int, Int>(initialState: 0) { $0 += $1 } : first
    let seen = Record<Int>()
    let (began, goOn, done) = (Gate(), Gate(), Gate())
    let observer = Observer<Int> { state in
      seen.add(state)
      began.open()
      await goOn.wait()
      if state == 1000 { done.open() }
      return .active
    }
    first.subscribe(observer: observer)
    await began.wait()
    for _ in 0..<1000 {
      second.subscribe(observer: observer).cancel()
      second.subscribe(observer: observer)
      second.dispatch(1)
    }
    for _ in 0..<2 { _ = (await first.state, await second.state) }
    var statistics = (await first.statistics, await second.statistics)
    #expect(statistics.0.runningTasks == 1)
    #expect(statistics.1.runningTasks == (isMoved ? 0 : 1))
    #expect(statistics.1.subscriptions == 1)
    #expect(seen.all == [0])
    goOn.open()
    await done.wait()
    #expect(seen.all == [0, 999, 1000])
    _ = (await first.state, await second.state)
    statistics = (await first.statistics, await second.statistics)
    #expect(statistics.1.runningTasks == 1)
    #expect(statistics.1.subscriptions == 1)
    await first.shutdown()
    await second.shutdown()
  }

  @Test(arguments: Kind.allCases, [false, true])
  func `it may move to another store while it is being called, and shut that down: then it is not called again`(
    kind: Kind, isDead: Bool
  ) async throws {
    let (first, second) = (Subject(kind), Subject(kind))
    let observers = Record<Observer<Snapshot>>()
    let seen = Record<Int>()
    let done = Gate()
    observers.add(
      Observer { state in
        seen.add(state.root.last)
        second.store.subscribe(observer: observers.all[0])
        second.store.dispatch(1)
        await second.root.shutdown()
        done.open()
        return isDead ? .dead : .active
      })
    first.store.subscribe(observer: observers.all[0])
    await done.wait()
    try await first.store.send(2)
    await first.root.shutdown()
    #expect(seen.all == [0])
  }

  @Test(arguments: Kind.allCases)
  func `cancelled while it waits for a call to return, it is not called again`(kind: Kind) async throws {
    let (first, second) = (Subject(kind), Subject(kind))
    let seen = Record<Int>()
    let (began, goOn) = (Gate(), Gate())
    let observer = Observer<Snapshot> { state in
      seen.add(state.root.last)
      began.open()
      await goOn.wait()
      return .active
    }
    first.store.subscribe(observer: observer)
    await began.wait()
    let subscription = second.store.subscribe(observer: observer)
    try await second.store.send(1)
    subscription.cancel()
    goOn.open()
    await first.root.shutdown()
    await second.root.shutdown()
    #expect(seen.all == [0])
  }

  @Test func `a subscription that waits for a call to return holds no states after it is cancelled or replaced`()
    async throws
  {
    struct Held: Sendable {
      let token: Token
    }
    let gone = Record<Gate>()
    let root = RootStore<Held?, Int>(initialState: nil) { state, action in
      let token = Token()
      gone.add(token.gone)
      state = action == 0 ? nil : Held(token: token)
    }
    let (began, goOn) = (Gate(), Gate())
    let observer = Observer<Held?> { _ in
      began.open()
      await goOn.wait()
      return .active
    }
    root.subscribe(observer: observer)
    await began.wait()
    root.subscribe(observer: observer)
    try await root.send(1)
    let subscription = root.subscribe(observer: observer)
    try await root.send(2)
    subscription.cancel()
    try await root.send(0)
    for gate in gone.all { await gate.wait() }
    goOn.open()
    await root.shutdown()
  }
}
