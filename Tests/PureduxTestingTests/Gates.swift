import Dispatch
import PureduxTesting
import Synchronization

@testable import Puredux

typealias Gate = PureduxTesting.Gate
typealias ManualClock = PureduxTesting.ManualClock
typealias ManualExecutor = PureduxTesting.ManualExecutor

/// A door for synchronous code, which blocks its thread: for threads that nothing else needs.
final class Latch: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)
  func open() { semaphore.signal() }
  func wait() {
    semaphore.wait()
    semaphore.signal()
  }
}

/// Returns when the current task is cancelled. Counts as work: a store that settles waits for it.
func untilCancelled() async { await PureduxTesting.untilCancelled(isWork: true) }

/// A serial executor that can be held: requests to a tree on it are not performed until it is let go.
final class HeldExecutor: SerialExecutor, Sendable {
  private let queue = DispatchQueue(label: "held")
  private let key = DispatchSpecificKey<Void>()
  private let isHeld = LockedValue(false)

  init() { queue.setSpecific(key: key, value: ()) }

  /// Whether the caller runs on it.
  var isCurrent: Bool { DispatchQueue.getSpecific(key: key) != nil }

  private let jobs = Atomic(0)
  private let allJobs = Atomic(0)

  /// How many jobs wait or run.
  var waiting: Int { jobs.load(ordering: .relaxed) }

  /// How many jobs there have been.
  var enqueued: Int { allJobs.load(ordering: .sequentiallyConsistent) }

  private let awaited = LockedValue<[(count: Int, gate: Gate)]>([])

  /// Returns when there have been that many jobs.
  func untilEnqueued(_ count: Int) async {
    let gate = Gate()
    awaited.withLock { $0.append((count, gate)) }
    openGates()
    await gate.wait()
  }

  private func openGates() {
    let enqueued = enqueued
    let reached = awaited.withLock { awaited in
      let reached = awaited.filter { $0.count <= enqueued }
      awaited.removeAll { $0.count <= enqueued }
      return reached
    }
    for awaited in reached { awaited.gate.open() }
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    allJobs.add(1, ordering: .sequentiallyConsistent)
    jobs.add(1, ordering: .relaxed)
    openGates()
    queue.async {
      unsafe job.runSynchronously(on: self.asUnownedSerialExecutor())
      self.jobs.subtract(1, ordering: .relaxed)
    }
  }

  func hold() {
    isHeld.withLock { isHeld in
      if !isHeld { queue.suspend() }
      isHeld = true
    }
  }

  /// Waits for the job that is running.
  func waitForRunningJob() {
    queue.sync {}
  }

  func letGo() {
    isHeld.withLock { isHeld in
      if isHeld { queue.resume() }
      isHeld = false
    }
  }

  deinit { letGo() }
}

/// A list that several tasks write to.
final class Record<Element: Sendable>: Sendable {
  private struct Contents {
    var entries: [Element] = []
    var awaited: [(count: Int, gate: Gate)] = []
  }
  private let contents = LockedValue(Contents())

  func add(_ element: Element) {
    let reached = contents.withLock { contents in
      contents.entries.append(element)
      let count = contents.entries.count
      guard contents.awaited.contains(where: { $0.count <= count }) else { return [Gate]() }
      defer { contents.awaited.removeAll { $0.count <= count } }
      return contents.awaited.filter { $0.count <= count }.map(\.gate)
    }
    for gate in reached { gate.open() }
  }

  var all: [Element] { contents.withLock { $0.entries } }

  /// Returns when there are that many elements.
  func untilCount(_ count: Int) async {
    let gate: Gate? = contents.withLock { contents in
      guard contents.entries.count < count else { return nil }
      let gate = Gate()
      contents.awaited.append((count, gate))
      return gate
    }
    await gate?.wait()
  }
}

/// Holds an object weakly, to check whether it has been released.
struct Weak<Object: AnyObject & Sendable>: Sendable {
  private(set) weak var object: Object?
  init(_ object: Object) { self.object = object }
}

/// An object that signals when it has been released.
final class Token: Sendable {
  let gone = Gate()
  deinit { gone.open() }
}

/// A reproducible generator.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed }
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

/// A signal from one task to another.
final class Flag: Sendable {
  private let flag = Atomic(false)
  var isRaised: Bool { flag.load(ordering: .relaxed) }
  func raise() { flag.store(true, ordering: .relaxed) }
  func lower() { flag.store(false, ordering: .relaxed) }
}
