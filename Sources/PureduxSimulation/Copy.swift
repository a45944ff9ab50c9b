#if Simulation && compiler(>=6.3) && os(Linux)
  internal import CSimulation
  import Foundation

  /// Runs worlds in copies of the child process, one for each world. So each world begins with the same memory, ends by
  /// itself, and can do no harm to the next.
  struct Copy {
    /// The real time that one world may take, in milliseconds.
    private static let wallLimit: Int32 = 120_000

    let request: ChildRequest

    /// Carries the request out, and ends the process.
    func run(_ world: (UInt64) -> WorldResult) -> Never {
      _ = FileManager.default.createFile(atPath: request.path(of: .started), contents: nil)
      Engine.shared.install()
      if result(of: request.warmUp, world).failure == nil { _ = world(request.warmUp) }
      var results: [WorldResult] = []
      for seed in request.first...request.last {
        // The program that wants the answer has ended.
        if getppid() != request.parent {
          try? FileManager.default.removeItem(atPath: request.directory)
          _exit(1)
        }
        var result = result(of: seed, world)
        if let expected = request.expected, result.failure?.reason != expected { result.failure = nil }
        results.append(result)
        if result.failure != nil { break }
      }
      try? JSONEncoder().encode(results)
        .write(to: URL(fileURLWithPath: request.path(of: .answer)), options: .atomic)
      _exit(0)
    }

    private func result(of seed: UInt64, _ world: (UInt64) -> WorldResult) -> WorldResult {
      let errors = request.path(of: .errors)
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
      var count: Int32 = 0
      // SAFETY: there is one structure.
      repeat { count = unsafe Glibc.poll(&poll, 1, Self.wallLimit) } while count < 0 && errno == EINTR
      let isInTime = count > 0
      if !isInTime { kill(child, SIGKILL) }
      let data = FileHandle(fileDescriptor: ends[0]).readDataToEndOfFile()
      waitpid(child, nil, 0)
      if let result = try? JSONDecoder().decode(WorldResult.self, from: data) { return result }
      let lines = (try? String(contentsOfFile: errors, encoding: .utf8))?.split(separator: "\n").map(String.init) ?? []
      let (trace, rest) = (lines.filter { $0.hasPrefix("step ") }, lines.filter { !$0.hasPrefix("step ") })
      var result = isInTime ? failed(seed, "the program traps", rest) : failed(seed, "no end within two minutes", rest)
      result.trace = trace
      return result
    }

    private func failed(_ seed: UInt64, _ reason: String, _ errors: [String] = []) -> WorldResult {
      WorldResult(
        seed: seed, WorldResult.Failure(reason: reason, details: errors.prefix(20).joined(separator: "\n")))
    }
  }
#endif
