#if Simulation && compiler(>=6.3) && canImport(Glibc)
  internal import CSimulation
  import Foundation

  /// Forks the child process for each world. So every world begins with the same memory, and a crash ends only that
  /// world.
  struct Forks {
    /// The seconds of processor time that one world may use.
    private static let processorLimit: UInt32 = 120
    /// The real time that one step may take: it may block. Shorter than usual limits of tests, so that the failing seed
    /// is reported first.
    private static let stepLimit: Int64 = 60_000_000_000
    /// The real time that one world may take: each of its steps may block briefly.
    private static let worldLimit: Int64 = 600_000_000_000

    private static let tooMuchOutput = "it writes more than 256 MB to one file, such as its standard error"
    private static let tooMuchWork = "no end within two minutes of processor time"
    private static let tooSlow = "no end within ten minutes of real time"
    private static let killed = "it was killed (signal 9), perhaps because the memory of the machine was used up"
    /// The reasons of failures at which a world is ended that may have gone on.
    static let limits: Set = [tooMuchOutput, tooMuchWork, tooSlow, killed]

    let request: ChildRequest

    /// Carries the request out, and ends the process.
    func run(_ world: (UInt64, World.Settings) -> WorldResult) -> Never {
      _ = FileManager.default.createFile(atPath: request.path(of: .started), contents: nil)
      Engine.shared.install()
      if result(of: request.warmUp, request.settings, isDebugged: false, world).failure == nil {
        // It has ended in a copy, and here it has a limit as well.
        simulation_limit_time(UInt32(Self.worldLimit / 1_000_000_000))
        _ = world(request.warmUp, request.settings)
        simulation_limit_time(0)
      }
      var settings = request.settings
      settings.stepLimit = request.stepLimit ?? settings.stepLimit
      var results: [WorldResult] = []
      for seed in request.first...request.last {
        endWithParent()
        var result = result(of: seed, settings, isDebugged: request.isDebugged, world)
        if let expected = request.expected, result.failure?.reason != expected { result.failure = nil }
        results.append(result)
        if result.failure != nil { break }
      }
      try? JSONEncoder().encode(results)
        .write(to: URL(fileURLWithPath: request.path(of: .answer)), options: .atomic)
      _exit(0)
    }

    private func endWithParent() {
      if getppid() == request.parent { return }
      try? FileManager.default.removeItem(atPath: request.directory)
      _exit(1)
    }

    private func result(
      of seed: UInt64, _ settings: World.Settings, isDebugged: Bool, _ world: (UInt64, World.Settings) -> WorldResult
    ) -> WorldResult {
      let errors = request.path(of: .worldErrors)
      // A program that an earlier world started may still write to that world's file.
      // SAFETY: the path is a string, whose bytes live as long as the call.
      unsafe unlink(errors)
      var ends: [Int32] = [-1, -1]
      // SAFETY: `pipe` writes two numbers.
      guard unsafe pipe(&ends) == 0 else { return failed(seed, "no pipe can be opened") }
      // Programs that the world starts do not keep the pipe open.
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      // SAFETY: only this thread exists in the copy. The child's other threads wait (those of Swift's pool, and the main
      // thread in `Engine.run`), and hold no lock that the copy could need. The C library makes its allocator usable.
      let child = simulation_fork(isDebugged ? 0 : Self.processorLimit)
      if child == 0 {
        close(ends[0])
        // SAFETY: the path is a string, whose bytes live as long as the call.
        let file = unsafe open(errors, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0o600)
        if file >= 0 { dup2(file, 2) }
        if isDebugged {
          let number = Data("\(getpid())".utf8)
          let file = URL(fileURLWithPath: request.path(of: .debugged))
          if (try? number.write(to: file, options: .atomic)) != nil { simulation_await_debugger() }
        }
        let result = world(seed, settings)
        let writing = FileHandle(fileDescriptor: ends[1])
        try? writing.write(contentsOf: (try? JSONEncoder().encode(result)) ?? Data())
        _exit(0)
      }
      close(ends[1])
      defer { close(ends[0]) }
      let reading = FileHandle(fileDescriptor: ends[0])
      if child < 0 { return failed(seed, "the process cannot be copied") }
      var poll = pollfd(fd: ends[0], events: Int16(POLLIN), revents: 0)
      let start = simulation_real_time()
      var last = (steps: simulation_step_count(), time: start)
      var exceeded: String?
      var data = Data()
      while exceeded == nil {
        // A signal may interrupt `poll`. SAFETY: there is one structure.
        if unsafe Glibc.poll(&poll, 1, 1_000) > 0 {
          let part = (try? reading.read(upToCount: 1 << 16)) ?? Data()
          if part.isEmpty { break }
          data += part
          continue
        }
        endWithParent()
        if isDebugged { continue }
        let now = (steps: simulation_step_count(), time: simulation_real_time())
        if now.steps != last.steps { last = now }
        if now.time - last.time >= Self.stepLimit { exceeded = "a step has not ended within a minute of real time" }
        if now.time - start >= Self.worldLimit { exceeded = Self.tooSlow }
      }
      if exceeded != nil { kill(child, SIGKILL) }
      var status: Int32 = 0
      // SAFETY: `waitpid` writes one number.
      unsafe waitpid(child, &status, 0)
      // Swift Testing prints the issues that `#expect` records: a library that does not import it has no other way to
      // learn of them.
      let decoded = try? JSONDecoder().decode(WorldResult.self, from: data)
      if let decoded, decoded.failure != nil || isEmpty(errors) { return decoded }
      let output = ErrorOutput(path: errors, traceLimit: settings.trace == .lastEvents ? 4_000 : .max)
      if var decoded {
        guard let output else {
          decoded.failure = failed(seed, "the standard error of the world cannot be read").failure
          return decoded
        }
        if output.issue.isEmpty { return decoded }
        decoded.failure = failed(seed, "an issue was recorded", output.issue).failure
        return decoded
      }
      let end =
        switch status & 0x7F {
        case SIGXCPU: Self.tooMuchWork
        case SIGXFSZ: Self.tooMuchOutput
        case SIGKILL: Self.killed
        case 0: "the program exits with code \(status >> 8 & 0xFF)"
        case let signal: "the program traps (signal \(signal))"
        }
      var result = failed(seed, exceeded ?? end, output?.end ?? [])
      if let output { (result.trace, result.eventCount) = (output.trace, output.eventCount) }
      return result
    }

    private func isEmpty(_ path: String) -> Bool {
      var status = stat()
      // SAFETY: the path is a string, whose bytes live as long as the call, and `stat` writes one structure.
      return unsafe stat(path, &status) == 0 && status.st_size == 0
    }

    private func failed(_ seed: UInt64, _ reason: String, _ errors: [String] = []) -> WorldResult {
      WorldResult(seed: seed, WorldResult.Failure(reason: reason, details: errors.joined(separator: "\n")))
    }
  }
#endif
