import Foundation
import Puredux
import PureduxTesting
import Synchronization

package typealias Gate = PureduxTesting.Gate
package typealias ManualClock = PureduxTesting.ManualClock
package typealias ManualExecutor = PureduxTesting.ManualExecutor

/// A gate for synchronous code. It blocks its thread: only threads that nothing else needs may wait.
package final class Latch: Sendable {
  private let semaphore = DispatchSemaphore(value: 0)
  package init() {}
  package func open() { semaphore.signal() }
  package func wait() {
    semaphore.wait()
    semaphore.signal()
  }
}

/// A store that settles waits for this.
package func untilCancelled() async { await PureduxTesting.untilCancelled(isWork: true) }

/// A serial executor that performs no requests while it is held.
package final class HeldExecutor: SerialExecutor, Sendable {
  private let queue = DispatchQueue(label: "held")
  private let key = DispatchSpecificKey<Void>()
  private let isHeld = LockedValue(false)

  package init() { queue.setSpecific(key: key, value: ()) }

  package var isCurrent: Bool { DispatchQueue.getSpecific(key: key) != nil }

  private let jobs = Atomic(0)
  private let allJobs = Atomic(0)

  package var waiting: Int { jobs.load(ordering: .relaxed) }

  package var enqueued: Int { allJobs.load(ordering: .sequentiallyConsistent) }

  private let awaited = LockedValue<[(count: Int, gate: Gate)]>([])

  package func untilEnqueued(_ count: Int) async {
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

  package func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    allJobs.add(1, ordering: .sequentiallyConsistent)
    jobs.add(1, ordering: .relaxed)
    openGates()
    queue.async {
      unsafe job.runSynchronously(on: self.asUnownedSerialExecutor())
      self.jobs.subtract(1, ordering: .relaxed)
    }
  }

  package func hold() {
    isHeld.withLock { isHeld in
      if !isHeld { queue.suspend() }
      isHeld = true
    }
  }

  package func waitForRunningJob() {
    queue.sync {}
  }

  package func letGo() {
    isHeld.withLock { isHeld in
      if isHeld { queue.resume() }
      isHeld = false
    }
  }

  deinit { letGo() }
}

package final class Record<Element: Sendable>: Sendable {
  private struct Contents {
    var entries: [Element] = []
    var awaited: [(count: Int, gate: Gate)] = []
  }
  private let contents = LockedValue(Contents())

  package init() {}

  package func add(_ element: Element) {
    let reached = contents.withLock { contents in
      contents.entries.append(element)
      let count = contents.entries.count
      guard contents.awaited.contains(where: { $0.count <= count }) else { return [Gate]() }
      defer { contents.awaited.removeAll { $0.count <= count } }
      return contents.awaited.filter { $0.count <= count }.map(\.gate)
    }
    for gate in reached { gate.open() }
  }

  package var all: [Element] { contents.withLock { $0.entries } }

  package func untilCount(_ count: Int) async {
    let gate: Gate? = contents.withLock { contents in
      guard contents.entries.count < count else { return nil }
      let gate = Gate()
      contents.awaited.append((count, gate))
      return gate
    }
    await gate?.wait()
  }
}

package struct Weak<Object: AnyObject & Sendable>: Sendable {
  package private(set) weak var object: Object?
  package init(_ object: Object) { self.object = object }
}

/// Opens a gate when it is released.
package final class Token: Sendable {
  package let gone = Gate()
  package init() {}
  deinit { gone.open() }
}

package final class Flag: Sendable {
  private let flag = Atomic(false)
  package init() {}
  package var isRaised: Bool { flag.load(ordering: .relaxed) }
  package func raise() { flag.store(true, ordering: .relaxed) }
  package func lower() { flag.store(false, ordering: .relaxed) }
}

package final class Counter: Sendable {
  private let number = Atomic(0)
  package init() {}
  package var count: Int { number.load(ordering: .sequentiallyConsistent) }
  package func increment() { number.add(1, ordering: .sequentiallyConsistent) }
}

package final class Counted: Sendable {
  private let counter: Counter
  package init(_ counter: Counter) { self.counter = counter }
  deinit { counter.increment() }
}

package func onThreads(_ count: Int, _ body: @escaping @Sendable () -> Void) async {
  await withTaskGroup { tasks in
    for _ in 0..<count {
      tasks.addTask {
        await withCheckedContinuation { continuation in
          Thread.detachNewThread {
            body()
            continuation.resume()
          }
        }
      }
    }
  }
}
