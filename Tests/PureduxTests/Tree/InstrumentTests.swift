import Puredux
import PureduxDirectory
import PureduxTestSupport
import PureduxTesting
import Testing

/// Records an instrument's events as text.
private struct Notes: StoreInstrument {
  let timesCommits: Bool
  let notes = Record<String>()

  init(timing timesCommits: Bool = false) { self.timesCommits = timesCommits }

  func opened(_ store: InstrumentedStore) { notes.add("opened \(store.name)") }
  func closed(_ store: InstrumentedStore) { notes.add("closed \(store.name)") }

  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    var note = "committed \(Self.name(of: action)) of \(commit.store) at \(commit.position)"
    if commit.count > 1 { note += ", \(commit.count) times" }
    if let waited = commit.waited, let reduced = commit.reduced { note += ", waited \(waited), took \(reduced)" }
    notes.add(note)
  }

  func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    notes.add("rejected \(Self.name(of: action)) of \(commit.store): \(reason.map { "\($0)" } ?? "no reason")")
  }

  func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    let effect = "\(event.number) \(event.id ?? "-") of \(event.store)"
    switch event.kind {
    case .began: notes.add("began \(effect)")
    case .retried(let error, let delay): notes.add("retried \(effect) after \(delay): \(error)")
    case .ended(let outcome, let taken): notes.add("ended \(effect) after \(taken): \(outcome)")
    case .turnedAway: notes.add("turned away \(effect)")
    }
  }

  func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async {
    notes.add("works on \(event.number)")
    await work()
  }

  func directory(_ event: DirectoryEvent) {
    switch event.kind {
    case .opening: notes.add("\(event.directory): opening \(event.key)")
    case .opened(let taken): notes.add("\(event.directory): opened \(event.key) after \(taken)")
    case .failed(let error, let taken): notes.add("\(event.directory): \(event.key) failed after \(taken): \(error)")
    case .closed: notes.add("\(event.directory): closed \(event.key)")
    }
  }
}

/// Records an effect's events, and whether they occur within this instrument's wrapper of the work.
private struct Around: StoreInstrument {
  @TaskLocal static var effect: Int?
  let notes = Record<String>()

  func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    let place = Self.effect == event.number ? "within" : "outside"
    switch event.kind {
    case .began: notes.add("began \(place)")
    case .retried: notes.add("retried \(place)")
    case .ended(let outcome, _): notes.add("\(outcome) \(place)")
    case .turnedAway: notes.add("turned away \(place)")
    }
  }

  func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async {
    await Self.$effect.withValue(event.number) { await work() }
    notes.add("left")
  }
}

private struct BackwardClock: Clock {
  private static let looks = Record<Int>()

  var minimumResolution: Duration { .zero }
  var now: ContinuousClock.Instant {
    Self.looks.add(0)
    return Self.start.advanced(by: .seconds(-Self.looks.all.count))
  }
  private static let start = ContinuousClock.now

  func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {}
}

private enum Change: Sendable {
  case add(Int)
  case clear
  case work(String)

  static func apply(_ state: inout Int, _ action: Change) {
    switch action {
    case .add(let number): state += number
    case .clear: state = 0
    case .work: break
    }
  }
}

private struct Broken: Error, CustomStringConvertible { var description: String { "broken" } }

@Suite(.timeLimit(.minutes(15))) struct InstrumentTests {
  @Test func `it is told of commits and rejections of the whole tree, in order`() async throws {
    let instrument = Notes()
    let store = RootStore<Int, Change>(
      initialState: 0, options: StoreOptions(name: "sum", instrument: instrument),
      middleware: [
        Middleware { action, context, next in
          switch action {
          case .clear where context.state == 0: context.reject("Nothing to clear.")
          case .add(0): break
          case .add(let number) where number > 10:
            next(.add(10))
            next(.add(number - 10))
          default: next(action)
          }
        }
      ], reducer: Change.apply)
    let child = store.childStore(
      initialState: 0,
      middleware: [.guarding { action, _ in if case .add(7) = action { "Not seven." } else { nil } }],
      reducer: Change.apply)
    try await store.send(.add(3))
    await #expect(throws: StoreError.rejected(reason: "Not seven.")) { try await child.send(.add(7)) }
    try await child.send(.add(1))
    try await child.send(.add(12))
    child.dispatch(.clear)
    child.dispatch(.clear)
    child.dispatch(.add(0))
    await store.shutdown()
    #expect(
      instrument.notes.all == [
        "opened sum", "committed add of root at 1", "rejected add of child 1: Not seven.",
        "committed add of child 1 at 2", "committed add of child 1 at 4, 2 times", "committed clear of child 1 at 5",
        "rejected clear of child 1: Nothing to clear.", "rejected add of child 1: no reason", "closed sum",
      ])
  }

  @Test func `a store without a name is named by the type of its state`() async throws {
    let instrument = Notes()
    do {
      let factory = StoreFactory<Int, Int>(
        initialState: 0, options: StoreOptions(instrument: instrument), reducer: { $0 += $1 })
      try await factory.root.send(1)
    }
    await instrument.notes.untilCount(3)
    #expect(instrument.notes.all == ["opened Int", "committed Int of root at 1", "closed Int"])
  }

  @Test func `commits are timed by the store's clock, from the dispatch on`() async throws {
    let clock = ManualClock()
    let instrument = Notes(timing: true)
    let executor = ManualExecutor()
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(executor: .serial(executor), clock: clock, instrument: instrument)
    ) { state, action in
      clock.advance(by: .seconds(action))
      state += action
    }
    executor.hold()
    store.dispatch(2)
    clock.advance(by: .seconds(1))
    store.dispatch(3)
    clock.advance(by: .seconds(1))
    executor.letGo()
    await executor.untilIdle()
    #expect(
      instrument.notes.all == [
        "opened Int", "committed Int of root at 1, waited 2.0 seconds, took 2.0 seconds",
        "committed Int of root at 2, waited 3.0 seconds, took 3.0 seconds",
      ])
    withExtendedLifetime(store) {}
  }

  @Test func `a clock that is set back takes no time`() async throws {
    let instrument = Notes(timing: true)
    let store = RootStore<Int, Int>(
      initialState: 0, options: StoreOptions(clock: BackwardClock(), instrument: instrument)
    ) { $0 += $1 }
    try await store.send(1)
    #expect(
      instrument.notes.all == [
        "opened Int", "committed Int of root at 1, waited 0.0 seconds, took 0.0 seconds",
      ])
    withExtendedLifetime(store) {}
  }

  @Test func `an effect whose store has ended before it began has not finished`() async throws {
    let instrument = Notes()
    let executor = ManualExecutor()
    let entered = Record<Int>()
    do {
      let store = RootStore<Int, Int>(
        initialState: 0, options: StoreOptions(executor: .serial(executor), instrument: instrument),
        interceptors: .effects { _, _ in .run { _ in entered.add(1) } }
      ) { $0 += $1 }
      executor.hold()
      store.dispatch(1)
    }
    // The store has closed, and its end waits after the action.
    executor.letGo()
    await instrument.notes.untilCount(6)
    #expect(entered.all.isEmpty)
    let ends = instrument.notes.all.filter { $0.hasPrefix("ended") }
    #expect(ends.count == 1 && ends[0].hasSuffix(": cancelled"))
  }

  @Test func `it is told of effects, their attempts, and their outcomes`() async throws {
    let clock = ManualClock()
    let instrument = Notes()
    let attempts = Record<Int>()
    let store = RootStore<Int, Change>(
      initialState: 0,
      options: StoreOptions(clock: clock, reporting: { _ in }, instrument: instrument),
      interceptors: .effects { action, _ in
        guard case .work(let name) = action else { return nil }
        switch name {
        case "fails": return .run { _ in throw Broken() }
        case "is caught": return .run { _ in throw Broken() }.catching { _ in .add(1) }
        case "is retried":
          return .run { _ in
            attempts.add(1)
            if attempts.all.count == 1 { throw Broken() }
          }.retried(.constant(.seconds(5)))
        case "is late":
          return .run { dispatch in try await dispatch.sleep(for: .seconds(60)) }
            .timeout(after: .seconds(1), .clear)
        case "is cancelled": return .run { dispatch in try await dispatch.sleep(for: .seconds(60)) }.id("sleep")
        case "cancels": return .cancel("sleep")
        case "waits":
          return .run { dispatch in try await dispatch.sleep(for: .seconds(60)) }.id("turn", .inTurn(limit: 0))
        default: return .run { _ in }
        }
      }, reducer: Change.apply)
    func notes(of name: String) async throws -> [String] {
      let before = instrument.notes.all.count
      try await store.send(.work(name))
      await store.settled()
      return instrument.notes.all.dropFirst(before).filter { !$0.hasPrefix("committed") }
    }
    #expect(
      try await notes(of: "works") == [
        "began 1 - of root", "works on 1", "ended 1 - of root after 0.0 seconds: finished",
      ])
    #expect(
      try await notes(of: "fails").last == "ended 2 - of root after 0.0 seconds: failed(broken)")
    #expect(try await notes(of: "is caught").last == "ended 3 - of root after 0.0 seconds: caught(broken)")
    #expect(
      try await notes(of: "is retried") == [
        "began 4 - of root", "works on 4", "retried 4 - of root after 5.0 seconds: broken",
      ])
    clock.advance(by: .seconds(5))
    await store.settled()
    #expect(instrument.notes.all.last == "ended 4 - of root after 5.0 seconds: finished")
    _ = try await notes(of: "is late")
    clock.advance(by: .seconds(1))
    await store.settled()
    #expect(instrument.notes.all.contains("ended 5 - of root after 1.0 seconds: timedOut"))
    #expect(try await notes(of: "is cancelled") == ["began 6 sleep of root", "works on 6"])
    #expect(try await notes(of: "cancels") == ["ended 6 sleep of root after 0.0 seconds: cancelled"])
    _ = try await notes(of: "waits")
    #expect(try await notes(of: "waits") == ["turned away 0 turn of root"])
    await store.shutdown()
  }

  @Test func `the end of an effect is reported within the instrument's wrapper of its work`() async throws {
    let (outer, inner) = (Around(), Around())
    let clock = ManualClock()
    let store = RootStore<Int, Int>(
      initialState: 0,
      options: StoreOptions(clock: clock, reporting: { _ in }, instrument: CombinedInstrument(outer, inner)),
      interceptors: .effects { action, _ in
        if action == 0 { return .run { _ in throw Broken() }.retried(.constant(.zero, attempts: 2)) }
        return .run { dispatch in try await dispatch.sleep(for: .seconds(60)) }.timeout(after: .seconds(1), 0)
      }, reducer: { $0 += $1 })
    try await store.send(0)
    await store.settled()
    for notes in [outer.notes, inner.notes] {
      #expect(notes.all == ["began outside", "retried within", "failed(broken) within", "left"])
    }
    try await store.send(1)
    await store.settled()
    clock.advance(by: .seconds(1))
    await store.settled()
    #expect(outer.notes.all.contains("timedOut within"))
    await store.shutdown()
  }

  @Test func `it is told of a directory's stores`() async throws {
    let instrument = Notes()
    let directory = StoreDirectory<String, Int, Int>(
      idleLimit: .zero, clock: ManualClock(), name: "rooms", instrument: instrument
    ) { key in
      if key == "none" { throw Broken() }
      return RootStore(initialState: 0) { $0 += $1 }
    }
    try await directory.withStore("one") { try await $0.send(1) }
    await #expect(throws: Broken.self) { try await directory.withStore("none") { _ in } }
    await directory.shutdown()
    let notes = instrument.notes.all
    #expect(
      notes.filter { !$0.contains("none") } == [
        "rooms: opening one", "rooms: opened one after 0.0 seconds", "rooms: closed one",
      ])
    #expect(
      notes.filter { $0.contains("none") } == [
        "rooms: opening none", "rooms: none failed after 0.0 seconds: broken",
      ])
  }

  @Test func `the figures of a store can be read from it, and do not keep the store`() async throws {
    struct Keeper: StoreInstrument {
      let stores = Record<InstrumentedStore>()
      func opened(_ store: InstrumentedStore) { stores.add(store) }
    }
    let keeper = Keeper()
    var root: RootStore<Int, Int>? = RootStore(
      initialState: 0, options: StoreOptions(instrument: keeper)
    ) { $0 += $1 }
    try await root?.send(1)
    let store = try #require(keeper.stores.all.first)
    #expect(await store.statistics?.commits == 1)
    await root?.shutdown()
    root = nil
    #expect(await store.statistics == nil)
  }
}
