import Dispatch
import Synchronization
import Testing

@testable import Puredux

struct BriefLockTests {
  private final class Counter: @unchecked Sendable {
    let lock = BriefLock()
    // SAFETY: accessed under the lock only, which is what is tested.
    nonisolated(unsafe) var count = 0

    func add() { lock.withLock { unsafe count += 1 } }
  }

  @Test func `one thread at a time is within it`() {
    let counter = Counter()
    DispatchQueue.concurrentPerform(iterations: 16) { _ in
      for _ in 0..<20_000 { counter.add() }
    }
    #expect(counter.lock.withLock { unsafe counter.count } == 320_000)
  }

  @Test func `threads wait for as long as it is held, and all get in`() {
    let counter = Counter()
    let hasTaken = DispatchSemaphore(value: 0)
    let mayLeave = DispatchSemaphore(value: 0)
    let held = DispatchGroup()
    let waiting = Atomic(0)
    DispatchQueue.global().async(group: held) {
      counter.lock.withLock {
        hasTaken.signal()
        mayLeave.wait()
        #expect(unsafe counter.count == 0)
      }
    }
    hasTaken.wait()
    let others = DispatchGroup()
    for _ in 0..<8 {
      DispatchQueue.global().async(group: others) {
        waiting.add(1, ordering: .relaxed)
        counter.add()
      }
    }
    while waiting.load(ordering: .relaxed) == 0 {}
    // Long enough for who waits to yield and to sleep; what is expected does not depend on it.
    #expect(others.wait(timeout: .now() + .milliseconds(20)) == .timedOut)
    mayLeave.signal()
    held.wait()
    others.wait()
    #expect(counter.lock.withLock { unsafe counter.count } == 8)
  }
}
