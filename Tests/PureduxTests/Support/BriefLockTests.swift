import Foundation
import PureduxTestSupport
import Synchronization
import Testing

@testable import Puredux

/// Without a limit of time: how long threads take to get in turn depends on what else the machine does.
@Suite struct BriefLockTests {
  private final class Counter: @unchecked Sendable {
    let lock = BriefLock()
    // SAFETY: accessed under the lock only, which is what is tested.
    nonisolated(unsafe) var count = 0

    func add() { lock.withLock { unsafe count += 1 } }

    /// Lets others run in between, so that an addition would be lost if one of them got in.
    func addSlowly() {
      lock.withLock {
        let before = unsafe count
        sched_yield()
        unsafe count = before + 1
      }
    }

    var total: Int { lock.withLock { unsafe count } }
  }

  @Test func `one thread at a time is within it`() async {
    let counter = Counter()
    await onThreads(8) {
      for _ in 0..<50 {
        counter.addSlowly()
        for _ in 0..<50 { counter.add() }
      }
    }
    #expect(counter.total == 8 * 50 * 51)
  }

  @Test func `threads wait for as long as it is held, and all get in`() async {
    let counter = Counter()
    let arrivals = Atomic(0)
    let countsWhileHeld = Atomic(-1)
    await onThreads(9) {
      guard arrivals.add(1, ordering: .relaxed).newValue == 1 else { return counter.add() }
      counter.lock.withLock {
        let before = unsafe counter.count
        while arrivals.load(ordering: .relaxed) < 9 { sched_yield() }
        // The others have turns meanwhile, to look, to yield and to sleep: more of them would show nothing else.
        for _ in 0..<200 { sched_yield() }
        countsWhileHeld.store(unsafe counter.count - before, ordering: .relaxed)
      }
    }
    #expect(countsWhileHeld.load(ordering: .relaxed) == 0)
    #expect(counter.total == 8)
  }
}
