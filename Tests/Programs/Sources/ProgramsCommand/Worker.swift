import Foundation
import Programs

/// Runs programs in a separate process, so that a crash or a standstill ends only that process. It reports each program
/// on standard output.
struct Worker {
  let arguments: Arguments
  let watchdog: Watchdog

  init(_ arguments: Arguments) {
    self.arguments = arguments
    watchdog = Watchdog(limit: arguments.limit.map { .seconds($0) } ?? Watchdog.usualLimit) { program in
      say("standstill")
      for line in program.split(separator: "\n") { say("| \(line)") }
      exit(3)
    }
  }

  func run() async -> Bool {
    for index in stride(from: arguments.from, to: arguments.count, by: arguments.stride) {
      say("at \(index)")
      let seed = Program.seed(base: arguments.seed, index: index)
      let program = AnyProgram(seed: seed, features: arguments.features)
      for _ in 0..<arguments.times {
        let verdict = await watchdog.watch("still running") { await program.run(features: arguments.features) }
        if !verdict.failures.isEmpty {
          say("failed")
          for line in verdict.failures.joined(separator: "\n").split(separator: "\n").prefix(60) { say("| \(line)") }
        }
        say("done \(verdict.commits) \(verdict.deliveries)")
      }
    }
    return true
  }

  /// Runs a program that it reads from standard input, repeatedly until it fails.
  func tryProgram() async throws -> Bool {
    let data = FileHandle.standardInput.readDataToEndOfFile()
    let program = try JSONDecoder().decode(AnyProgram.self, from: data)
    for _ in 0..<arguments.times {
      let failures = await watchdog.watch("still running") { await program.run(features: arguments.features) }.failures
      if !failures.isEmpty {
        for line in failures.joined(separator: "\n").split(separator: "\n").prefix(60) { say("| \(line)") }
        return false
      }
    }
    return true
  }
}
