#if Simulation && compiler(>=6.3) && os(Linux)
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
    private(set) var reached: [String: Bool] = [:]
    private var clients: [Client] = []
    private(set) var processes: [SimulatedProcess] = []
    private var logs: [SimulatedLog] = []
    private var finalChecks: [@Sendable () async throws -> Void] = []
    private(set) var isQuiet = false
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
        /// The last events.
        case events
        /// Every event, and every step.
        case steps
      }
    }

    private struct Client {
      let name: String
      var isDone = false
    }

    init(seed: UInt64, _ settings: Settings) {
      self.seed = seed
      self.settings = settings
    }

    /// The users of random numbers. Each has its own sequence.
    enum Chance {
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

    func seed(of chance: Chance) -> UInt64 {
      var generator = SeededGenerator(seed: seed ^ (chance.number &* 0xD1B5_4A32_D192_ED03))
      return generator.next()
    }

    // MARK: Set up

    /// Makes a log that outlives every process.
    public func log(_ reliability: SimulatedLog.Reliability = .reliable) -> SimulatedLog {
      let log = SimulatedLog(reliability, seed: seed(of: .log(logs.count)), in: self)
      logs.append(log)
      return log
    }

    /// Starts a process. If its work returns or throws while the simulation runs, the simulation fails.
    ///
    /// - Parameters:
    ///   - name: The name in reports.
    ///   - faults: What happens to the process.
    ///   - work: Opens stores, offers a service to clients (`SimulatedProcess.offer`), and then runs until it is
    ///     cancelled. Called again at each restart.
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

    /// Starts a client: work outside of the processes. The simulation ends when all clients have returned. If one
    /// throws, the simulation fails.
    public func client(_ name: String = "client", _ work: @escaping @Sendable () async throws -> Void) {
      let index = clients.count
      clients.append(Client(name: "\(name) \(index + 1)"))
      if settings.omittedClients.contains(index) {
        clients[index].isDone = true
        return
      }
      outside { [self] in
        do {
          try await work()
        } catch {
          fail("a client threw an error", details: "\(clients[index].name): \(error)")
        }
        clients[index].isDone = true
        note("\(clients[index].name) is done")
        if clients.allSatisfy(\.isDone) { lastClient.take()?.resume() }
      }
    }

    // MARK: Conditions

    /// Fails the simulation if a state violates a condition.
    ///
    /// - Parameters:
    ///   - name: The condition, as a sentence, for reports.
    ///   - open: Opens a store that follows the log, outside of the processes. Use `SimulatedLog.reliable`.
    ///   - condition: Called with each state, in order.
    public func always<State, Action>(
      _ name: String, in open: @escaping @Sendable () async throws -> RootStore<State, Action>,
      _ condition: @escaping @Sendable (State) -> Bool
    ) {
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
            for await state in store.states() where !condition(state) {
              return fail("not always: \(name)", details: "The state is \(state)")
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

    /// Fails the simulation if the state does not fulfil a condition within ten virtual minutes after the last client has
    /// returned.
    ///
    /// - Parameters:
    ///   - name: The condition, as a sentence, for reports.
    ///   - open: Opens a store that follows the log, outside of the processes. Use `SimulatedLog.reliable`.
    ///   - condition: Called with the state once a second.
    public func eventually<State, Action>(
      _ name: String, in open: @escaping @Sendable () async throws -> RootStore<State, Action>,
      _ condition: @escaping @Sendable (State) -> Bool
    ) {
      finalChecks.append { [self] in
        let store = try await open()
        for _ in 0..<600 {
          if condition(await store.state) { return }
          try await Task.sleep(for: .seconds(1))
        }
        fail("not eventually: \(name)", details: "The state is \(await store.state)")
      }
    }

    /// Starts a task that belongs to no process, whoever calls.
    func outside(_ work: @escaping @Sendable () async -> Void) {
      engine.within(Engine.outside) { _ = Task { await work() } }
    }

    /// Records whether something rare has happened. A simulation reports the names for which it was false in every world.
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

    /// Adds an event to the trace of this world, which the report of a failure shows.
    public func note(_ event: @autoclosure () -> String) {
      if settings.trace == .off { return }
      add("\(name(of: engine.current)): \(event())")
    }

    /// An instrument that adds a store's commits to the trace. Pass it as `StoreOptions.instrument`.
    public var instrument: any StoreInstrument { TraceInstrument(world: self) }

    private struct TraceInstrument: StoreInstrument {
      let world: World

      func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
        if !commit.isReplay { world.note("\(store.name) commits \(action)") }
      }
    }

    private func add(_ event: String) {
      let schedule = engine.schedule
      let (seconds, rest) = schedule.now.quotientAndRemainder(dividingBy: 1_000_000_000)
      let micros = String(rest / 1_000 + 1_000_000).dropFirst()
      let line = "step \(schedule.stepCount) at \(seconds).\(micros) s, \(event)"
      trace.append(line)
      // A world that traps has no other way to tell.
      FileHandle.standardError.write(Data((line + "\n").utf8))
      if settings.trace == .events, trace.count > 4_000 { trace.removeFirst(2_000) }
    }

    private func name(of incarnation: Int) -> String {
      processes.first { $0.incarnation == incarnation && $0.isUp }?.name ?? "outside"
    }

    // MARK: Run

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
          await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            if clients.allSatisfy(\.isDone) { continuation.resume() } else { lastClient = continuation }
          }
          isQuiet = true
          for process in processes { process.recover() }
          for log in logs { log.becomeReliable() }
          // For conditions on the last states.
          try await Task.sleep(for: .seconds(10))
          for check in finalChecks { try await check() }
          if outcome == nil { outcome = .passed }
        } catch {
          fail("the simulation threw an error", details: "\(error)")
        }
      }
      while outcome == nil {
        guard let step = engine.step() else {
          return fail("nothing can run any more", details: "Not done: \(unfinished)")
        }
        if settings.trace == .steps {
          add("\(name(of: step.process)): task \(step.task)" + (step.woken.isEmpty ? "" : ", wakes \(step.woken)"))
        }
        if engine.schedule.stepCount >= settings.stepLimit { fail(limitReason, details: "Not done: \(unfinished)") }
      }
    }

    private var limitReason: String {
      let (steps, limit) = (engine.schedule.stepCount - engine.schedule.lastRest, settings.stepLimit)
      return steps > limit / 2
        ? "no end in \(limit) steps: a livelock, in which the last \(steps) steps waited for no clock"
        : "no end in \(limit) steps"
    }

    private var engine: Engine { .shared }

    private var unfinished: String {
      let names = clients.filter { !$0.isDone }.map(\.name)
      return names.isEmpty ? "the conditions" : names.joined(separator: ", ")
    }
  }
#endif
