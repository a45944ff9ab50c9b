import PureduxTestSupport
import Testing

@testable import Puredux

private typealias While = StateEffect<Snapshot, Int>

private struct Mishap: Error {}

/// Effects of the state. The state begins and cancels them, in commit order.
@Suite(.timeLimit(.minutes(15))) struct G8StateEffects {
  @Test(arguments: Kind.allCases)
  func `an effect runs as long as a condition holds, possibly from the first state on`(kind: Kind)
    async throws
  {
    let (begun, ended) = (Record<Int>(), Record<Int>())
    let subject = Subject(kind)
    let subscription = subject.store.subscribe(
      effect: .while({ $0.root.last % 2 == 0 }) {
        .run { _ in
          begun.add(begun.all.count)
          await untilCancelled()
          ended.add(ended.all.count)
        }.id("even")
      })
    await begun.untilCount(1)
    #expect(await subject.root.statistics.effects == ["even": 1])
    #expect(await subject.root.statistics.runningTasks == 1)
    // No other effect begins as long as the condition holds.
    for action in [2, 4, 6] { try await subject.store.send(action) }
    try await subject.store.send(7)
    await ended.untilCount(1)
    await subject.root.settled()
    #expect(begun.all.count == 1)
    #expect(await subject.root.statistics.effects.isEmpty)
    try await subject.store.send(8)
    await begun.untilCount(2)
    subscription.cancel()
    await ended.untilCount(2)
    for action in 9...12 { try await subject.store.send(action) }
    await subject.root.settled()
    #expect(begun.all.count == 2)
    #expect(ended.all.count == 2)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `an effect begins again when its value changes, and the previous one dispatches nothing more`(kind: Kind)
    async throws
  {
    let cancelled = Gate()
    let (begun, answers) = (Record<Int>(), Record<DispatchResult>())
    let subject = Subject(kind)
    subject.store.subscribe(
      effect: .onChange(of: { $0.root.last / 10 }) { value in
        guard value < 5 else { return nil }
        return .run { dispatch in
          begun.add(value)
          if value == 1 {
            await untilCancelled()
            answers.add(dispatch(99))
            cancelled.open()
          }
          if value == 2 { dispatch(100) }
        }
      })
    await begun.untilCount(1)
    let states = subject.states()
    for action in [1, 10, 11, 19] { try await subject.store.send(action) }
    await begun.untilCount(2)
    try await subject.store.send(20)
    await cancelled.wait()
    let seen = await states.collect(until: { $0.root.last == 100 }).dropFirst().map(\.root.last)
    await subject.root.settled()
    #expect(seen == [1, 10, 11, 19, 20, 100])
    #expect(begun.all == [0, 1, 2])
    #expect(answers.all == [.terminated])
    await subject.root.shutdown()
  }

  /// An effect that ignores its cancellation delays the next one for the same element, and no other.
  @Test(arguments: Kind.allCases)
  func `no two run for one element at a time, and the last one begins`(kind: Kind) async throws {
    let gates = (0...4).map { _ in Gate() }
    let running = Record<Int>()
    let subject = Subject(kind)
    subject.store.subscribe(
      effect: .onChange(of: \.root.last) { value in
        .run { _ in
          running.add(value)
          await gates[value].wait()
          running.add(-value)
        }
      })
    gates[0].open()
    await subject.root.settled()
    try await subject.store.send(1)
    await running.untilCount(3)
    for action in 2...4 { try await subject.store.send(action) }
    #expect(await subject.root.statistics.runningTasks == 1)
    gates[1].open()
    await running.untilCount(5)
    #expect(running.all == [0, 0, 1, -1, 4])
    gates[4].open()
    await subject.root.settled()
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `each element of a collection has its effect, by its id`(kind: Kind) async throws {
    struct Element: Identifiable, Equatable { let id, value: Int }
    let log = Record<String>()
    let subject = Subject(kind)
    // The digits of the last action, by place; 0 is no element.
    @Sendable func elements(_ state: Snapshot) -> [Element] {
      var rest = state.root.last
      return (0..<4).compactMap { place in
        defer { rest /= 10 }
        return rest % 10 == 0 ? nil : Element(id: place, value: rest % 10)
      }
    }
    subject.store.subscribe(
      effect: .forEach(elements) { element in
        .run { _ in
          log.add("\(element.id) is \(element.value)")
          await untilCancelled()
          log.add("\(element.id) was \(element.value)")
        }
      })
    let byKey = Record<Int>()
    subject.store.subscribe(
      effect: .forEach({ state in Dictionary(uniqueKeysWithValues: elements(state).map { ($0.id, $0.value) }) }) {
        key, value in .run { _ in byKey.add(10 * key + value) }
      })
    for (action, expected): (Int, Set<String>) in [
      (21, ["0 is 1", "1 is 2"]), (31, ["1 was 2", "1 is 3"]), (30, ["0 was 1"]), (30, []),
      (4030, ["3 is 4"]), (0, ["3 was 4", "1 was 3"]),
    ] {
      let before = log.all.count
      try await subject.store.send(action)
      await log.untilCount(before + expected.count)
      #expect(Set(log.all.dropFirst(before)) == expected)
    }
    await subject.root.settled()
    #expect(byKey.all.count == 4)
    #expect(Set(byKey.all) == [1, 12, 13, 34])
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `effects of the state have delays, retries and errors like other effects`(kind: Kind) async throws {
    let clock = ManualClock()
    let (tries, reports) = (Record<Int>(), Record<String>())
    let subject = Subject(kind, clock: clock, reporting: { reports.add("\($0)") })
    let states = subject.states()
    subject.store.subscribe(
      effect: .onChange(of: \.root.last) { value in
        if value >= 3 { return nil }
        let effect = Effect<Int>.run { dispatch in
          tries.add(value)
          throw Mishap()
        }.after(.seconds(10)).retried(.constant(.seconds(1), attempts: 2)).id("try")
        return value == 2 ? effect.catching { _ in 100 } : effect
      })
    await subject.root.settled()
    #expect(tries.all.isEmpty)
    try await subject.store.send(1)
    await subject.root.settled()
    clock.advance(by: .seconds(10))
    await subject.root.settled()
    #expect(tries.all == [1])
    clock.advance(by: .seconds(1))
    await subject.root.settled()
    #expect(tries.all == [1, 1])
    #expect(reports.all.count == 1)
    #expect(reports.all.first?.contains("\"try\"") == true)
    try await subject.store.send(2)
    for _ in 1...2 {
      await subject.root.settled()
      clock.advance(by: .seconds(10))
    }
    #expect(await states.collect(until: { $0.root.last == 100 }).map(\.root.last) == [0, 1, 2, 100])
    #expect(tries.all == [1, 1, 2, 2])
    #expect(reports.all.count == 1)
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `the end of the store cancels them, and awaits them`(kind: Kind) async throws {
    let (begun, ended) = (Record<Int>(), Record<Int>())
    let subject = Subject(kind)
    for number in 1...3 {
      subject.store.subscribe(
        effect: .while({ _ in true }) {
          .run { _ in
            begun.add(number)
            await untilCancelled()
            await Task.yield()
            ended.add(number)
          }
        })
    }
    await begun.untilCount(3)
    await subject.root.shutdown()
    #expect(Set(ended.all) == [1, 2, 3])
    // On a store that has ended, no effect begins.
    let late = subject.store.subscribe(effect: .while({ _ in true }) { .run { _ in begun.add(4) } })
    await subject.root.settled()
    late.cancel()
    #expect(begun.all.count == 3)
  }

  @Test(arguments: Kind.allCases)
  func `a finishing effect of the state is awaited, and so are the effects that it begins`(kind: Kind) async throws {
    let mayGo = Gate()
    let subject = Subject(kind)
    let states = subject.states()
    subject.store.subscribe(
      effect: .onChange(of: \.root.last) { value in
        switch value {
        case 1:
          .run { dispatch in
            await mayGo.wait()
            dispatch(2)
          }
        case 2, 3: .run { dispatch in dispatch(value + 1) }
        default: nil
        }
      })
    try await subject.store.send(1)
    async let end: Void = subject.root.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    // The store closes to other callers before they are refused.
    while subject.store.dispatch(1) == .enqueued { await Task.yield() }
    mayGo.open()
    await end
    let last = await states.collect().map(\.root.last)
    #expect(Array(last.suffix(3)) == [2, 3, 4])
  }

  @Test(arguments: Kind.allCases)
  func `a subscription cancelled at once begins nothing, and cancelling twice is the same as once`(kind: Kind)
    async throws
  {
    let executor = HeldExecutor()
    let begun = Record<Int>()
    let subject = Subject(kind, executor: .serial(executor))
    executor.hold()
    let subscription = subject.store.subscribe(effect: .while({ _ in true }) { .run { _ in begun.add(1) } })
    subscription.cancel()
    executor.letGo()
    try await subject.store.send(1)
    subscription.cancel()
    await subject.root.settled()
    #expect(begun.all.isEmpty)
    await subject.root.shutdown()
  }

  @Test func `while an optional scope has no state there is no effect`() async throws {
    let log = Record<String>()
    let subject = Subject(.rootActor)
    let scope = subject.root.scope(toOptional: { $0.root.last == 0 ? nil : $0.root.last }).scope { $0 / 10 }
    scope.subscribe(
      effect: .onChange(of: { $0 }) { value in
        .run { _ in
          log.add("begin \(value)")
          await untilCancelled()
          log.add("end \(value)")
        }
      })
    await subject.root.settled()
    #expect(log.all.isEmpty)
    for (action, entry) in [(11, "begin 1"), (0, "end 1"), (0, ""), (12, "begin 1"), (13, ""), (0, "end 1")] {
      let before = log.all.count
      try await subject.root.send(action)
      await log.untilCount(before + (entry.isEmpty ? 0 : 1))
      if entry.isEmpty { try await subject.root.send(action) }
      #expect(log.all.dropFirst(before).joined() == entry)
    }
    await subject.root.shutdown()
  }

  @Test(arguments: Kind.allCases)
  func `they follow the store's published states`(kind: Kind) async throws {
    let begun = Record<Int>()
    let subject = Subject(kind, emits: .when { _, after in after.root.last % 2 == 0 })
    subject.store.subscribe(effect: .onChange(of: \.root.last) { value in .run { _ in begun.add(value) } })
    await subject.root.settled()
    for action in 1...6 {
      try await subject.store.send(action)
      await subject.root.settled()
    }
    // A child's rule of emission is its own.
    #expect(begun.all == (kind.depth == 0 ? [0, 2, 4, 6] : Array(0...6)))
    await subject.root.shutdown()
  }

  @Test func `stores are made with them, and a replaced interceptor ends its own`() async throws {
    let log = Record<String>()
    @Sendable func logging(_ name: String) -> Interceptor<Snapshot, Int> {
      .effects(
        ofState: .while({ _ in true }) {
          .run { _ in
            log.add("begin \(name)")
            await untilCancelled()
            log.add("end \(name)")
          }
        })
    }
    let root = RootStore<Snapshot, Int>(
      initialState: Snapshot(), interceptors: logging("root"), reducer: { $0.root.enter($1) })
    await log.untilCount(1)
    let child = root.childStore(
      initialState: Ledger(), stateMapping: { $0.with($1) }, interceptors: logging("child"), logging("child too"),
      reducer: { $0.enter($1) })
    await log.untilCount(3)
    root.interceptActions(with: logging("next"))
    await log.untilCount(5)
    #expect(Set(log.all.suffix(2)) == ["end root", "begin next"])
    root.interceptActions { _, _ in }
    await log.untilCount(6)
    #expect(log.all.last == "end next")
    await child.shutdown()
    #expect(Set(log.all.suffix(2)) == ["end child", "end child too"])
    await root.settled()
    #expect(await root.statistics.runningTasks == 0)
    try await root.send(1)
    await root.shutdown()
    try await withStore(
      initialState: Snapshot(), interceptors: logging("scoped"), .effects { _, _ in nil },
      reducer: { $0.root.enter($1) }
    ) { store in
      await log.untilCount(9)
      try await store.send(1)
    }
    #expect(log.all.suffix(2) == ["begin scoped", "end scoped"])
  }

  @Test func `their actions go through the projection that they are subscribed to`() async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let projected = root.projection(action: { (text: String) in Int(text) }, state: { "\($0)" })
    let answers = Record<DispatchResult>()
    projected.subscribe(
      effect: .onChange(of: { $0 }) { text in
        .run { dispatch in
          if text == "1" { for next in ["x", "41"] { answers.add(dispatch(next)) } }
        }
      })
    try await root.send(1)
    await root.settled()
    #expect(await root.state == 42)
    #expect(answers.all == [.unmapped, .enqueued])
    await root.shutdown()
  }

  @Test func `a store that is released ends them, and they do not keep it alive`() async throws {
    let (begun, ended) = (Gate(), Gate())
    let token = Token()
    let gone = token.gone
    do {
      let root = RootStore<Int, Int>(
        initialState: 0,
        interceptors: .effects(
          ofState: .onChange(of: { $0 }) { [token] value in
            .run { _ in
              withExtendedLifetime(token) {}
              if value == 1 { begun.open() }
              await untilCancelled()
              if value == 1 { ended.open() }
            }
          })
      ) { $0 += $1 }
      try await root.send(1)
      await begun.wait()
    }
    await ended.wait()
    _ = consume token
    await gone.wait()
  }

  /// The effect's actions were accepted before the call, and precede it in the order.
  @Test(arguments: Kind.allCases)
  func `nothing of an effect is committed after its subscription was cancelled`(kind: Kind) async throws {
    let (mayDispatch, dispatched) = (Gate(), Gate())
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    let subscription = subject.store.subscribe(
      effect: .while({ _ in true }) {
        .run { dispatch in
          await mayDispatch.wait()
          dispatch(1)
          dispatched.open()
        }
      })
    try await subject.store.send(2)
    executor.hold()
    mayDispatch.open()
    await dispatched.wait()
    subscription.cancel()
    executor.letGo()
    try await subject.store.send(3)
    #expect(await subject.root.state.root == Ledger(count: 2, last: 3))
    await subject.root.shutdown()
  }

  @Test(arguments: [false, true]) func `an effect that waits for its predecessor at the end is released with the store`(
    isChild: Bool
  )
    async throws
  {
    let (begun, mayEnd) = (Record<Int>(), Gate())
    let token = Token()
    let gone = token.gone
    do {
      let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
      let child = root.childStore(initialState: 0, stateMapping: { $0 + $1 }) { _, _ in }
      let store: any OwningStore<Int, Int> = isChild ? child : root
      store.subscribe(
        effect: .onChange(of: { $0 }) { [token] value in
          .run { _ in
            withExtendedLifetime(token) {}
            begun.add(value)
            await mayEnd.wait()
          }
        })
      await begun.untilCount(1)
      for _ in 1...3 { try await root.send(1) }
    }
    mayEnd.open()
    _ = consume token
    await gone.wait()
    #expect(begun.all == [0])
  }

  /// The actions given to the tree before the interceptor was set are committed before that.
  @Test func `a replaced interceptor is not called for later actions`() async throws {
    let executor = HeldExecutor()
    let log = Record<String>()
    let root = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(executor: .serial(executor)),
      interceptors: .effects(
        ofState: .onChange(of: { $0 }) { value in
          log.add("old \(value)")
          return .cancel("job")
        })
    ) { $0 = $1 }
    executor.hold()
    root.dispatch(1)
    root.interceptActions(
      with: .effects { action, _ in
        .run { _ in
          await untilCancelled()
          log.add("cancelled \(action)")
        }.id("job", .first)
      })
    for action in [2, 3] { root.dispatch(action) }
    executor.letGo()
    try await root.send(4)
    #expect(log.all == ["old 0", "old 1"])
    #expect(await root.statistics.effects == ["job": 1])
    await root.shutdown()
  }

  @Test func `a cancellation of a subscription from within a hash takes effect`() async throws {
    final class Cancelling: Sendable {
      let subscription = Record<Subscription>()
      let hashes = Record<Void>()
      let armed = Flag()
    }
    struct ID: Hashable {
      let number: Int
      let cancelling: Cancelling
      static func == (one: ID, other: ID) -> Bool { one.number == other.number }
      func hash(into hasher: inout Hasher) {
        hasher.combine(number)
        if cancelling.armed.isRaised, let subscription = cancelling.subscription.all.first {
          cancelling.hashes.add(())
          subscription.cancel()
        }
      }
    }
    let cancelling = Cancelling()
    let root = RootStore<[ID: Int], Int>(initialState: [:], options: StoreOptions(clock: ManualClock())) {
      state, action in
      state[ID(number: action, cancelling: cancelling)] = action
    }
    cancelling.subscription.add(
      root.subscribe(effect: .forEach({ $0 }) { _, _ in .run { try await $0.sleep(for: .seconds(1000)) } }))
    try await root.send(1)
    await root.settled()
    cancelling.armed.raise()
    try await root.send(2)
    cancelling.armed.lower()
    await root.settled()
    #expect(cancelling.hashes.all.count > 0)
    #expect(await root.statistics.runningTasks == 0)
    await root.shutdown()
  }

  /// The scope's closure holds the store, and the effect's wait was the last to hold the closure.
  @Test func `an effect whose sequence holds the last reference to its store releases it`() async throws {
    for _ in 1...20 {
      let store = LockedValue<RootStore<Int, Int>?>(RootStore(initialState: 0) { $0 += $1 })
      let proxy = try #require(store.withLock { $0?.store() })
      let (follows, done) = (Gate(), Gate())
      proxy.subscribe(
        effect: .while({ _ in true }) {
          .run { _ in
            if let held = store.withLock({ $0.take() }) {
              for await state in held.scope(to: { [held] in held.id == .root ? $0 : 0 }).states() {
                follows.open()
                if state == 1 { break }
              }
            }
            done.open()
          }
        })
      await follows.wait()
      proxy.dispatch(1)
      await done.wait()
      while (try? await proxy.send(0)) != nil { await Task.yield() }
    }
  }

  /// An effect of the root's interceptor belongs to the child that got its action, and follows the root's states.
  @Test(arguments: [false, true])
  func `a child's effect of the state above ends with the child, and begins nothing more`(isShutDown: Bool)
    async throws
  {
    let (asked, begun, ended) = (Record<Int>(), Record<Int>(), Record<Int>())
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: .effects { action, context in
        guard action == 1 else { return nil }
        return context.run { store in
          store.subscribe(
            effect: .onChange(of: { $0 }) { state in
              asked.add(state)
              return .run { _ in
                begun.add(state)
                await untilCancelled()
                ended.add(state)
              }
            })
        }
      }
    ) { $0 += $1 }
    var child: StateStore<Int, Int>? = root.childStore(initialState: 0, stateMapping: { $0 + $1 }) { _, _ in }
    let states = try #require(child?.states())
    child?.dispatch(1)
    await begun.untilCount(1)
    if isShutDown { await child?.shutdown() }
    child = nil
    for await _ in states {}
    await ended.untilCount(1)
    for _ in 1...2 { try await root.send(10) }
    await root.settled()
    #expect([asked.all, begun.all, ended.all] == [[1], [1], [1]])
    #expect(await root.statistics.runningTasks == 0)
    await root.shutdown()
  }

  /// States above the child do not end with it. An effect that waits only for these is cancelled when all other work is
  /// done.
  @Test func `a finishing child does not wait for effects that follow states above it`() async throws {
    let log = Record<String>()
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let child = root.childStore(initialState: 0, stateMapping: { $0 + $1 }) { $0 += $1 }
    child.subscribe(
      effect: .while({ _ in true }) {
        .run { dispatch in
          for await state in root.store().states() where state == 1 { dispatch(10) }
          log.add("cancelled \(Task.isCancelled)")
        }
      })
    child.subscribe(
      effect: .while({ _ in true }) {
        .run { _ in
          for await _ in child.store().states() {}
          await Task.yield()
          log.add("ended, cancelled \(Task.isCancelled)")
        }
      })
    await root.settled()
    try await child.send(1)
    await child.shutdown(interceptors: .finish(within: .seconds(60)), clock: ManualClock())
    #expect(log.all == ["ended, cancelled false", "cancelled true"])
    #expect(await root.state == 11)
    await root.shutdown()
  }
}
