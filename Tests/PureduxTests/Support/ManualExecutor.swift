import Dispatch

@testable import Puredux

/// An executor whose jobs wait in a list. It runs them one after the other as they come, on a queue of its own, unless
/// it is held; `run` runs the waiting jobs by hand, even from inside a job, as a nested run loop does.
///
/// It serves a tree or an actor, or tasks that prefer it, but not both.
final class ManualExecutor: SerialExecutor, TaskExecutor, Sendable {
  private struct Jobs {
    var waiting: [UnownedJob] = []
    var unfinished = 0
    var isHeld = false
    var expectations: [(isMet: @Sendable (Jobs) -> Bool, continuation: CheckedContinuation<Void, Never>)] = []
  }

  private let isForTasks: Bool
  private let queue = DispatchQueue(label: "manual")
  private let key = DispatchSpecificKey<Void>()
  private let jobs = LockedValue(Jobs())
  private let hook = LockedValue<(@Sendable () -> Void)?>(nil)

  init(forTasks isForTasks: Bool = false) {
    self.isForTasks = isForTasks
    queue.setSpecific(key: key, value: ())
  }

  /// Whether the caller runs on it.
  var isCurrent: Bool { DispatchQueue.getSpecific(key: key) != nil }

  /// Has a closure called for every job that is given to it, by its giver.
  func whenGivenJob(_ call: (@Sendable () -> Void)?) {
    hook.withLock { $0 = call }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let hook = hook.withLock { $0 }
    // Keeps this executor alive: from here on the job may be run, and may be the last thing that it was held for.
    let turn = DispatchWorkItem { self.runUnlessHeld() }
    change { jobs in
      jobs.waiting.append(job)
      jobs.unfinished += 1
    }
    queue.async(execute: turn)
    hook?()
  }

  /// Runs the waiting jobs, and those that they add. Only on this executor.
  func run() {
    while let job = jobs.withLock({ $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }) {
      if isForTasks {
        unsafe job.runSynchronously(on: asUnownedTaskExecutor())
      } else {
        unsafe job.runSynchronously(on: asUnownedSerialExecutor())
      }
      change { $0.unfinished -= 1 }
    }
  }

  private func runUnlessHeld() {
    if !jobs.withLock({ $0.isHeld }) { run() }
  }

  func hold() {
    jobs.withLock { $0.isHeld = true }
    queue.sync {}
  }

  func letGo() {
    jobs.withLock { $0.isHeld = false }
    queue.async { self.runUnlessHeld() }
  }

  /// Returns when that many jobs wait.
  func untilWaiting(_ count: Int) async { await until { $0.waiting.count >= count } }

  /// Returns when no job waits or runs.
  func untilIdle() async { await until { $0.unfinished == 0 } }

  private func until(_ isMet: @escaping @Sendable (Jobs) -> Bool) async {
    await withCheckedContinuation { continuation in
      change { $0.expectations.append((isMet, continuation)) }
    }
  }

  private func change(_ change: (inout Jobs) -> Void) {
    let met = jobs.withLock { jobs in
      change(&jobs)
      let expectations = jobs.expectations
      jobs.expectations = expectations.filter { !$0.isMet(jobs) }
      return expectations.filter { $0.isMet(jobs) }
    }
    for expectation in met { expectation.continuation.resume() }
  }
}
