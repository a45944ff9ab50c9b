#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import Foundation
  import Puredux

  /// Runs requests in child processes: this program, started again.
  struct Child: Sendable {
    /// The time that a child may take to reach the call.
    private static let startLimit = Duration.seconds(60)
    private static let places = LockedValue(Places())

    /// All simulations of this process share one place for each processor. They get them in turn.
    private struct Places {
      /// The number of children that may still be started.
      var free = ProcessInfo.processInfo.activeProcessorCount
      var lastTicket = 0
      /// The tickets of those that wait, in order.
      var waiting: [Int] = []

      mutating func take(_ ticket: Int) -> Bool {
        guard free > 0, waiting.first == ticket else { return false }
        free -= 1
        waiting.removeFirst()
        return true
      }
    }

    let arguments: [String]
    let call: String
    let hasRandomHashing: Bool

    /// Starts a child, and returns its answer: the results of the seeds in order, up to the first failure.
    func run(_ request: ChildRequest) async throws -> [WorldResult] {
      try await takePlace()
      defer { Self.places.withLock { $0.free += 1 } }
      let directory = FileManager.default.temporaryDirectory
        .appendingPathComponent("puredux-simulation-\(UUID().uuidString)")
      // For this user alone: nobody else can place links in it.
      try FileManager.default.createDirectory(
        at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      defer { try? FileManager.default.removeItem(at: directory) }
      var request = request
      (request.call, request.directory, request.parent) = (call, directory.path, getpid())
      let errors = request.path(of: .errors)
      _ = FileManager.default.createFile(atPath: errors, contents: nil)
      let process = Process()
      process.executableURL = URL(
        fileURLWithPath: (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
          ?? CommandLine.arguments[0])
      process.arguments = arguments
      var environment = ProcessInfo.processInfo.environment
      // Gives sets and dictionaries one order in every child, unless a check asks for another.
      environment["SWIFT_DETERMINISTIC_HASHING"] = hasRandomHashing ? "0" : "1"
      // A file, because the system limits the length of a variable.
      try JSONEncoder().encode(request).write(to: URL(fileURLWithPath: request.path(of: .request)))
      environment[ChildRequest.variable] = request.path(of: .request)
      // With this, Swift Testing prints issues at the end of the run, which a world does not reach.
      environment["SWT_ENABLE_EXPERIMENTAL_CONSOLE_OUTPUT"] = nil
      process.environment = environment
      process.standardInput = FileHandle.nullDevice
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle(forWritingAtPath: errors)
      try process.run()
      let id = process.processIdentifier
      var hasEnded = false
      defer {
        if !hasEnded, process.isRunning {
          kill(id, SIGKILL)
          waitpid(id, nil, 0)
        }
      }
      let start = ContinuousClock.now
      // Foundation detects the end by a socket that a process started at the same moment may inherit.
      while process.isRunning, waitpid(id, nil, WNOHANG) == 0 {
        try await Task.sleep(for: .milliseconds(10))
        let debugged = request.path(of: .debugged)
        if request.isDebugged, let number = FileManager.default.contents(atPath: debugged), !number.isEmpty {
          request.isDebugged = false
          let text = "seed \(request.first) waits for a debugger: lldb -p \(String(decoding: number, as: UTF8.self))\n"
          FileHandle.standardError.write(Data(text.utf8))
        }
        let isLate = ContinuousClock.now - start > Self.startLimit
        if isLate, !FileManager.default.fileExists(atPath: request.path(of: .started)) {
          throw failure("The child process has not reached \(call) within a minute.", errors)
        }
      }
      hasEnded = true
      guard let data = try? Data(contentsOf: URL(fileURLWithPath: request.path(of: .answer))) else {
        let hasStarted = FileManager.default.fileExists(atPath: request.path(of: .started))
        throw failure(
          hasStarted
            ? "The child process ended in \(call) without an answer: it was killed, the disk is full, or seed "
              + "\(request.warmUp), which the child runs before all others, trapped, exited or did not end on its second run."
            : "The child process ended before \(call). The caller must be a test of Swift Testing without parameters. A "
              + "helper must pass on the test's `#function`, `#fileID` and `#line`.", errors)
      }
      return try JSONDecoder().decode([WorldResult].self, from: data)

      func failure(_ text: String, _ errors: String) -> Simulation.Failure {
        let output = ErrorOutput(path: errors, traceLimit: 0)
        return Simulation.Failure(
          seed: request.first,
          description: (["\(text) Its arguments: \(arguments.joined(separator: " "))"] + (output?.end ?? []))
            .joined(separator: "\n"))
      }
    }

    private func takePlace() async throws {
      let ticket = Self.places.withLock { places in
        places.lastTicket += 1
        places.waiting.append(places.lastTicket)
        return places.lastTicket
      }
      do {
        while !Self.places.withLock({ $0.take(ticket) }) { try await Task.sleep(for: .milliseconds(10)) }
      } catch {
        Self.places.withLock { places in places.waiting.removeAll { $0 == ticket } }
        throw error
      }
    }
  }
#endif
