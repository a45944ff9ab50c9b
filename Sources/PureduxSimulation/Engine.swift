#if Simulation && compiler(>=6.3) && canImport(Glibc)
  internal import CSimulation
  @_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency
  import Foundation
  import Synchronization

  // The runtime's number of a task; zero for an actor's own job. The library has no other name for the task of a job.
  //
  // SAFETY: the runtime exports this function with this signature, and the job is alive in each call.
  @_silgen_name("swift_task_getJobTaskId")
  private func taskID(of job: UnownedJob) -> UInt64

  /// Runs every job of this process on one thread, in the order of a `Schedule`.
  ///
  /// SAFETY: any thread may read `thread`. Everything else is used only on that thread: jobs run there, and jobs that
  /// another thread enqueues are dropped.
  final class Engine: MainExecutor, TaskExecutor, SchedulingExecutor, @unchecked Sendable {
    static let shared = Engine()

    /// The world itself: its clients and checks.
    static let outside = 0

    /// The thread that runs jobs, set before any job is enqueued. Zero, which is no thread, before that.
    private let thread = Atomic<pthread_t>(0)
    private(set) var schedule = Schedule<UnownedJob>(seed: 0)
    private var processOfJob = outside
    private var processOverride: Int?
    /// By the runtime's number, which depends on the earlier tasks of the process.
    private var tasks: [UInt64: (number: Int, process: Int)] = [:]
    private var readied: [Int] = []
    private var isDropped: Set<Int> = []
    private var clockErrors: [Int: Int64] = [:]
    /// Kept, because tasks that have not ended hold unowned references to their world.
    private var worlds: [World] = []

    /// Makes this the executor of the whole process, for the rest of its life. The calling thread is the one that runs
    /// jobs.
    func install() {
      thread.store(pthread_self(), ordering: .sequentiallyConsistent)
      _createExecutors(factory: Factory.self)
    }

    private struct Factory: ExecutorFactory {
      static var mainExecutor: any MainExecutor { Engine.shared }
      static var defaultExecutor: any TaskExecutor { Engine.shared }
    }

    func begin(_ world: World) {
      worlds.append(world)
      schedule = Schedule(seed: world.seed(of: .schedule))
      tasks = [:]
      isDropped = []
      clockErrors = [:]
      processOfJob = Self.outside
      simulation_set_seed(world.seed(of: .system))
      simulation_set_time(Self.origin, 0)
    }

    /// The monotonic clocks of a simulation do not begin at zero.
    private static let origin: Int64 = 1_000_000_000_000

    struct Step {
      let process: Int
      /// Zero for an actor's own job.
      let task: Int
      /// The tasks that this step made ready, in order.
      let readied: [Int]
      /// The state of the system's random numbers, if this step has drawn some.
      let random: UInt64?
    }

    /// Runs the next job. Nil if there is none.
    func step() -> Step? {
      guard let (job, process) = schedule.next() else { return nil }
      simulation_set_time(Self.origin + schedule.now, clockErrors[process] ?? 0)
      simulation_count_step()
      processOfJob = process
      // Read first: running the job frees it.
      let task = tasks[taskID(of: job)]?.number ?? 0
      readied = []
      let random = simulation_random_state()
      // SAFETY: this object is the executor of the job, and lives as long as the process.
      unsafe job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
      processOfJob = Self.outside
      for number in [task] + readied { schedule.record(UInt64(number)) }
      let newRandom = simulation_random_state()
      schedule.record(newRandom)
      return Step(process: process, task: task, readied: readied, random: newRandom == random ? nil : newRandom)
    }

    /// Whether the calling thread is the one that runs jobs.
    var isHere: Bool { thread.load(ordering: .relaxed) == pthread_self() }

    /// The process that runs: that of the current task. An actor's own job may run tasks of several processes.
    var current: Int {
      if let processOverride { return processOverride }
      // SAFETY: a task is a job, so the pointer to a task is the pointer to a job. Both types hold nothing else, and the
      // task is alive in the closure.
      let id = unsafe withUnsafeCurrentTask { task in
        unsafe task.map { unsafe taskID(of: unsafeBitCast($0, to: UnownedJob.self)) }
      }
      return id.flatMap { tasks[$0]?.process } ?? processOfJob
    }

    /// Runs a body on behalf of a process, which owns the tasks that the body creates.
    func within<Result>(_ process: Int, _ body: () -> Result) -> Result {
      let outer = processOverride
      processOverride = process
      defer { processOverride = outer }
      return body()
    }

    func drop(_ process: Int) {
      isDropped.insert(process)
      schedule.drop(process)
    }

    func pause(_ process: Int, for time: Duration) {
      schedule.pause(process, for: time.nanoseconds)
    }

    /// Sets the wall clock of a process ahead.
    func setClockError(of process: Int, to error: Duration) { clockErrors[process] = error.nanoseconds }

    // MARK: Executors

    func enqueue(_ job: consuming ExecutorJob) {
      let job = UnownedJob(job)
      guard let process = process(of: job) else { return }
      schedule.add(job, of: process)
    }

    func enqueue<C: Clock>(
      _ job: consuming ExecutorJob, after delay: C.Duration, tolerance: C.Duration?, clock: C
    ) {
      let job = UnownedJob(job)
      guard let process = process(of: job) else { return }
      schedule.add(job, of: process, after: (delay as? Duration)?.nanoseconds ?? 0)
    }

    func enqueue<C: Clock>(_ job: consuming ExecutorJob, at instant: C.Instant, tolerance: C.Duration?, clock: C) {
      enqueue(job, after: clock.now.duration(to: instant), tolerance: tolerance, clock: clock)
    }

    /// The process that a job belongs to: that of its task, or of the task that created it. Nil if the job is never to
    /// run.
    private func process(of job: UnownedJob) -> Int? {
      guard isHere else { return nil }
      let id = taskID(of: job)
      let task = id == 0 ? (number: 0, process: current) : tasks[id, default: (tasks.count + 1, current)]
      if id != 0 { tasks[id] = task }
      readied.append(task.number)
      return isDropped.contains(task.process) ? nil : task.process
    }

    /// The main thread comes here if it was not waiting for its jobs when the simulation began. They run on the thread
    /// of the simulation.
    func run() throws { while true { sleep(1_000) } }

    func runUntil(_ condition: () -> Bool) throws { try run() }

    func stop() {}
  }

  extension Duration {
    var nanoseconds: Int64 {
      let (seconds, attoseconds) = components
      let (product, hasOverflown) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
      return hasOverflown ? .max / 4 : min(product + attoseconds / 1_000_000_000, .max / 4)
    }
  }
#endif
