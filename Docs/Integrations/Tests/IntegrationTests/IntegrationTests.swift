import Foundation
import InMemoryLogging
import InMemoryTracing
import Logging
import Metrics
import MetricsTestKit
import Puredux
import PureduxDirectory
import PureduxLog
import PureduxLogTesting
import PureduxLogging
import PureduxMetrics
import PureduxServices
import PureduxTesting
import PureduxTracing
import ServiceLifecycle
import ServiceLifecycleTestKit
import Synchronization
import Testing
import Tracing

private struct Broken: Error {}

extension Atomic<Int> {
  fileprivate final class Box: Sendable {
    let value = Atomic<Int>(0)
  }
}

private enum Action: Sendable, Codable {
  case add(Int)
  case fail

  @Sendable static func reduce(_ state: inout Int, _ action: Action) {
    if case .add(let number) = action { state += number }
  }

  @Sendable static func effect(of action: Action) -> Effect<Action>? {
    if case .fail = action { .run { _ in throw Broken() } } else { nil }
  }
}

/// An instrument that collects its stores.
private final class Opened: StoreInstrument {
  let stores = Mutex<[InstrumentedStore]>([])
  func opened(_ store: InstrumentedStore) { stores.withLock { $0.append(store) } }
}

@Suite(.timeLimit(.minutes(5))) struct IntegrationTests {
  @Test func `the logger writes what happens, at the level that it is for`() async throws {
    let handler = InMemoryLogHandler()
    var logger = Logger(label: "test") { _ in handler }
    logger.logLevel = .trace
    var options = StoreOptions(name: "sum")
    options.log(to: logger)
    let store = RootStore<Int, Action>(
      initialState: 0, options: options, interceptors: .effects { action, _ in Action.effect(of: action) },
      middleware: [.guarding { action, _ in if case .add(0) = action { "Nothing to add." } else { nil } }],
      reducer: Action.reduce)
    try await store.send(.add(1))
    await #expect(throws: StoreError.self) { try await store.send(.add(0)) }
    try await store.send(.fail)
    await store.shutdown(interceptors: .finish(within: .seconds(10)))
    let written = handler.entries.map { "\($0.level): \($0.message)" }
    #expect(
      written == [
        "debug: The store is open.", "trace: An action is committed.", "debug: An action is rejected.",
        "trace: An action is committed.", "trace: An effect has begun.", "error: An effect has failed.",
        "debug: The store has ended.",
      ])
    #expect(handler.entries[1].metadata["action"] == "add")
    #expect(handler.entries[1].metadata["store"] == "sum")
  }

  @Test func `what follows a log says when the log is replayed and when it takes an entry`() async throws {
    let handler = InMemoryLogHandler()
    var logger = Logger(label: "test") { _ in handler }
    logger.logLevel = .trace
    var options = FollowingOptions<Int, Action>(store: StoreOptions(name: "sum"), fingerprint: .unchecked)
    options.store.log(to: logger)
    options.log.log(to: logger)
    let log = MemoryLog()
    let store = try await RootStore<Int, Action>(
      following: log, initialState: 0, options: options, reducer: Action.reduce)
    try await store.send(.add(1))
    await store.shutdown()
    let written = Set(handler.entries.map { "\($0.message)" })
    #expect(written.isSuperset(of: ["The log has been replayed.", "The log has taken an entry."]))
    #expect(handler.entries.allSatisfy { $0.metadata["store"] == "sum" })
  }

  @Test func `what is replayed is not written again`() async throws {
    let log = MemoryLog()
    @Sendable func open(_ options: FollowingOptions<Int, Action>) async throws -> RootStore<Int, Action> {
      try await RootStore(
        following: log, initialState: 0, options: options,
        middleware: [.guarding { action, _ in if case .add(0) = action { "Nothing to add." } else { nil } }],
        reducer: Action.reduce)
    }
    let first = try await open(FollowingOptions(fingerprint: .unchecked))
    try await first.send(.add(1))
    await #expect(throws: StoreError.self) { try await first.send(.add(0)) }
    await first.shutdown()

    let handler = InMemoryLogHandler()
    var logger = Logger(label: "test") { _ in handler }
    logger.logLevel = .trace
    var options = FollowingOptions<Int, Action>(fingerprint: .unchecked)
    options.store.log(to: logger)
    let second = try await open(options)
    try await second.send(.add(2))
    await #expect(throws: StoreError.self) { try await second.send(.add(0)) }
    await second.shutdown()
    let written = handler.entries.map { "\($0.message)" }
    #expect(written.count { $0 == "An action is committed." } == 1)
    #expect(written.count { $0 == "An action is rejected." } == 1)
  }

  @Test func `the end of a warning is a notice`() {
    let handler = InMemoryLogHandler()
    let instrument = StoreLogger(Logger(label: "test") { _ in handler })
    let opened = Opened()
    let store = RootStore<Int, Action>(
      initialState: 0, options: StoreOptions(instrument: opened), reducer: Action.reduce)
    withExtendedLifetime(store) {
      for store in opened.stores.withLock({ $0 }) {
        for phase: LogStatistics.Phase in [.following, .waiting(.unavailable), .following, .following] {
          instrument.log(.entered(phase), in: store)
        }
      }
    }
    #expect(
      handler.entries.map { "\($0.level): \($0.message)" } == [
        "warning: The log takes or delivers nothing.", "notice: The log takes and delivers again.",
      ])
  }

  @Test func `a stop is one error`() async throws {
    let handler = InMemoryLogHandler()
    let logger = Logger(label: "test") { _ in handler }
    var options = FollowingOptions<Int, Action>(store: StoreOptions(name: "sum"), fingerprint: .unchecked)
    options.store.log(to: logger)
    options.log.log(to: logger)
    let log = MemoryLog()
    let store = try await RootStore<Int, Action>(
      following: log, initialState: 0, options: options, reducer: Action.reduce)
    log.append(Array("nonsense".utf8)) { _ in }
    while handler.entries.count < 2 { try await Task.sleep(for: .milliseconds(1)) }
    await store.shutdown()
    #expect(Set(handler.entries.map(\.level)) == [.error, .notice])
    #expect(handler.entries.count == 2)
  }

  @Test func `metrics count commits by their actions, and stores by their groups`() async throws {
    let factory = TestMetrics()
    let metrics = StoreMetrics(factory: factory, timesCommits: true)
    let rooms = StoreDirectory<Int, Int, Action>(name: "rooms", instrument: metrics) { id in
      RootStore(
        initialState: 0, options: StoreOptions(reporting: { _ in }, name: "rooms/\(id)", instrument: metrics),
        interceptors: .effects { action, _ in Action.effect(of: action) }, reducer: Action.reduce)
    }
    for id in 1...3 { try await rooms.withStore(id) { try await $0.send(.add(id)) } }
    try await rooms.withStore(1) { room in
      try await room.send(.fail)
      await room.settled()
      let states = room.states()
      await metrics.sample()
      withExtendedLifetime(states) {}
    }
    let store = [("store", "rooms")]
    #expect(try factory.expectCounter("puredux.commits", store + [("action", "add")]).totalValue == 3)
    #expect(try factory.expectCounter("puredux.commits", store + [("action", "fail")]).totalValue == 1)
    #expect(try factory.expectTimer("puredux.commit.duration", store).values.count == 4)
    #expect(try factory.expectTimer("puredux.effect.duration", store + [("outcome", "failed")]).values.count == 1)
    #expect(try factory.expectTimer("puredux.directory.open.duration", [("directory", "rooms")]).values.count == 3)
    #expect(try factory.expectGauge("puredux.stores", store).lastValue == 3)
    #expect(try factory.expectGauge("puredux.subscriptions", store).lastValue == 1)
    await rooms.shutdown()
    await metrics.sample()
    #expect(try factory.expectGauge("puredux.stores", store).lastValue == 0)
  }

  /// An executor that runs nothing while it is suspended.
  private final class Queue: SerialExecutor {
    let queue = DispatchQueue(label: "metrics")
    let enqueued = Atomic(0)

    func enqueue(_ job: consuming ExecutorJob) {
      enqueued.add(1, ordering: .relaxed)
      let job = UnownedJob(job)
      queue.async { job.runSynchronously(on: self.asUnownedSerialExecutor()) }
    }
  }

  @Test func `a store whose tree stands still hides the figures of no other store, and counts as silent`() async throws
  {
    let factory = TestMetrics()
    let metrics = StoreMetrics(factory: factory, every: .milliseconds(10))
    let held = Queue()
    let stores = ["held", "free"].map { name in
      RootStore<Int, Action>(
        initialState: 0,
        options: StoreOptions(executor: name == "held" ? .serial(held) : .own, name: name, instrument: metrics),
        reducer: Action.reduce)
    }
    for store in stores { try await store.send(.add(1)) }
    let states = stores.map { $0.states() }
    held.queue.suspend()
    func figure(_ name: String, _ store: String) throws -> Double? {
      try factory.expectGauge(name, [("store", store)]).lastValue
    }
    repeat { await metrics.sample() } while try figure("puredux.subscriptions", "free") != 1
    #expect(try figure("puredux.stores.silent", "held") == 1)
    held.queue.resume()
    while try figure("puredux.stores.silent", "held") != 0 || figure("puredux.subscriptions", "held") != 1 {
      await metrics.sample()
    }
    withExtendedLifetime(states) {}
    for store in stores { await store.shutdown() }
  }

  /// Samples that overlap or are cancelled before the tree has had time to answer.
  @Test(arguments: [false, true]) func `a store is silent only if it has not answered within the interval`(
    isCancelled: Bool
  ) async throws {
    let factory = TestMetrics()
    let metrics = StoreMetrics(factory: factory, every: .seconds(3_600))
    let held = Queue()
    let store = RootStore<Int, Action>(
      initialState: 0, options: StoreOptions(executor: .serial(held), name: "held", instrument: metrics),
      reducer: Action.reduce)
    let states = store.states()
    try await store.send(.add(1))
    held.queue.suspend()
    let before = held.enqueued.load(ordering: .relaxed)
    let samples = (0..<20).map { _ in Task { await metrics.sample() } }
    while held.enqueued.load(ordering: .relaxed) == before { await Task.yield() }
    if isCancelled {
      for sample in samples { sample.cancel() }
    } else {
      held.queue.resume()
    }
    for sample in samples { await sample.value }
    if isCancelled { held.queue.resume() }
    func figures(_ name: String) throws -> [Double] { try factory.expectGauge(name, [("store", "held")]).values }
    #expect(try figures("puredux.stores.silent").allSatisfy { $0 == 0 })
    if !isCancelled { #expect(try figures("puredux.subscriptions").allSatisfy { $0 == 1 }) }
    await metrics.sample()
    #expect(try figures("puredux.subscriptions").last == 1)
    withExtendedLifetime(states) {}
    await store.shutdown()
  }

  @Test func `commits are counted without the names of actions where these are not wanted`() async throws {
    let factory = TestMetrics()
    let metrics = StoreMetrics(factory: factory, namesActions: false)
    let store = RootStore<Int, Action>(
      initialState: 0, options: StoreOptions(reporting: { _ in }, name: "sum", instrument: metrics),
      reducer: Action.reduce)
    for action in [Action.add(1), .fail] { try await store.send(action) }
    #expect(try factory.expectCounter("puredux.commits", [("store", "sum")]).totalValue == 2)
    await store.shutdown()
  }

  @Test func `a store is asked for its group once`() async throws {
    let asked = Mutex(0)
    let metrics = StoreMetrics(factory: TestMetrics()) { _ in
      asked.withLock { $0 += 1 }
      return "sum"
    }
    let store = RootStore<Int, Action>(
      initialState: 0, options: StoreOptions(reporting: { _ in }, instrument: metrics),
      interceptors: .effects { action, _ in Action.effect(of: action) }, reducer: Action.reduce)
    for action in [Action.add(1), .add(2), .fail] { try await store.send(action) }
    await store.settled()
    #expect(asked.withLock { $0 } == 1)
    await store.shutdown()
  }

  @Test func `how many effects run is what is read, in whatever order they begin and end`() async throws {
    let factory = TestMetrics()
    let metrics = StoreMetrics(factory: factory)
    let clock = ManualClock()
    let store = RootStore<Int, Action>(
      initialState: 0, options: StoreOptions(clock: clock, name: "sum", instrument: metrics),
      interceptors: .effects { _, _ in .run { try await $0.sleep(for: .seconds(1)) } }, reducer: Action.reduce)
    for number in 1...3 { try await store.send(.add(number)) }
    await store.settled()
    await metrics.sample()
    clock.advance(by: .seconds(1))
    await store.settled()
    await store.shutdown()
    await metrics.sample()
    #expect(try factory.expectGauge("puredux.effects.active", [("store", "sum")]).values == [3, 0])
  }

  @Test func `a commit is in the trace of its sender, and its effect below it`() async throws {
    let tracer = InMemoryTracer()
    let worked = Gate()
    let store = RootStore<Int, Action>(
      initialState: 0,
      options: StoreOptions(
        carrying: .values(of: ServiceContext.$current), name: "sum", instrument: StoreTracing(tracer: tracer)),
      interceptors: .effects { action, _ in
        guard case .add = action else { return nil }
        return .run { _ in
          tracer.withAnySpan("request") { _ in }
          worked.open()
        }.id("work")
      }, reducer: Action.reduce)
    try await store.sendTraced(.add(1), tracer: tracer)
    await worked.wait()
    await store.shutdown(interceptors: .finish(within: .seconds(10)))
    // Without a trace.
    _ = store
    let spans = Dictionary(uniqueKeysWithValues: tracer.finishedSpans.map { ($0.operationName, $0) })
    #expect(Set(spans.keys) == ["send add", "commit add", "effect work", "request"])
    let send = try #require(spans["send add"])
    #expect(spans.values.allSatisfy { $0.traceID == send.traceID })
    #expect(spans["commit add"]?.links.count == 1)
    #expect(spans["commit add"]?.parentSpanID == send.spanID)
    #expect(spans["request"]?.parentSpanID == spans["effect work"]?.spanID)
    #expect(spans["commit add"]?.attributes.get("puredux.commit.position") == .int64(1))
  }

  @Test func `the span of an effect says how it went`() async throws {
    let tracer = InMemoryTracer()
    let clock = ManualClock()
    let store = RootStore<Int, String>(
      initialState: 0,
      options: StoreOptions(clock: clock, reporting: { _ in }, instrument: StoreTracing(tracer: tracer)),
      interceptors: .effects { action, _ in
        switch action {
        case "fails": .run { _ in throw Broken() }.id("fails")
        case "is caught": .run { _ in throw Broken() }.catching { _ in "" }.id("is caught")
        case "is late":
          .run { dispatch in try await dispatch.sleep(for: .seconds(60)) }.timeout(after: .seconds(1), "").id("is late")
        case "works": .run { _ in }.id("works")
        default: nil
        }
      }
    ) { _, _ in }
    for action in ["fails", "is caught", "is late", "works"] { try await store.send(action) }
    await store.settled()
    clock.advance(by: .seconds(1))
    await store.shutdown(interceptors: .finish(within: .seconds(10)))
    let spans = Dictionary(uniqueKeysWithValues: tracer.finishedSpans.map { ($0.operationName, $0) })
    #expect(spans["effect fails"]?.errors.map { "\($0.error)" } == ["Broken()"])
    #expect(spans["effect fails"]?.status?.code == .error)
    #expect(spans["effect is caught"]?.errors.map { "\($0.error)" } == ["Broken()"])
    #expect(spans["effect is caught"]?.status == nil)
    #expect(spans["effect is late"]?.errors.map { "\($0.error)" } == ["It took longer than its limit: 1.0 seconds."])
    #expect(spans["effect is late"]?.status?.code == .error)
    #expect(spans["effect works"]?.errors.isEmpty == true)
    #expect(spans["effect works"]?.status == nil)
  }

  @Test(arguments: [true, false])
  func `stores end before their log is closed, whichever service is shut down first`(logIsLast: Bool) async throws {
    let closed = Mutex<[String]>([])
    let store = RootStore<Int, Action>(
      initialState: 0,
      interceptors: .effects { _, _ in
        .run { dispatch in
          try? await Task.sleep(for: .seconds(600))
          closed.withLock { $0.append("effect") }
        }
      }, reducer: Action.reduce)
    try await store.send(.add(1))
    let states = store.states()
    let stores = StoreService(store, interceptors: .cancel)
    let log = LogService(after: stores) { closed.withLock { $0.append("log") } }
    let services: [any Service] = logIsLast ? [stores, log] : [log, stores]
    try await testGracefulShutdown { trigger in
      try await withThrowingTaskGroup { tasks in
        tasks.addTask {
          try await ServiceGroup(services: services, logger: Logger(label: "test")).run()
        }
        tasks.addTask {
          trigger.triggerGracefulShutdown()
          for await _ in states {}
        }
        try await tasks.waitForAll()
      }
    }
    #expect(closed.withLock { $0 } == ["effect", "log"])
  }

  @Test(.timeLimit(.minutes(1)), arguments: [true, false])
  func `an effect may ask for the end of its own store`(isFirst: Bool) async throws {
    let service = Mutex<StoreService?>(nil)
    let (asked, returned) = (Gate(), Gate())
    let store = RootStore<Int, Action>(
      initialState: 0,
      interceptors: .effects { action, _ in
        guard case .add = action else { return nil }
        return .run { _ in
          await asked.wait()
          await service.withLock { $0 }?.shutdown()
          returned.open()
        }
      }, reducer: Action.reduce)
    let stores = StoreService(store)
    service.withLock { $0 = stores }
    try await store.send(.add(1))
    async let ending: Void = isFirst ? () : stores.shutdown()
    while !isFirst, store.dispatch(.fail) != .terminated { await Task.yield() }
    asked.open()
    await returned.wait()
    await ending
    await stores.shutdown()
    #expect(store.dispatch(.add(1)) == .terminated)
  }

  @Test(arguments: [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]], ["asked", "cancelled", "failed"])
  func `what was sent is in the log, in any order of services and however they end`(
    order: [Int], end: String
  ) async throws {
    struct Sender: Service {
      let store: RootStore<Int, Action>
      let failsAfter: Int?
      let begun: Gate
      let sent: Atomic<Int>.Box

      func run() async throws {
        let isAsked = Atomic<Int>.Box()
        try await withGracefulShutdownHandler {
          while isAsked.value.load(ordering: .relaxed) == 0 {
            do { try await store.send(.add(1)) } catch { break }
            let count = sent.value.add(1, ordering: .relaxed).newValue
            if count == 20 { begun.open() }
            if count == failsAfter { throw Broken() }
          }
        } onGracefulShutdown: {
          isAsked.value.store(1, ordering: .relaxed)
        }
        try? await gracefulShutdown()
      }
    }
    let directory = "\(NSTemporaryDirectory())/puredux-\(UInt64.random(in: 1 ... .max))"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let metrics = StoreMetrics(factory: TestMetrics(), every: .milliseconds(1))
    let log = try FileLog(directory: directory)
    var options = FollowingOptions<Int, Action>(fingerprint: .unchecked)
    options.store.instrument = metrics
    let store = try await RootStore<Int, Action>(
      following: log["sum"], initialState: 0, options: options, reducer: Action.reduce)
    let sender = Sender(store: store, failsAfter: end == "failed" ? 50 : nil, begun: Gate(), sent: .init())
    let stores = StoreService(store)
    let all: [any Service] = [sender, stores, LogService(log, after: stores), metrics]
    var logger = Logger(label: "test")
    logger.logLevel = .critical
    await testGracefulShutdown { trigger in
      let group = ServiceGroup(services: order.map { all[$0] }, logger: logger)
      let running = Task { try await group.run() }
      await sender.begun.wait()
      switch end {
      case "asked": await group.triggerGracefulShutdown()
      case "cancelled": running.cancel()
      default: break
      }
      _ = await running.result
      _ = trigger
    }
    await stores.shutdown()
    let count = sender.sent.value.load(ordering: .relaxed)
    let again = try FileLog(directory: directory)
    let reopened = try await RootStore<Int, Action>(
      following: again["sum"], initialState: 0, options: FollowingOptions(fingerprint: .unchecked),
      reducer: Action.reduce)
    let state = await reopened.state
    // A `send` that was cancelled on its way may be committed as well.
    #expect(state == count || state == count + 1)
    await LogService(again, after: StoreService(reopened)).shutdown()
  }

  /// A server that responds with a stream of states, and waits for the stream on graceful shutdown.
  private struct StreamingServer: Service {
    let states: AsyncStream<Int>
    let answered: AsyncStream<Void>.Continuation

    func run() async throws {
      for await _ in states.cancelOnGracefulShutdown() { answered.yield() }
      try? await gracefulShutdown()
    }
  }

  @Test(.timeLimit(.minutes(1))) func `a server with an open stream ends before its store`() async throws {
    let store = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let (answers, answered) = AsyncStream.makeStream(of: Void.self)
    let services: [any Service] = [StoreService(store), StreamingServer(states: store.states(), answered: answered)]
    try await testGracefulShutdown { trigger in
      try await withThrowingTaskGroup { tasks in
        tasks.addTask { try await ServiceGroup(services: services, logger: Logger(label: "test")).run() }
        for await _ in answers { break }
        trigger.triggerGracefulShutdown()
        try await tasks.waitForAll()
      }
    }
    #expect(store.dispatch(1) == .terminated)
  }

  @Test func `a file log can be opened again when its service has ended`() async throws {
    let directory = "\(NSTemporaryDirectory())/puredux-\(UInt64.random(in: 1 ... .max))"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    for round in 1...2 {
      let log = try FileLog(directory: directory)
      let store = try await RootStore<Int, Action>(
        following: log["sum"], initialState: 0, options: FollowingOptions(fingerprint: .unchecked),
        reducer: Action.reduce)
      #expect(await store.state == round - 1)
      try await store.send(.add(1))
      await LogService(log, after: StoreService(store)).shutdown()
    }
  }
}
