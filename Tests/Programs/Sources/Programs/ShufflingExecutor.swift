import Foundation

/// A serial executor on its own thread that runs its jobs in random order, as a serial executor may.
final class ShufflingExecutor: SerialExecutor, @unchecked Sendable {
  private let condition = NSCondition()
  private var jobs: [UnownedJob] = []
  private var random: SeededGenerator
  private var isOver = false

  init(seed: UInt64) {
    random = SeededGenerator(seed: seed)
  }

  /// One for all runs of a process: they do not overlap.
  static let shared: ShufflingExecutor = {
    let executor = ShufflingExecutor(seed: 0)
    let thread = Thread { executor.run() }
    thread.name = "shuffling executor"
    thread.start()
    return executor
  }()

  func seed(_ seed: UInt64) {
    condition.withLock { random = SeededGenerator(seed: seed) }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    condition.lock()
    jobs.append(job)
    condition.signal()
    condition.unlock()
  }

  private func next() -> UnownedJob {
    condition.lock()
    defer { condition.unlock() }
    while jobs.isEmpty { condition.wait() }
    let index = Int.random(in: 0..<jobs.count, using: &random)
    jobs.swapAt(index, jobs.count - 1)
    return jobs.removeLast()
  }

  private func run() {
    while true {
      let job = next()
      // SAFETY: Each job is run once, on this executor, which lives as long as the process.
      unsafe job.runSynchronously(on: asUnownedSerialExecutor())
    }
  }
}
