import Dispatch
import Puredux

/// An executor that a test can pause, to run a tree one step at a time.
///
///     let executor = ManualExecutor()
///     let store = RootStore(initialState: 0, options: StoreOptions(executor: .serial(executor)), reducer: reduce)
///     executor.hold()
///     async let first: Void = store.send(.increment)
///     await executor.untilWaiting(1)
///     async let second: Void = store.send(.decrement)
///     await executor.untilWaiting(2)
///     await executor.step()                 // The first is committed, and the second is not.
///     executor.letGo()
///
/// Jobs run in the order of their arrival, on a queue of the executor's own. A step is one job, in which a tree does at
/// most one thing: it commits the result of one action, answers one read, or begins or ends one sequence.
///
/// - A dispatched action takes its place in the order at once. All waiting dispatched actions share one job.
/// - A `send` or a read is a job of its own, and takes its place when that job runs. If dispatched actions wait then, a
///   `send` joins them in that step, and nothing is committed.
///
/// It serves a tree or an actor, or, if made `forTasks`, tasks that prefer it (`Task(executorPreference:)`).
public final class ManualExecutor: StoreExecutor.StepByStep, TaskExecutor, Sendable {
  private struct Jobs {
    var waiting: [UnownedJob] = []
    var unfinished = 0
    var isHeld = false
    var expectations: [(isMet: @Sendable (Jobs) -> Bool, gate: Gate)] = []
  }

  private let isForTasks: Bool
  package let isStepByStep: Bool
  private let queue = DispatchQueue(label: "manual")
  private let key = DispatchSpecificKey<Void>()
  private let jobs = LockedValue(Jobs())
  private let hook = LockedValue<(@Sendable () -> Void)?>(nil)

  /// - Parameter isForTasks: Whether it serves tasks that prefer it, instead of a tree or an actor.
  public convenience init(forTasks isForTasks: Bool = false) {
    self.init(forTasks: isForTasks, isStepByStep: true)
  }

  /// - Parameter isStepByStep: Whether a tree does one thing in each job.
  package init(forTasks isForTasks: Bool = false, isStepByStep: Bool) {
    self.isForTasks = isForTasks
    self.isStepByStep = isStepByStep
    queue.setSpecific(key: key, value: ())
  }

  package var isCurrent: Bool { DispatchQueue.getSpecific(key: key) != nil }

  /// The number of waiting jobs.
  public var waitingCount: Int { jobs.withLock { $0.waiting.count } }

  package func whenGivenJob(_ call: (@Sendable () -> Void)?) {
    // The replaced closure is released outside the lock.
    let replaced = hook.withLock { hook in
      defer { hook = call }
      return hook
    }
    withExtendedLifetime(replaced) {}
  }

  public func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    let hook = hook.withLock { $0 }
    // Keeps the executor alive: from here on the job may run, and release the last reference.
    let turn = DispatchWorkItem { self.runUnlessHeld() }
    change { jobs in
      jobs.waiting.append(job)
      jobs.unfinished += 1
    }
    queue.async(execute: turn)
    hook?()
  }

  // MARK: Holding

  /// Pauses the executor. Returns when the running job has ended; at once if the caller is that job.
  public func hold() {
    jobs.withLock { $0.isHeld = true }
    if !isCurrent { queue.sync {} }
  }

  /// Resumes the executor.
  public func letGo() {
    jobs.withLock { $0.isHeld = false }
    queue.async { self.runUnlessHeld() }
  }

  /// Runs the first waiting job, even if the executor is paused, and returns when it has ended.
  ///
  /// - Returns: False if no job waits.
  @discardableResult public func step() async -> Bool {
    await withCheckedContinuation { continuation in
      queue.async { continuation.resume(returning: self.runFirst()) }
    }
  }

  /// Runs all jobs, even from inside a job. Only on this executor.
  package func run() {
    while runFirst() {}
  }

  private func runFirst() -> Bool {
    guard let job = jobs.withLock({ $0.waiting.isEmpty ? nil : $0.waiting.removeFirst() }) else { return false }
    if isForTasks {
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
    } else {
      unsafe job.runSynchronously(on: asUnownedSerialExecutor())
    }
    change { $0.unfinished -= 1 }
    return true
  }

  private func runUnlessHeld() {
    while !jobs.withLock({ $0.isHeld }), runFirst() {}
  }

  // MARK: Waiting

  /// Returns when at least `count` jobs wait, or the caller is cancelled. Waiting dispatched actions share one job.
  public func untilWaiting(_ count: Int) async { await until { $0.waiting.count >= count } }

  /// Returns when no job waits or runs, or the caller is cancelled.
  public func untilIdle() async { await until { $0.unfinished == 0 } }

  private func until(_ isMet: @escaping @Sendable (Jobs) -> Bool) async {
    let gate = Gate(isWork: true)
    await withTaskCancellationHandler {
      change { $0.expectations.append((isMet, gate)) }
      await gate.wait()
    } onCancel: {
      gate.open()
    }
    change { $0.expectations.removeAll { $0.gate === gate } }
  }

  private func change(_ change: (inout Jobs) -> Void) {
    let met = jobs.withLock { jobs in
      change(&jobs)
      return jobs.expectations.filter { $0.isMet(jobs) }
    }
    for expectation in met { expectation.gate.open() }
  }
}
