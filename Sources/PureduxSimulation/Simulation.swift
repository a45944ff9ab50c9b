#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import Foundation
  import Puredux

  /// Runs a service as a simulation: once for each seed, on one thread, in an order of steps that the seed determines,
  /// in virtual time.
  ///
  ///     @Test func `no seat is sold twice`() async throws {
  ///       try await Simulation(seeds: 1...1_000) { world in
  ///         let log = world.log(.unreliable)
  ///         let servers = (1...3).map { number in
  ///           world.process("server \(number)", [.crashing(every: .seconds(60))]) { process in
  ///             let store = try await seats(on: log)
  ///             process.offer(store)
  ///             for await _ in store.states() {}
  ///           }
  ///         }
  ///         for number in 1...20 {
  ///           world.client {
  ///             // Faults happen only while a client is at work.
  ///             try await Task.sleep(for: .seconds(Int.random(in: 0..<120)))
  ///             do {
  ///               try await servers.randomElement()!.call {
  ///                 try await book(Booking(seat: number % 5, client: number), in: $0)
  ///               }
  ///             } catch is SimulatedProcess.Crashed {} catch StoreError.outcomeUnknown {}
  ///           }
  ///         }
  ///         world.always("no seat is sold twice", in: { try await seats(on: log.reliable) }) { seats in
  ///           seats.buyers.allSatisfy { $0.value.count == 1 }
  ///         }
  ///       }.run()
  ///     }
  ///
  /// The guide on simulation has `seats(on:)` and `book(_:in:)`.
  ///
  /// Worlds run in child processes. A child is this program, started again: with Swift Testing, it executes only the
  /// tests in the caller's file that have the caller's name. Use a name once in a file, and a test without parameters.
  /// Earlier calls of `run()` return an empty report in the child: `#require` on their results would end it. Two calls
  /// of `run()` on one line must not overlap.
  public struct Simulation: Sendable {
    private let seeds: ClosedRange<UInt64>
    private let regressions: [UInt64]
    private let stepLimit: Int
    private let setUp: @Sendable (World) async throws -> Void

    /// - Parameters:
    ///   - seeds: Each is a world of its own.
    ///   - regressions: Seeds to run first, such as one that failed. After a change of the code, a seed may be another
    ///     world.
    ///   - stepLimit: A world that has not ended after so many steps fails.
    ///   - setUp: Sets a world up: its logs, processes, clients and conditions.
    public init(
      seeds: ClosedRange<UInt64>, regressions: [UInt64] = [], stepLimit: Int = 1_000_000,
      _ setUp: @escaping @Sendable (World) async throws -> Void
    ) {
      self.seeds = seeds
      self.regressions = regressions
      self.stepLimit = stepLimit
      self.setUp = setUp
    }

    /// The result of a simulation without a failure.
    public struct Report: Sendable {
      /// The number of worlds.
      public var worlds = 0
      /// The steps of all worlds. A step runs one task until it waits or changes its executor.
      public var steps = 0
      /// The names of `World.sometimes` whose condition was false in every world.
      public var neverReached: [String] = []
    }

    /// A world that failed.
    public struct Failure: Error, CustomStringConvertible {
      /// The seed of the world that failed. If a child process has ended without an answer, its first seed. If `run`
      /// refuses the call, zero.
      public let seed: UInt64
      public let description: String
    }

    /// How `run` looks for code that depends on anything outside of the world, such as the address of an object.
    public enum Check: Sendable {
      /// Each world runs once.
      case none
      /// Each world runs twice, in two processes. A step that differs is a failure, and so is a failure of either run.
      case steps
      /// Like `steps`, with another order of sets and dictionaries in each process.
      case stepsWithRandomHashing
    }

    /// Runs the worlds, and returns when all have passed. The simulations of a process together run at most one world
    /// for each processor at a time.
    ///
    /// If the environment has `PUREDUX_SIMULATION_SEED`, every simulation of the process runs only that world: a seed, or
    /// a smaller world that a report names. With `PUREDUX_SIMULATION_TRACE=events`, a failure shows all its events; with
    /// `PUREDUX_SIMULATION_TRACE=steps`, also its steps. With `PUREDUX_SIMULATION_DEBUGGER=1`, that world waits until a
    /// debugger has attached to it, and the limits of its time do not apply.
    ///
    /// - Parameters:
    ///   - arguments: The arguments of the child processes. By default, those of this process; in a test, those that run
    ///     the calling test alone.
    ///   - check: Whether each world is repeated and compared.
    ///   - function: The calling test, whose name selects it. A helper passes the `#function`, `#fileID` and `#line` of
    ///     its caller.
    ///   - fileID: The file of the calling test.
    ///   - line: The line of the call, which identifies it.
    /// - Throws: `Failure` for the first reported failure, which need not have the lowest seed. `Failure` as well if the
    ///   caller is a test with parameters, a test of XCTest, or a world; if another call on this line has not returned; if
    ///   `PUREDUX_SIMULATION_SEED` names no world, or is not set for a debugger; and if a child process ends without an
    ///   answer, or does not reach this call within a minute. Foundation's error if a child process cannot be started.
    ///   `CancellationError`.
    @discardableResult
    public func run(
      arguments: [String]? = nil, checking check: Check = .none, function: String = #function, fileID: String = #fileID,
      line: Int = #line
    ) async throws -> Report {
      if Engine.shared.isHere { throw Failure(seed: 0, description: "run() was called in a world.") }
      let place = "\(fileID):\(line) \(function)"
      let call = try Self.beginCall(at: place)
      defer { Self.endCall(at: place) }
      if let request = ChildRequest.ofThisProcess {
        // A child goes on to the call that it was started for.
        guard request.call == call else { return Report() }
        carryOut(request)
      }
      let child = Child(
        arguments: try arguments ?? Self.arguments(toRun: function, in: fileID), call: call,
        hasRandomHashing: check == .stepsWithRandomHashing)
      var batches = try batches()
      var report = Report()
      var reached: [String: Bool] = [:]
      try await withThrowingTaskGroup(of: [WorldResult].self) { tasks in
        func startNext() {
          guard let batch = batches.pop() else { return }
          tasks.addTask { try await results(of: batch, by: child, isChecked: check != .none) }
        }
        for _ in 0..<ProcessInfo.processInfo.activeProcessorCount { startNext() }
        while let results = try await tasks.next() {
          for result in results {
            if result.failure != nil {
              tasks.cancelAll()
              throw try await explain(result, by: child)
            }
            report.worlds += 1
            report.steps += result.steps
            reached.merge(result.reached) { $0 || $1 }
          }
          startNext()
        }
      }
      report.neverReached = reached.filter { !$0.value }.keys.sorted()
      return report
    }

    private static let calls = LockedValue<[String: (count: Int, isRunning: Bool)]>([:])

    /// Returns the call's place with its number there: a loop or a helper may call `run` again.
    private static func beginCall(at place: String) throws -> String {
      let (count, isFirst) = calls.withLock { calls in
        let (count, isRunning) = calls[place, default: (0, false)]
        calls[place] = (count + 1, true)
        return (count + 1, !isRunning)
      }
      if !isFirst { throw Failure(seed: 0, description: "Two calls of run() at \(place) run at a time.") }
      return "\(place) \(count)"
    }

    private static func endCall(at place: String) { calls.withLock { $0[place]?.isRunning = false } }

    private func request(for seeds: ClosedRange<UInt64>) -> ChildRequest {
      var settings = World.Settings(stepLimit: stepLimit)
      if let world = Self.chosenText.flatMap(WorldName.init) {
        (settings.omittedClients, settings.omittedFaults) = (world.omittedClients, world.omittedFaults)
      }
      return ChildRequest(
        first: seeds.lowerBound, last: seeds.upperBound, warmUp: self.seeds.lowerBound, settings: settings)
    }

    private func results(
      of seeds: ClosedRange<UInt64>, by child: Child, isChecked: Bool
    ) async throws -> [WorldResult] {
      var request = request(for: seeds)
      request.isDebugged = Self.isDebugged
      let results = try await child.run(request)
      request.isDebugged = false
      if isChecked {
        let again = try await child.run(request)
        for (one, other) in zip(results, again) {
          if !other.isRepetition(of: one) {
            let failed = [one, other].first { $0.failure != nil }
            announce("two runs of seed \(one.seed) differ" + (failed.map { ": one \($0.summary)" } ?? ""))
            throw try await difference(of: one.seed, by: child, after: failed)
          }
          // An issue of `#expect` changes no step.
          if one.failure == nil, other.failure != nil { return again }
        }
      }
      return results
    }

    private func batches() throws -> Batches {
      guard let text = Self.chosenText else {
        if Self.isDebugged {
          throw Failure(seed: 0, description: "PUREDUX_SIMULATION_DEBUGGER needs PUREDUX_SIMULATION_SEED as well.")
        }
        let share = (seeds.upperBound - seeds.lowerBound) / UInt64(ProcessInfo.processInfo.activeProcessorCount)
        return Batches(
          regressions: regressions[...], next: seeds.lowerBound, last: seeds.upperBound, size: min(share, 249) + 1)
      }
      guard let world = WorldName(text) else {
        throw Failure(seed: 0, description: "PUREDUX_SIMULATION_SEED names no world: \(text)")
      }
      return Batches(regressions: [world.seed], next: nil, last: world.seed, size: 1)
    }

    /// The world that the environment names.
    private static var chosenText: String? { ProcessInfo.processInfo.environment["PUREDUX_SIMULATION_SEED"] }

    private static var isDebugged: Bool { ProcessInfo.processInfo.environment["PUREDUX_SIMULATION_DEBUGGER"] == "1" }

    /// The seeds of one child each.
    private struct Batches {
      var regressions: ArraySlice<UInt64>
      var next: UInt64?
      let last: UInt64
      let size: UInt64

      mutating func pop() -> ClosedRange<UInt64>? {
        if let seed = regressions.popFirst() { return seed...seed }
        guard let first = next else { return nil }
        let end = last - first >= size ? first + size - 1 : last
        next = end == last ? nil : end + 1
        return first...end
      }
    }

    /// In a process of Swift Testing, the arguments that run one test.
    private static func arguments(toRun function: String, in fileID: String) throws -> [String] {
      var arguments = Array(CommandLine.arguments.dropFirst())
      guard CommandLine.arguments[0].hasSuffix(".xctest") || arguments.contains("--testing-library") else {
        return arguments
      }
      guard arguments.contains("swift-testing") || arguments.contains("--testing-library=swift-testing") else {
        throw Failure(seed: 0, description: "\(function) is a test of XCTest. Call run() in a test of Swift Testing.")
      }
      // A child would not know which of the test's cases it is for.
      let parameters = function.lastIndex(of: "(") ?? function.endIndex
      if function[parameters...].contains(":") {
        throw Failure(seed: 0, description: "\(function) has parameters. Call run() in a test without parameters.")
      }
      // The child must not write over the files of this process.
      let dropped = [
        "--filter", "--skip", "--xunit-output", "--event-stream-output-path", "--attachments-path",
        "--experimental-event-stream-output", "--experimental-attachments-path", "--configuration-path",
        "--experimental-configuration-path", "--verbosity",
      ]
      arguments.removeAll { argument in dropped.contains { argument.hasPrefix($0 + "=") } }
      while let index = arguments.firstIndex(where: dropped.contains) {
        arguments.removeSubrange(index...min(index + 1, arguments.count - 1))
      }
      let name = function[..<parameters].filter { $0 != "`" }
      let file = fileID.split(separator: "/").last ?? ""
      let patterns = [String(name), String(file)].map { NSRegularExpression.escapedPattern(for: $0) }
      // The description of a test in Swift Testing: module, suites, function, file, line and column.
      return arguments + ["--filter", "[./]`?\(patterns[0])`?\\(.*/\(patterns[1]):"]
    }

    // MARK: A failure

    /// Prints a failure at once: a time limit may end the test before the report.
    private func announce(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }

    /// Repeats a failure with its trace, and looks for a smaller world that fails.
    private func explain(_ failed: WorldResult, by child: Child) async throws -> Failure {
      announce("seed \(failed.seed) \(failed.summary)")
      var request = request(for: failed.seed...failed.seed)
      let trace = ProcessInfo.processInfo.environment["PUREDUX_SIMULATION_TRACE"]
      let showsAll = trace != nil
      request.settings.trace = trace == nil ? .lastEvents : trace == "events" ? .events : .steps
      let repeated: WorldResult
      do {
        guard let result = try await child.run(request).last, result.isRepetition(of: failed) || result.hasReachedLimit
        else {
          return try await difference(of: failed.seed, by: child, after: failed)
        }
        repeated = result
      } catch let error where !(error is CancellationError) {
        return Failure(
          seed: failed.seed,
          description: "seed \(failed.seed) \(failed.summary)\nThe world could not be repeated: \(error)")
      }
      if repeated.failure == nil {
        return Failure(
          seed: failed.seed,
          description: """
            seed \(failed.seed) \(failed.summary)
            Another run has the same steps and passes: the failure depends on something outside of the world.
            """)
      }
      if !repeated.isRepetition(of: failed) {
        return Failure(
          seed: failed.seed,
          description: """
            seed \(failed.seed) \(failed.summary)
            Its events cannot be shown: with their record, it \(repeated.summary)
            Repeat it with PUREDUX_SIMULATION_SEED=\(WorldName(failed.seed, request.settings).text) in the environment.
            """)
      }
      // A world that traps or does not end has counted nothing.
      let (smallest, shown) =
        showsAll || repeated.steps == 0 || request.settings.isSmaller
        ? (request, repeated) : await shrink(repeated, request, by: child)
      var lines = ["seed \(failed.seed) \(failed.summary)"]
      if smallest.settings.isSmaller, !request.settings.isSmaller {
        let clients = repeated.clientCount - smallest.settings.omittedClients.count
        let faults = repeated.faultCount - smallest.settings.omittedFaults.count
        lines.append(
          "With \(clients) of \(repeated.clientCount) clients and \(faults) of \(repeated.faultCount) faults, "
            + "seed \(shown.seed) \(shown.summary)")
      }
      let events = shown.trace.suffix(showsAll ? .max : 30)
      if events.count < shown.eventCount { lines.append("Earlier events: \(shown.eventCount - events.count)") }
      lines += events
      let names = [WorldName(failed.seed, request.settings), WorldName(shown.seed, smallest.settings)].map(\.text)
      lines.append(
        "Repeat it with PUREDUX_SIMULATION_SEED=\(names[0]) in the environment"
          + (names[0] == names[1] ? "." : ", and the smaller world with PUREDUX_SIMULATION_SEED=\(names[1])."))
      let description = lines.joined(separator: "\n")
      // After a time limit, Swift Testing discards the error of the test.
      if Task.isCancelled { announce(description) }
      return Failure(seed: failed.seed, description: description)
    }

    /// Leaves out one client or fault after the other, as long as the world fails. Begins no attempt after a minute, in
    /// which other simulations of this process may use the processors. If a world fails because something did not happen,
    /// all clients are kept: without a client, it may be impossible.
    private func shrink(
      _ failed: WorldResult, _ request: ChildRequest, by child: Child
    ) async -> (ChildRequest, WorldResult) {
      var smallest = (request: request, result: failed)
      let end = ContinuousClock.now + .seconds(60)
      func attempt(_ change: (inout World.Settings) -> Void) async throws {
        guard ContinuousClock.now < end else { return }
        var smaller = smallest.request
        change(&smaller.settings)
        // The schedule changes, so other seeds may have to be tried.
        (smaller.first, smaller.last) = (failed.seed, failed.seed <= .max - 20 ? failed.seed + 20 : failed.seed)
        smaller.stepLimit = min(stepLimit, 10 * failed.steps + 1_000)
        smaller.expected = failed.failure?.reason
        guard let found = try await child.run(smaller).last, found.failure != nil else { return }
        (smaller.first, smaller.last) = (found.seed, found.seed)
        smallest = (smaller, found)
      }
      let clients = failed.failure?.isAboutProgress == true ? 0 : failed.clientCount
      do {
        for client in (0..<clients).reversed() { try await attempt { $0.omittedClients.insert(client) } }
        for fault in (0..<failed.faultCount).reversed() { try await attempt { $0.omittedFaults.insert(fault) } }
      } catch {
        // The failure is known, and is reported as it is.
      }
      return smallest
    }

    /// Runs a seed of which two runs differed until two runs differ again, and names the first step that does.
    ///
    /// - Parameter failed: The earlier run that failed, if one did.
    private func difference(of seed: UInt64, by child: Child, after failed: WorldResult?) async throws -> Failure {
      let summary = failed.map { "seed \(seed) \($0.summary)\n" } ?? ""
      var request = request(for: seed...seed)
      request.settings.trace = .steps
      guard let one = try await child.run(request).last else {
        return Failure(seed: seed, description: "\(summary)Two runs differ.")
      }
      var other = one
      func isDifferent() -> Bool { !other.isRepetition(of: one) && !other.hasReachedLimit && !one.hasReachedLimit }
      // The difference may be rare.
      for _ in 0..<20 where !isDifferent() && !one.hasReachedLimit { other = try await child.run(request).last ?? one }
      if !isDifferent() {
        let limited = [one, other].first(where: \.hasReachedLimit)
        return Failure(
          seed: seed,
          description: "\(summary)Two runs of seed \(seed) differ. "
            + (limited.map { "With the record of its steps, seed \(seed) \($0.summary)" }
              ?? "This did not happen again in 21 runs."))
      }
      let first = zip(one.trace, other.trace).firstIndexOfDifference ?? min(one.trace.count, other.trace.count)
      func shown(_ result: WorldResult) -> String {
        first < result.trace.count ? result.trace[first] : "the end" + (result.failure.map { ": \($0.reason)" } ?? "")
      }
      return Failure(
        seed: seed,
        description: """
          \(summary)Two runs of seed \(seed) differ: the simulated code depends on something outside of the world.
          \(one.trace[max(0, first - 10)..<first].joined(separator: "\n"))
          then, in one run: \(shown(one))
          in the other run: \(shown(other))
          """)
    }

    // MARK: In a child

    private func carryOut(_ request: ChildRequest) -> Never {
      Forks(request: request).run { seed, settings in
        let world = World(seed: seed, settings)
        world.run(setUp)
        return WorldResult(of: world, Engine.shared.schedule)
      }
    }
  }

  extension Sequence where Element == (String, String) {
    fileprivate var firstIndexOfDifference: Int? { enumerated().first { $0.element.0 != $0.element.1 }?.offset }
  }
#endif
