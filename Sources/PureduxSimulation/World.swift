#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import Foundation
  public import Puredux
  import PureduxLogTesting

  /// A simulated system: processes, clients, logs and conditions. One seed determines it. The closure of a `Simulation`
  /// sets it up.
  ///
  /// Everything in the world runs on one thread, in an order that the seed determines. Time is virtual: `Task.sleep`,
  /// `ContinuousClock`, `SuspendingClock`, `Date` and `WallTime.now` show it. Random numbers of the system and `UUID()` come
  /// from the seed.
  ///
  /// SAFETY: a world is used only by jobs of its simulation, which run on one thread, one at a time.
  public final class World: @unchecked Sendable {
    /// The seed that determines this world.
    public let seed: UInt64
    let settings: Settings

    enum Outcome: Equatable {
      case passed
      /// The kind of failure, and the details, which differ from world to world.
      case failed(String, details: String = "")
    }

    private(set) var outcome: Outcome?
    /// The last events, if they are recorded.
    private(set) var trace: [String] = []
    /// The number of all events, also of those that `trace` no longer has.
    private(set) var eventCount = 0
    private(set) var reached: [String: Bool] = [:]
    private var clients: [Client] = []
    private(set) var processes: [SimulatedProcess] = []
    private var logs: [SimulatedLog] = []
    private var conditions: [Condition] = []
    private var finalChecks: [@Sendable () async throws -> Void] = []
    private var isSetUp = false
    private(set) var haveFaultsEnded = false
    private var processCount = Engine.outside
    /// Resumed when the last client is done.
    private var lastClient: CheckedContinuation<Void, Never>?

    /// How a world is run.
    struct Settings: Codable, Sendable {
      var stepLimit = 1_000_000
      var trace = Trace.off
      /// The clients and faults that are left out, by their indices.
      var omittedClients: Set<Int> = []
      var omittedFaults: Set<Int> = []

      var isSmaller: Bool { !omittedClients.isEmpty || !omittedFaults.isEmpty }

      enum Trace: Codable {
        case off
        case lastEvents
        /// Every event.
        case events
        /// Every event, and every step.
        case steps
      }
    }

    private struct Client {
      let name: String
      var isDone = false
    }

    /// A call of `always`. An evaluation may take longer than the time between two states.
    private struct Condition {
      let name: String
      var stateCount = 0
      var evaluationCount = 0
    }

    init(seed: UInt64, _ settings: Settings) {
      self.seed = seed
      self.settings = settings
    }

    /// The users of random numbers. Each has its own sequence.
    enum RandomSequence {
      case schedule
      case system
      case log(Int)

      fileprivate var number: UInt64 {
        switch self {
        case .schedule: 1
        case .system: 2
        case .log(let index): 3 + UInt64(index)
        }
      }
    }

    func seed(of sequence: RandomSequence) -> UInt64 {
      var generator = SeededGenerator(seed: seed ^ (sequence.number &* 0xD1B5_4A32_D192_ED03))
      return generator.next()
    }

    // MARK: Set up

    /// Makes a log of one tree. It outlives every process.
    public func log(_ reliability: SimulatedLog.Reliability = .reliable) -> SimulatedLog {
      failIfLate("a log")
      let log = SimulatedLog(reliability, seed: seed(of: .log(logs.count)), in: self)
      logs.append(log)
      return log
    }

    /// Starts a process. If its work returns or throws, the world fails. `LogError.unavailable`, which an opening throws
    /// if it does not reach the log in time, restarts the process, like a crash. After `SimulatedProcess.crash()`, the
    /// work may return.
    ///
    /// - Parameters:
    ///   - name: The name in reports.
    ///   - faults: The kinds of faults that the process has.
    ///   - work: Opens stores, offers a service to clients (`SimulatedProcess.offer`), and then runs for ever. A crash
    ///     stops it without a cancellation. Called again at each restart.
    @discardableResult
    public func process(
      _ name: String, _ faults: [SimulatedProcess.Fault] = [],
      _ work: @escaping @Sendable (SimulatedProcess) async throws -> Void
    ) -> SimulatedProcess {
      let kept = faults.enumerated().filter { !settings.omittedFaults.contains(faultCount + $0.offset) }.map(\.element)
      faultCount += faults.count
      let process = SimulatedProcess(name, kept, in: self, work)
      processes.append(process)
      process.start()
      return process
    }

    /// Starts a client: work outside of the processes. Ten virtual seconds after the last client has returned, the world
    /// evaluates the conditions of `eventually`, and ends. If a client throws, the world fails. A world without a client
    /// fails: it would end before any fault.
    ///
    /// - Parameters:
    ///   - name: The name in reports. By default, "client" with its number.
    ///   - work: The requests of the client.
    public func client(_ name: String? = nil, _ work: @escaping @Sendable () async throws -> Void) {
      let index = clients.count
      failIfLate("a client")
      clients.append(Client(name: name ?? "client \(index + 1)"))
      if settings.omittedClients.contains(index) {
        clients[index].isDone = true
        return
      }
      outside(clients[index].name) { [self] in
        do {
          try await work()
        } catch {
          fail("a client threw an error", details: "\(clients[index].name): \(error)")
        }
        clients[index].isDone = true
        note("is done")
        if clients.allSatisfy(\.isDone) { lastClient.take()?.resume() }
      }
    }

    // MARK: Conditions

    /// Fails the world if a state violates a condition, from the opening of the store until at least ten seconds after the
    /// last client has returned. States that a snapshot replaces before they are read are not checked.
    ///
    /// An evaluation may take time. After the ten seconds, the world waits until each state has been evaluated, for ten
    /// virtual minutes at most. It fails if an evaluation does not end, or if there was no state.
    ///
    /// - Parameters:
    ///   - name: The condition, as a sentence, for reports.
    ///   - open: Opens a store that follows the log, outside of the processes. Use `SimulatedLog.reliable`.
    ///   - condition: Called with each state, in order.
    public func always<State, Action>(
      _ name: String, in open: @escaping @Sendable () async throws -> RootStore<State, Action>,
      _ condition: @escaping @Sendable (State) async -> Bool
    ) {
      let number = conditions.count
      failIfLate("the condition \"\(name)\"")
      conditions.append(Condition(name: name))
      let (states, reader) = AsyncStream.makeStream(of: State.self)
      outside { [self] in
        for await state in states {
          if await !condition(state) { return fail("not always: \(name)", details: "The state is \(state)") }
          conditions[number].evaluationCount += 1
        }
      }
      outside { [self] in
        do {
          while true {
            let store = try await open()
            let stop = Task {
              for await case .stopped(let stop) in store.logPhases() {
                await store.shutdown()
                return LogStop?.some(stop)
              }
              return nil
            }
            for await state in store.states() {
              conditions[number].stateCount += 1
              reader.yield(state)
            }
            // Reopened if the log was truncated faster than it was read.
            let reason = await stop.value
            if case .unreadable = reason { continue }
            return fail("the store of the condition \"\(name)\" has ended", details: reason.map { "\($0)" } ?? "")
          }
        } catch {
          fail("the store of the condition \"\(name)\" cannot be opened", details: "\(error)")
        }
      }
    }

    /// Opens a store ten seconds after the last client has returned, and evaluates a condition once a second. The world
    /// fails if no evaluation that begins within ten virtual minutes after the opening is true. It also fails if the
    /// opening or one evaluation takes more than ten virtual minutes. Several conditions are evaluated one after the other.
    ///
    /// - Parameters:
    ///   - name: The condition, as a sentence, for reports.
    ///   - open: Opens a store that follows the log, outside of the processes. Use `SimulatedLog.reliable`.
    ///   - condition: Called with the state once a second.
    public func eventually<State, Action>(
      _ name: String, in open: @escaping @Sendable () async throws -> RootStore<State, Action>,
      _ condition: @escaping @Sendable (State) async -> Bool
    ) {
      failIfLate("the condition \"\(name)\"")
      finalChecks.append { [self] in
        let store: RootStore<State, Action>
        do { store = try await limited("The opening of its store", of: name, open) } catch {
          return fail("the store of the condition \"\(name)\" cannot be opened", details: "\(error)")
        }
        let end = ContinuousClock.now + Self.checkLimit
        repeat {
          if await limited("An evaluation", of: name, { await condition(await store.state) }) { return }
          try await Task.sleep(for: .seconds(1))
        } while ContinuousClock.now < end
        fail("\(Self.notEventually): \(name)", details: "The state is \(await store.state)")
      }
    }

    /// What is added after the last client has returned would not be awaited.
    private func failIfLate(_ part: String) {
      if haveFaultsEnded { fail("\(part) was added after the last client had returned") }
    }

    /// Makes a call for a condition, and fails the world if the call has not returned within ten virtual minutes.
    private func limited<Result>(
      _ call: String, of condition: String, _ body: () async throws -> Result
    ) async rethrows -> Result {
      let limit = Task { [self] in
        try await Task.sleep(for: Self.checkLimit)
        fail("\(Self.notEvaluated): \(condition)", details: "\(call) takes more than ten virtual minutes")
      }
      defer { limit.cancel() }
      return try await body()
    }

    /// Fails the world if a condition of `always` has not been evaluated for one of its first states.
    private func awaitEvaluations(_ number: Int, ofFirst count: Int) async throws {
      let name = conditions[number].name
      if count == 0 { return fail("\(Self.noState): \(name)") }
      let end = ContinuousClock.now + Self.checkLimit
      while conditions[number].evaluationCount < count {
        guard ContinuousClock.now < end else {
          return fail(
            "\(Self.notEvaluated): \(name)",
            details: "Of \(count) states, \(conditions[number].evaluationCount) were evaluated")
        }
        try await Task.sleep(for: .seconds(1))
      }
    }

    /// Starts a task that belongs to no process, even if a process calls this.
    func outside(_ name: String? = nil, _ work: @escaping @Sendable () async -> Void) {
      engine.within(Engine.outside) { _ = Task(name: name) { await work() } }
    }

    /// Records whether something rare has happened. `Simulation.Report.neverReached` has the names for which the condition
    /// was false in every world. It does not know a name that was never recorded: to learn that a `catch` is never
    /// reached, call this with `false` in the set-up.
    public func sometimes(_ name: String, _ condition: Bool) {
      reached[name] = reached[name] == true || condition
    }

    /// Ends this world as a failure.
    ///
    /// - Parameters:
    ///   - reason: The kind of failure. A smaller world counts as the same failure if this is equal.
    ///   - details: Values of this world, such as the state.
    public func fail(_ reason: String, details: String = "") {
      if outcome == nil { outcome = .failed(reason, details: details) }
    }

    /// Adds an event to the trace of this world, which the report of a failure shows with the running process and the
    /// name of the task. A request of `SimulatedProcess.call` has the name of the calling task, such as "client 3".
    public func note(_ event: String) {
      guard settings.trace != .off else { return }
      let process = engine.current == Engine.outside ? nil : name(of: engine.current)
      let names = [process, Task.name].compactMap(\.self)
      add("\(names.isEmpty ? name(of: Engine.outside) : names.joined(separator: ", ")): \(event)")
    }

    /// An instrument that adds a store's commits to the trace. Pass it as `StoreOptions.instrument`.
    public var instrument: any StoreInstrument { TraceInstrument(world: self) }

    private struct TraceInstrument: StoreInstrument {
      let world: World

      func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
        if !commit.isReplay, world.settings.trace != .off { world.note("\(store.name) commits \(action)") }
      }
    }

    private func add(_ event: String) {
      let schedule = engine.schedule
      let (seconds, rest) = schedule.now.quotientAndRemainder(dividingBy: 1_000_000_000)
      let micros = String(rest / 1_000 + 1_000_000).dropFirst()
      let line = "step \(schedule.stepCount) at \(seconds).\(micros) s, \(event)"
      trace.append(line)
      eventCount += 1
      // If the world traps, this is the only record.
      FileHandle.standardError.write(Data((line + "\n").utf8))
      if settings.trace == .lastEvents, trace.count > 4_000 { trace.removeFirst(2_000) }
    }

    private func name(of incarnation: Int) -> String {
      processes.first { $0.incarnation == incarnation }?.name ?? "outside"
    }

    // MARK: Run

    static let notEventually = "not eventually"
    static let notEvaluated = "not evaluated to its end"
    static let noState = "no state seen"
    static let standstill = "nothing can run any more"
    static let livelock = "a livelock"
    static let tooLong = "too many steps"
    /// The virtual time for which the end of a world waits for each condition.
    private static let checkLimit = Duration.seconds(600)

    var clientCount: Int { clients.count }
    private(set) var faultCount = 0

    func nextIncarnation() -> Int {
      processCount += 1
      return processCount
    }

    /// Runs the world to its end, on the thread of the simulation.
    func run(_ setUp: @escaping @Sendable (World) async throws -> Void) {
      engine.begin(self)
      outside { [self] in
        do {
          try await setUp(self)
          isSetUp = true
          if clients.isEmpty { fail("the world has no client") }
          while !clients.allSatisfy(\.isDone) { await withCheckedContinuation { lastClient = $0 } }
          haveFaultsEnded = true
          for process in processes { process.recover() }
          for log in logs { log.becomeReliable() }
          // For conditions on the last states.
          try await Task.sleep(for: .seconds(10))
          let stateCounts = conditions.map(\.stateCount)
          for check in finalChecks { try await check() }
          for (number, count) in stateCounts.enumerated() { try await awaitEvaluations(number, ofFirst: count) }
          let names = [(settings.omittedClients, clientCount), (settings.omittedFaults, faultCount)]
          if names.contains(where: { indices, count in indices.contains { !(0..<count).contains($0) } }) {
            fail("the name of the world leaves out a client or a fault that the world does not have")
          }
          if outcome == nil { outcome = .passed }
        } catch {
          fail("the set-up threw an error", details: "\(error)")
        }
      }
      while outcome == nil {
        guard let step = engine.step() else {
          return fail(
            Self.standstill,
            details:
              "Not done: \(unfinished). It waits for a service that no process offers, or for something that is not "
              + "simulated, such as a thread, a socket or a file")
        }
        if settings.trace == .steps {
          add(
            "\(name(of: step.process)): task \(step.task)" + (step.readied.isEmpty ? "" : ", wakes \(step.readied)")
              + (step.random.map { ", random state \(String($0, radix: 16))" } ?? ""))
        }
        if engine.schedule.stepCount >= settings.stepLimit { failAtLimit() }
      }
    }

    private func failAtLimit() {
      let steps = engine.schedule.stepCount - engine.schedule.lastTimeAdvance
      let isLivelock = steps > settings.stepLimit / 2
      fail(
        isLivelock ? Self.livelock : Self.tooLong,
        details: (isLivelock ? "The last \(steps) steps waited for no clock. " : "") + "Not done: \(unfinished)")
    }

    private var engine: Engine { .shared }

    private var unfinished: String {
      let names = clients.filter { !$0.isDone }.map(\.name)
      return !names.isEmpty ? names.joined(separator: ", ") : isSetUp ? "the conditions" : "the set-up"
    }
  }
#endif
