#if Simulation && compiler(>=6.3) && os(Linux)
  internal import CSimulation
  import Foundation

  /// Runs worlds in copies of the child process, one for each world. So each world begins with the same memory, ends by
  /// itself, and can do no harm to the next.
  struct Copy {
    static let answerName = "answer"
    /// The time that one world may take.
    private static let wallLimit: Int32 = 120_000

    let order: Order
    private let parent = getppid()

    init(of order: Order) { self.order = order }

    /// Carries the order out, and ends the process.
    func run(_ world: (UInt64) -> WorldResult) -> Never {
      let directory = URL(fileURLWithPath: order.directory)
      Engine.shared.install()
      if result(of: order.warmUp, in: directory, world).failure == nil { _ = world(order.warmUp) }
      var results: [WorldResult] = []
      for seed in order.first...order.last {
        // The program that wants the answer has ended.
        if getppid() != parent { _exit(1) }
        var result = result(of: seed, in: directory, world)
        if let expected = order.expected, result.failure?.reason != expected { result.failure = nil }
        results.append(result)
        if result.failure != nil { break }
      }
      try? JSONEncoder().encode(results)
        .write(to: directory.appendingPathComponent(Self.answerName), options: .atomic)
      _exit(0)
    }

    private func result(of seed: UInt64, in directory: URL, _ world: (UInt64) -> WorldResult) -> WorldResult {
      let errors = directory.appendingPathComponent("errors").path
      var ends: [Int32] = [-1, -1]
      // SAFETY: `pipe` writes two numbers.
      guard unsafe pipe(&ends) == 0 else { return failed(seed, "no pipe can be opened") }
      let child = simulation_fork()
      if child == 0 {
        close(ends[0])
        // SAFETY: the path is a string, whose bytes live as long as the call.
        let file = unsafe open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        if file >= 0 { dup2(file, 2) }
        let result = world(seed)
        let writing = FileHandle(fileDescriptor: ends[1])
        try? writing.write(contentsOf: (try? JSONEncoder().encode(result)) ?? Data())
        _exit(0)
      }
      close(ends[1])
      defer { close(ends[0]) }
      if child < 0 { return failed(seed, "the process cannot be copied") }
      var poll = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
      // SAFETY: there is one structure.
      let isInTime = unsafe Glibc.poll(&poll, 1, Self.wallLimit) > 0
      if !isInTime { kill(child, SIGKILL) }
      let data = FileHandle(fileDescriptor: ends[0]).readDataToEndOfFile()
      waitpid(child, nil, 0)
      if !isInTime { return failed(seed, "a step does not return") }
      if let result = try? JSONDecoder().decode(WorldResult.self, from: data) { return result }
      let text = (try? String(contentsOfFile: errors, encoding: .utf8)) ?? ""
      let lines = text.split(separator: "\n", maxSplits: 20).prefix(20)
      return failed(seed, "the program traps", lines.joined(separator: "\n"))
    }

    private func failed(_ seed: UInt64, _ reason: String, _ details: String = "") -> WorldResult {
      WorldResult(seed: seed, WorldResult.Failure(reason: reason, details: details))
    }
  }
#endif
