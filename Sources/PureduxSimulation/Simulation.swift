#if Simulation && compiler(>=6.3) && os(Linux)
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
  ///             try await Task.sleep(for: .seconds(1_000_000))
  ///           }
  ///         }
  ///         for number in 1...20 {
  ///           world.client { try await book(seat: number % 5, at: servers.randomElement()!) }
  ///         }
  ///         world.always("no seat is sold twice", in: { try await seats(on: log.reliable) }) { seats in
  ///           seats.sold.allSatisfy { $0.value.count <= 1 }
  ///         }
  ///       }.run()
  ///     }
  ///
  /// The worlds run in child processes: this program, started again. A child does everything that the program does
  /// before `run()`, where earlier calls of `run()` return an empty report. Then it copies itself for each world, and
  /// exits. With Swift Testing, a child runs only this test, which must have no parameters.
  public struct Simulation: Sendable {
    private let seeds: ClosedRange<UInt64>
    private let regressions: [UInt64]
    private let stepLimit: Int
    private let setUp: @Sendable (World) async throws -> Void

    /// - Parameters:
    ///   - seeds: Each is a world of its own.
    ///   - regressions: Seeds that failed before, which run first.
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
      /// The steps of all worlds. A step runs one task up to its next `await` that waits.
      public var steps = 0
      /// The names of `World.sometimes` whose condition was true in no world.
      public var neverReached: [String] = []
    }

    /// A world that failed.
    public struct Failure: Error, CustomStringConvertible {
      /// The seed of the world.
      public let seed: UInt64
      public let description: String
    }

    /// Runs the worlds, one for each processor at a time, and returns when all have passed.
    ///
    /// If the environment has `PUREDUX_SEED`, only that seed runs. With `PUREDUX_TRACE`, a failure shows all its events
    /// and steps.
    ///
    /// - Parameters:
    ///   - arguments: The arguments of the child processes. By default, those of this process; in a test, those that run
    ///     the calling test alone.
    ///   - isChecked: Whether each world runs twice, in two processes, and fails if a step differs. Then the simulated
    ///     code depends on something outside of the world, such as the address of an object.
    ///   - function: The calling function, whose name selects the test.
    ///   - fileID: Identifies the call, with `line`.
    ///   - line: The line of the call.
    /// - Throws: `Failure` for the first world that fails; Foundation's error if a child process cannot be started;
    ///   `CancellationError`.
    @discardableResult
    public func run(
      arguments: [String]? = nil, isChecked: Bool = false, function: String = #function, fileID: String = #fileID,
      line: Int = #line
    ) async throws -> Report {
      let call = Self.nextCall(at: "\(fileID):\(line) \(function)")
      if let order = Order.ofThisProcess {
        // A child goes on to the call that it was started for.
        guard order.call == call else { return Report() }
        carryOut(order)
      }
      let child = Child(arguments: arguments ?? Self.arguments(toRun: function), call: call)
      let only = ProcessInfo.processInfo.environment["PUREDUX_SEED"].flatMap { UInt64($0) }
      let batches = only.map { [$0...$0] } ?? regressions.map { $0...$0 } + Self.batches(of: seeds)
      var report = Report()
      var reached: [String: Bool] = [:]
      try await withThrowingTaskGroup(of: [WorldResult].self) { tasks in
        var left = batches[...]
        func startNext() {
          guard let batch = left.popFirst() else { return }
          tasks.addTask { try await results(of: batch, by: child, isChecked: isChecked) }
        }
        for _ in 0..<ProcessInfo.processInfo.activeProcessorCount { startNext() }
        while let results = try await tasks.next() {
          for result in results {
            if result.failure != nil { throw try await explain(result, by: child) }
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

    private static let calls = LockedValue<[String: Int]>([:])

    /// The call's place, and its number there: a loop or a helper may call `run` again.
    private static func nextCall(at place: String) -> String {
      calls.withLock { calls in
        calls[place, default: 0] += 1
        return "\(place) \(calls[place, default: 0])"
      }
    }

    private func order(of seeds: ClosedRange<UInt64>) -> Order {
      Order(
        first: seeds.lowerBound, last: seeds.upperBound, warmUp: self.seeds.lowerBound,
        settings: World.Settings(stepLimit: stepLimit))
    }

    private func results(
      of seeds: ClosedRange<UInt64>, by child: Child, isChecked: Bool
    ) async throws -> [WorldResult] {
      let order = order(of: seeds)
      let results = try await child.run(order)
      if isChecked {
        let again = try await child.run(order)
        for (one, other) in zip(results, again) where one.hash != other.hash {
          throw try await difference(of: one.seed, by: child)
        }
      }
      return results
    }

    private static func batches(of seeds: ClosedRange<UInt64>) -> [ClosedRange<UInt64>] {
      var (batches, first) = ([ClosedRange<UInt64>](), seeds.lowerBound)
      while true {
        let (sum, hasOverflown) = first.addingReportingOverflow(249)
        let last = hasOverflown ? seeds.upperBound : min(sum, seeds.upperBound)
        batches.append(first...last)
        if last == seeds.upperBound { return batches }
        first = last + 1
      }
    }

    /// In a process of Swift Testing, the arguments that run one test.
    private static func arguments(toRun function: String) -> [String] {
      var arguments = Array(CommandLine.arguments.dropFirst())
      guard arguments.contains("--testing-library") || CommandLine.arguments[0].hasSuffix(".xctest") else {
        return arguments
      }
      while let index = arguments.firstIndex(where: { ["--filter", "--skip"].contains($0) }) {
        arguments.removeSubrange(index...min(index + 1, arguments.count - 1))
      }
      let name = function[..<(function.lastIndex(of: "(") ?? function.endIndex)].filter { $0 != "`" }
      return arguments + ["--filter", NSRegularExpression.escapedPattern(for: String(name))]
    }

    // MARK: A failure

    /// Repeats a failure with its trace, and looks for a smaller world that fails.
    private func explain(_ failed: WorldResult, by child: Child) async throws -> Failure {
      var order = order(of: failed.seed...failed.seed)
      let showsAll = ProcessInfo.processInfo.environment["PUREDUX_TRACE"] != nil
      order.settings.trace = showsAll ? .steps : .events
      guard let repeated = try await child.run(order).last, repeated.hash == failed.hash else {
        return try await difference(of: failed.seed, by: child)
      }
      let (smallest, shown) = showsAll ? (order, repeated) : try await shrink(repeated, order, by: child)
      var lines = ["seed \(failed.seed) \(failed.summary)"]
      if smallest.settings.isSmaller {
        let clients = repeated.clientCount - smallest.settings.omittedClients.count
        let faults = repeated.faultCount - smallest.settings.omittedFaults.count
        lines.append(
          "With \(clients) of \(repeated.clientCount) clients and \(faults) of \(repeated.faultCount) faults, "
            + "seed \(shown.seed) \(shown.summary)")
      }
      lines += shown.trace.suffix(showsAll ? .max : 30)
      lines.append("Repeat it with PUREDUX_SEED=\(failed.seed) in the environment.")
      return Failure(seed: failed.seed, description: lines.joined(separator: "\n"))
    }

    /// Leaves out one client or fault after the other, as long as the world fails.
    private func shrink(_ failed: WorldResult, _ order: Order, by child: Child) async throws -> (Order, WorldResult) {
      var smallest = (order: order, result: failed)
      func attempt(_ change: (inout World.Settings) -> Void) async throws {
        var smaller = smallest.order
        change(&smaller.settings)
        // The schedule changes, so other seeds may have to be tried.
        (smaller.first, smaller.last) = (failed.seed, failed.seed <= .max - 20 ? failed.seed + 20 : failed.seed)
        smaller.settings.stepLimit = min(stepLimit, 10 * failed.steps + 1_000)
        smaller.expected = failed.failure?.reason
        guard let found = try await child.run(smaller).last, found.failure != nil else { return }
        (smaller.first, smaller.last) = (found.seed, found.seed)
        smallest = (smaller, found)
      }
      for client in (0..<failed.clientCount).reversed() { try await attempt { $0.omittedClients.insert(client) } }
      for fault in (0..<failed.faultCount).reversed() { try await attempt { $0.omittedFaults.insert(fault) } }
      return smallest
    }

    /// Runs a seed twice, and names the first step that differs.
    private func difference(of seed: UInt64, by child: Child) async throws -> Failure {
      var order = order(of: seed...seed)
      order.settings.trace = .steps
      let one = try await child.run(order).last
      var other = one
      // The difference may be rare.
      for _ in 0..<20 where other?.hash == one?.hash { other = try await child.run(order).last }
      let traces = (one?.trace ?? [], other?.trace ?? [])
      let first = zip(traces.0, traces.1).firstIndexOfDifference ?? min(traces.0.count, traces.1.count)
      func shown(_ trace: [String]) -> String { first < trace.count ? trace[first] : "nothing" }
      return Failure(
        seed: seed,
        description: """
          Two runs of seed \(seed) differ: the simulated code depends on something outside of the world.
          \(traces.0[max(0, first - 10)..<first].joined(separator: "\n"))
          then, in one run: \(shown(traces.0))
          in the other run: \(shown(traces.1))
          """)
    }

    // MARK: In a child

    private func carryOut(_ order: Order) -> Never {
      Copy(of: order).run { seed in
        let world = World(seed: seed, order.settings)
        world.run(setUp)
        return WorldResult(of: world, Engine.shared.schedule)
      }
    }
  }

  extension Sequence where Element == (String, String) {
    fileprivate var firstIndexOfDifference: Int? { enumerated().first { $0.element.0 != $0.element.1 }?.offset }
  }
#endif
