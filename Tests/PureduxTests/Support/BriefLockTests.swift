import Foundation
import PureduxTestSupport
import Synchronization
import Testing

@testable import Puredux

/// There is no time limit, because the threads' turns depend on the machine's other work.
@Suite struct BriefLockTests {
  private final class Counter: @unchecked Sendable {
    let lock = BriefLock()
    // SAFETY: accessed only under the lock, whose exclusion is the subject of this test.
    nonisolated(unsafe) var count = 0

    func add() { lock.withLock { unsafe count += 1 } }

    /// Yields between reading and writing, so that an addition would be lost if another thread got in.
    func addSlowly() {
      lock.withLock {
        let before = unsafe count
        sched_yield()
        unsafe count = before + 1
      }
    }

    var total: Int { lock.withLock { unsafe count } }
  }

  @Test func `only one thread at a time holds it`() async {
    let counter = Counter()
    await onThreads(8) {
      for _ in 0..<50 {
        counter.addSlowly()
        for _ in 0..<50 { counter.add() }
      }
    }
    #expect(counter.total == 8 * 50 * 51)
  }

  @Test func `threads wait while it is held, and all acquire it in the end`() async {
    let counter = Counter()
    let arrivals = Atomic(0)
    let countsWhileHeld = Atomic(-1)
    await onThreads(9) {
      guard arrivals.add(1, ordering: .relaxed).newValue == 1 else { return counter.add() }
      counter.lock.withLock {
        let before = unsafe counter.count
        while arrivals.load(ordering: .relaxed) < 9 { sched_yield() }
        // Gives the others turns to look, to yield and to sleep. More turns would show nothing else.
        for _ in 0..<200 { sched_yield() }
        countsWhileHeld.store(unsafe counter.count - before, ordering: .relaxed)
      }
    }
    #expect(countsWhileHeld.load(ordering: .relaxed) == 0)
    #expect(counter.total == 8)
  }
}
