#if Simulation && compiler(>=6.3) && os(Linux)
  import Foundation

  /// Runs orders in child processes: this program, started again.
  struct Child: Sendable {
    let arguments: [String]
    let call: String

    /// Starts a child, and returns its answer: the results of the seeds in order, up to the first failure.
    func run(_ order: Order) async throws -> [WorldResult] {
      let directory = FileManager.default.temporaryDirectory
        .appendingPathComponent("puredux-simulation-\(UUID().uuidString)")
      // For this user alone: nobody else can place links in it.
      try FileManager.default.createDirectory(
        at: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
      defer { try? FileManager.default.removeItem(at: directory) }
      var order = order
      (order.call, order.directory) = (call, directory.path)
      let process = Process()
      process.executableURL = URL(
        fileURLWithPath: (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
          ?? CommandLine.arguments[0])
      process.arguments = arguments
      let environment = ProcessInfo.processInfo.environment
      // So that the simulated code may depend on the order of a set.
      process.environment = ["SWIFT_DETERMINISTIC_HASHING": "1"].merging(environment) { $1 }
      process.environment?[Order.variable] = String(decoding: try JSONEncoder().encode(order), as: UTF8.self)
      process.standardOutput = FileHandle.nullDevice
      process.standardError = FileHandle.nullDevice
      try process.run()
      var hasEnded = false
      defer { if !hasEnded { kill(process.processIdentifier, SIGKILL) } }
      // Foundation detects the end by a socket that a process started at the same moment may inherit.
      while process.isRunning, waitpid(process.processIdentifier, nil, WNOHANG) == 0 {
        try await Task.sleep(for: .milliseconds(10))
      }
      hasEnded = true
      guard let data = try? Data(contentsOf: directory.appendingPathComponent(Copy.answerName)) else {
        throw Simulation.Failure(
          seed: order.first,
          description: "The child process ended before \(call). Its arguments: \(arguments.joined(separator: " "))")
      }
      return try JSONDecoder().decode([WorldResult].self, from: data)
    }
  }
#endif
