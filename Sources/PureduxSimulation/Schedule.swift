#if Simulation && compiler(>=6.3) && canImport(Glibc)
  import PureduxLogTesting

  /// Decides which job runs next, on one thread and in virtual time: a pure state machine. The seed determines every
  /// decision.
  ///
  /// A job belongs to a process, which can be paused or dropped. Each step takes a few microseconds of virtual time.
  /// When no job is ready, time advances to the next deadline.
  struct Schedule<Job> {
    private struct Entry {
      let job: Job
      let process: Int
    }

    private struct Deadline {
      let time: Int64
      /// The order of registration, of deadlines at the same time.
      let number: Int
      let entry: Entry

      static func < (left: Deadline, right: Deadline) -> Bool { (left.time, left.number) < (right.time, right.number) }
    }

    private var generator: SeededGenerator
    private var ready: [Entry] = []
    /// A binary heap.
    private var deadlines: [Deadline] = []
    private var deadlineCount = 0
    private var pauses: [Int: Int64] = [:]
    /// In nanoseconds since the beginning.
    private(set) var now: Int64 = 0
    private(set) var stepCount = 0
    /// The last step for which time advanced to a deadline, because nothing else could run.
    private(set) var lastTimeAdvance = 0
    /// Two runs with the same hash have made the same decisions.
    private(set) var hash: UInt64 = 0xCBF2_9CE4_8422_2325

    init(seed: UInt64) { generator = SeededGenerator(seed: seed) }

    var isEmpty: Bool { ready.isEmpty && deadlines.isEmpty }

    mutating func add(_ job: Job, of process: Int) { ready.append(Entry(job: job, process: process)) }

    /// Far enough from the largest number for any sum.
    private static var end: Int64 { .max / 4 }

    mutating func add(_ job: Job, of process: Int, after delay: Int64) {
      add(job, of: process, at: delay < Self.end - now ? now + delay : Self.end)
    }

    private mutating func add(_ job: Job, of process: Int, at time: Int64) {
      deadlineCount += 1
      push(Deadline(time: max(time, now), number: deadlineCount, entry: Entry(job: job, process: process)))
    }

    mutating func random(below limit: Int) -> Int { Int.random(in: 0..<limit, using: &generator) }

    /// The next job, and its process. Nil if there is none.
    mutating func next() -> (job: Job, process: Int)? {
      while true {
        if ready.isEmpty {
          guard let first = deadlines.first else { return nil }
          now = max(now, first.time)
          lastTimeAdvance = stepCount
        } else {
          now += Int64(random(below: 20_000))
        }
        while let first = deadlines.first, first.time <= now { ready.append(pop().entry) }
        let index = random(below: ready.count)
        let entry = ready[index]
        ready.swapAt(index, ready.count - 1)
        ready.removeLast()
        if let end = pauses[entry.process] {
          if end > now {
            add(entry.job, of: entry.process, at: end)
            continue
          }
          pauses[entry.process] = nil
        }
        stepCount += 1
        record(UInt64(index) << 32 | UInt64(ready.count))
        record(UInt64(now))
        return (entry.job, entry.process)
      }
    }

    mutating func pause(_ process: Int, for time: Int64) {
      pauses[process] = max(time < Self.end - now ? now + time : Self.end, pauses[process] ?? 0)
    }

    /// Discards the jobs of a process.
    mutating func drop(_ process: Int) {
      ready.removeAll { $0.process == process }
      let left = deadlines.filter { $0.entry.process != process }
      deadlines = []
      for deadline in left { push(deadline) }
      pauses[process] = nil
    }

    /// Adds a decision to the hash.
    mutating func record(_ value: UInt64) { hash = (hash ^ value) &* 0x100_0000_01B3 }

    private mutating func push(_ deadline: Deadline) {
      deadlines.append(deadline)
      var index = deadlines.count - 1
      while index > 0, deadlines[index] < deadlines[(index - 1) / 2] {
        deadlines.swapAt(index, (index - 1) / 2)
        index = (index - 1) / 2
      }
    }

    private mutating func pop() -> Deadline {
      let first = deadlines[0]
      let last = deadlines.removeLast()
      if deadlines.isEmpty { return first }
      deadlines[0] = last
      var index = 0
      while true {
        var least = index
        for child in [2 * index + 1, 2 * index + 2] where child < deadlines.count && deadlines[child] < deadlines[least]
        {
          least = child
        }
        if least == index { return first }
        deadlines.swapAt(index, least)
        index = least
      }
    }
  }
#endif
