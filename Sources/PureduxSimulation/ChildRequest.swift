#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import Foundation

  /// The worlds that a child process runs. Passed in a file, whose path is in the environment.
  struct ChildRequest: Codable, Sendable {
    /// The call of `Simulation.run` that the request is for.
    var call = ""
    /// For the child's files.
    var directory = ""
    /// The process that waits for the answer.
    var parent: Int32 = 0
    var first: UInt64
    var last: UInt64
    /// A seed that the child runs before it forks, so that the copies inherit filled caches of the runtime.
    var warmUp: UInt64
    var settings: World.Settings
    /// A lower limit for the worlds, but not for `warmUp`: a repetition without it must begin with the same memory.
    var stepLimit: Int?
    /// Whether each world waits for a debugger, and has no time limit.
    var isDebugged = false
    /// If set, only failures with this reason count.
    var expected: String?

    static let variable = "PUREDUX_SIMULATION"
    static let ofThisProcess: ChildRequest? = ProcessInfo.processInfo.environment[variable].map { path in
      do {
        return try JSONDecoder().decode(ChildRequest.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
      } catch {
        // Without its request, a child would start children of its own.
        FileHandle.standardError.write(Data("The request of the simulation cannot be read: \(error)\n".utf8))
        _exit(1)
      }
    }

    enum File: String {
      case request
      /// Made when the child has reached the call.
      case started
      /// The number of the process that waits for a debugger.
      case debugged
      case answer
      /// The standard error of the child.
      case errors
      /// The standard error of the last world.
      case worldErrors
    }

    func path(of file: File) -> String { directory + "/" + file.rawValue }
  }

  /// A seed, with the clients and faults that are left out: `22-c0-f3` is seed 22 without the first client and the
  /// fourth fault.
  struct WorldName {
    let seed: UInt64
    private(set) var omittedClients: Set<Int> = []
    private(set) var omittedFaults: Set<Int> = []

    init(_ seed: UInt64, _ settings: World.Settings) {
      self.seed = seed
      (omittedClients, omittedFaults) = (settings.omittedClients, settings.omittedFaults)
    }

    init?(_ text: String) {
      var parts = text.split(separator: "-", omittingEmptySubsequences: false)
      guard let seed = UInt64(parts.removeFirst()) else { return nil }
      self.seed = seed
      for part in parts {
        guard let index = Int(part.dropFirst()) else { return nil }
        switch part.first {
        case "c": omittedClients.insert(index)
        case "f": omittedFaults.insert(index)
        default: return nil
        }
      }
    }

    var text: String {
      "\(seed)" + omittedClients.sorted().map { "-c\($0)" }.joined()
        + omittedFaults.sorted().map { "-f\($0)" }.joined()
    }
  }

  /// The result of one world.
  struct WorldResult: Codable, Sendable {
    struct Failure: Codable, Sendable {
      /// The kind of failure.
      var reason: String
      var details = ""

      /// Whether something did not happen, as opposed to something that happened.
      var isAboutProgress: Bool {
        [World.notEventually, World.notEvaluated, World.noState, World.standstill, World.livelock, World.tooLong]
          .contains { reason.hasPrefix($0) }
      }
    }

    /// Whether two runs have made the same decisions. Those of a world that was cut short are unknown: then the reasons
    /// of the two failures are compared.
    func isRepetition(of other: WorldResult) -> Bool {
      hash == other.hash && (hash != 0 || failure?.reason == other.failure?.reason)
    }

    /// Whether the world was ended from outside. The record of its events may be the cause.
    var hasReachedLimit: Bool { failure.map { Forks.limits.contains($0.reason) } ?? false }

    var seed: UInt64
    var failure: Failure?
    var steps = 0
    var time: Int64 = 0
    /// Of all decisions of the schedule.
    var hash: UInt64 = 0
    var reached: [String: Bool] = [:]
    var clientCount = 0
    var faultCount = 0
    var trace: [String] = []
    /// The number of all events, also of those that `trace` does not have.
    var eventCount = 0

    init(seed: UInt64, _ failure: Failure? = nil) {
      self.seed = seed
      self.failure = failure
    }

    init(of world: World, _ schedule: Schedule<some Any>) {
      seed = world.seed
      if case .failed(let reason, let details) = world.outcome { failure = Failure(reason: reason, details: details) }
      (steps, time, hash) = (schedule.stepCount, schedule.now, schedule.hash)
      reached = world.reached
      (clientCount, faultCount) = (world.clientCount, world.faultCount)
      (trace, eventCount) = (world.trace, world.eventCount)
    }

    /// Of a failed world.
    var summary: String {
      guard let failure else { return "passes" }
      let when = steps == 0 ? "" : " after \(steps) steps at \(Self.text(of: .nanoseconds(time)))"
      return "fails\(when): \(failure.reason)" + (failure.details.isEmpty ? "" : ". \(failure.details)")
    }

    private static func text(of time: Duration) -> String {
      let (hours, rest) = time.components.seconds.quotientAndRemainder(dividingBy: 3_600)
      let parts = [hours > 0 ? "\(hours) h" : nil, rest >= 60 ? "\(rest / 60) min" : nil].compactMap(\.self)
      let milliseconds = time.components.attoseconds / 1_000_000_000_000_000
      let last = parts.isEmpty && rest == 0 ? "\(milliseconds) ms" : "\(rest % 60) s"
      return (parts + [last]).joined(separator: " ")
    }
  }
#endif
