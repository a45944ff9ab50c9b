import Foundation
import Programs
import Synchronization

/// Runs many programs in worker processes.
final class RunCommand: Sendable {
  private struct Failure: Sendable {
    var index: Int
    var text: String
  }

  private struct Totals: Sendable {
    var programs = 0
    var commits = 0
    var deliveries = 0
    var failures: [Failure] = []
  }

  private let arguments: Arguments
  private let totals = Guarded(Totals())

  init(_ arguments: Arguments) {
    self.arguments = arguments
  }

  func run() async throws -> Bool {
    let clock = ContinuousClock()
    let start = clock.now
    say("seed \(arguments.seed)")
    if let only = arguments.only {
      say("\(AnyProgram(seed: Program.seed(base: arguments.seed, index: only), features: arguments.features))")
      work(from: only, to: only + 1, stride: 1)
    } else {
      let workers = min(arguments.workers, max(arguments.count, 1))
      await withDiscardingTaskGroup { group in
        for worker in 0..<workers {
          group.addTask { [self] in
            await onThread { [self] in work(from: worker, to: arguments.count, stride: workers) }
          }
        }
      }
    }
    let totals = totals.withLock { $0 }
    for failure in totals.failures.sorted(by: { $0.index < $1.index }).prefix(arguments.shrinks) {
      await shrink(failure)
    }
    let programs = arguments.only == nil ? arguments.count : arguments.times
    let failed = Set(totals.failures.map(\.index)).count
    say(
      "\(programs) programs, seed \(arguments.seed), \(failed) failed, \((clock.now - start).components.seconds) s, "
        + "\(totals.commits) commits, \(totals.deliveries) deliveries")
    return failed == 0 && totals.programs == programs
  }

  // MARK: Workers

  /// Runs a share of the programs in worker processes, with a new one after each crash.
  private func work(from first: Int, to end: Int, stride: Int) {
    var next = first
    while next < end {
      var command = [
        "worker", "--seed", "\(arguments.seed)", "--from", "\(next)", "--count", "\(end)", "--stride", "\(stride)",
        "--times", "\(arguments.times)",
      ]
      command += common
      let worker = Worker(end: end, stride: stride, next: next)
      let status = launch(command, input: nil) { line in take(line, worker) }
      next = worker.next
      if status == 0, next >= end { return }
      next = worker.current
      let text = worker.isStandingStill ? "it does not end" : "the process ended with \(status)"
      fail(Failure(index: next, text: ([text] + worker.lines).joined(separator: "\n")))
      totals.withLock { $0.programs += 1 }
      next += stride
    }
  }

  private var common: [String] {
    (arguments.without.isEmpty ? [] : ["--without", arguments.without.joined(separator: ",")])
      + (arguments.limit.map { ["--limit", "\($0)"] } ?? [])
  }

  /// The reports of a worker process.
  private final class Worker {
    let end: Int
    let stride: Int
    var next: Int
    var current: Int
    var isStandingStill = false
    var isFailing = false
    var lines: [String] = []

    init(end: Int, stride: Int, next: Int) {
      self.end = end
      self.stride = stride
      self.next = next
      current = next
    }
  }

  private func take(_ line: String, _ worker: Worker) {
    let words = line.split(separator: " ")
    switch words.first {
    case "at":
      worker.next = Int(words[1]) ?? worker.next
      worker.current = worker.next
      worker.lines = []
    case "failed": worker.isFailing = true
    case "standstill": worker.isStandingStill = true
    case "|": worker.lines.append(String(line.dropFirst(2)))
    case "done":
      if worker.isFailing {
        fail(Failure(index: worker.current, text: worker.lines.joined(separator: "\n")))
        worker.isFailing = false
      }
      worker.lines = []
      totals.withLock { totals in
        totals.programs += 1
        totals.commits += Int(words[1]) ?? 0
        totals.deliveries += Int(words[2]) ?? 0
      }
      if worker.next + worker.stride >= worker.end { worker.next = worker.end }
    default: say(line)
    }
  }

  private func fail(_ failure: Failure) {
    let isFirst = totals.withLock { totals in
      totals.failures.append(failure)
      return totals.failures.count <= 50
    }
    guard isFirst else { return }
    say("program \(failure.index) of seed \(arguments.seed) fails:")
    for line in failure.text.split(separator: "\n") { say("  \(line)") }
  }

  // MARK: Making failures smaller

  private func shrink(_ failure: Failure) async {
    let program = AnyProgram(
      seed: Program.seed(base: arguments.seed, index: failure.index), features: arguments.features)
    say("program \(failure.index) of seed \(arguments.seed):")
    say("\(program)")
    let output = Guarded<[String]>([])
    let times = Watchdogs.times
    let fails: (AnyProgram) async -> Bool = { [self] program in
      guard let data = try? JSONEncoder().encode(program) else { return false }
      return await onThread { [self] in
        let lines = Guarded<[String]>([])
        let command =
          ["try", "--times", "\(times)"] + (arguments.limit == nil ? ["--limit", Watchdogs.limit] : []) + common
        let status = launch(command, input: data) { line in lines.withLock { $0.append(line) } }
        if status != 0 { output.withLock { $0 = lines.withLock { $0 } + ["ended with \(status)"] } }
        return status != 0
      }
    }
    guard await fails(program) else {
      return say(
        "It does not fail again in \(times) runs: "
          + "programs run --seed \(arguments.seed) --only \(failure.index) --times 1000"
      )
    }
    let smallest = await Shrinker.shrink(program, fails: fails)
    say("made smaller:")
    say("\(smallest)")
    for line in output.withLock({ $0 }) { say("  \(line)") }
  }

  // MARK: Processes

  /// Runs this program with other arguments. Returns its exit status, or the negative number of the signal that ended
  /// it.
  private func launch(_ arguments: [String], input: Data?, _ take: (String) -> Void) -> Int {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    process.arguments = arguments
    var environment = ProcessInfo.processInfo.environment
    // A sanitizer's report must end the program that it is about.
    environment["TSAN_OPTIONS", default: ""] += ":halt_on_error=1"
    process.environment = environment
    let (output, toInput) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardInput = toInput
    do {
      try process.run()
    } catch {
      take("\(error)")
      return 127
    }
    if let input { toInput.fileHandleForWriting.write(input) }
    try? toInput.fileHandleForWriting.close()
    var rest = Data()
    while true {
      let data = output.fileHandleForReading.availableData
      if data.isEmpty { break }
      rest.append(data)
      while let end = rest.firstIndex(of: 10) {
        take(String(decoding: rest[rest.startIndex..<end], as: UTF8.self))
        rest = Data(rest[(end + 1)...])
      }
    }
    process.waitUntilExit()
    let status = Int(process.terminationStatus)
    return process.terminationReason == .uncaughtSignal ? -status : status
  }
}

enum Watchdogs {
  /// The time limit of a program that is being made smaller, and how often it runs.
  static var limit: String { Watchdog.isSanitized ? "20" : "5" }
  static var times: Int { Watchdog.isSanitized ? 50 : 300 }
}

/// Runs a body that blocks on a process, on a separate thread.
func onThread<Result: Sendable>(_ body: @escaping @Sendable () -> Result) async -> Result {
  await withCheckedContinuation { continuation in
    Thread { continuation.resume(returning: body()) }.start()
  }
}
