import Foundation
import Synchronization
import Testing

@testable import Puredux

/// Without a limit of time: how long threads take to get in turn depends on what else the machine does.
@Suite struct LockedValueTests {
  private final class Shared: Sendable {
    let value: LockedValue<Int>

    init(_ value: Int) { self.value = LockedValue(value) }
  }

  /// Has a body called on so many threads, and returns when all have returned.
  private func onThreads(_ count: Int, _ body: @escaping @Sendable () -> Void) async {
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

  @Test func `one thread at a time is within it`() async {
    let count = Shared(0)
    await onThreads(8) {
      for _ in 0..<50 {
        // Others run in between, so that an addition would be lost if one of them got in.
        count.value.withLock { count in
          let before = count
          sched_yield()
          count = before + 1
        }
        for _ in 0..<50 { count.value.withLock { $0 += 1 } }
      }
    }
    #expect(count.value.withLock { $0 } == 8 * 50 * 51)
  }

  @Test func `threads wait for as long as it is held, and all get in`() async {
    let count = Shared(0)
    let arrivals = Atomic(0)
    let additions = Atomic(0)
    let countsWhileHeld = Atomic(-1)
    await onThreads(9) {
      guard arrivals.add(1, ordering: .relaxed).newValue == 1 else {
        return count.value.withLock {
          $0 += 1
          additions.add(1, ordering: .relaxed)
        }
      }
      count.value.withLock { _ in
        while arrivals.load(ordering: .relaxed) < 9 { sched_yield() }
        // The others have turns meanwhile: more of them would show nothing else.
        for _ in 0..<200 { sched_yield() }
        countsWhileHeld.store(additions.load(ordering: .relaxed), ordering: .relaxed)
      }
    }
    #expect(countsWhileHeld.load(ordering: .relaxed) == 0)
    #expect(count.value.withLock { $0 } == 8)
  }

  @Test func `the value is released with it, once`() {
    weak var kept: AnyObject?
    do {
      final class Thing: Sendable {}
      let value = LockedValue(Thing())
      kept = value.withLock { $0 }
      #expect(kept != nil)
      value.withLock { $0 = Thing() }
      #expect(kept == nil)
      kept = value.withLock { $0 }
    }
    #expect(kept == nil)
  }

  @Test func `what a body throws comes out, and the lock is free again`() {
    struct Failure: Error {}
    let value = LockedValue(1)
    #expect(throws: Failure.self) { try value.withLock { _ throws(Failure) in throw Failure() } }
    #expect(value.withLock { $0 } == 1)
  }
}
