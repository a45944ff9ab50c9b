import Synchronization

/// A lock for operations of a few nanoseconds. A waiting thread spins, then yields, then sleeps for short intervals.
///
/// A `Mutex` needs a second atomic read-modify-write to unlock, a quarter of a dispatch, and contending threads go to
/// the kernel (`Docs/Project/Performance.md`). In return, this lock has no priority inheritance, fairness or recursion
/// check. It has no queue that a flood could fill.
///
/// The optimizer may release an unused result of a body before the lock. A body must therefore not return a value whose
/// release runs a user's code: keep such values in a `LockedValue`, and drop them by `releasingOutside`.
///
/// On Apple's systems, where threads of very different priorities share a processor, it is a `Mutex`.
@usableFromInline struct BriefLock: ~Copyable, Sendable {
  #if canImport(Darwin)
    @usableFromInline let mutex = Mutex(())
  #else
    @usableFromInline let isTaken = Atomic(false)
  #endif

  @inlinable init() {}

  @inline(__always) @inlinable func withLock<Result>(_ body: () -> Result) -> Result {
    #if canImport(Darwin)
      return mutex.withLock { _ in body() }
    #else
      if isTaken.exchange(true, ordering: .acquiring) { wait() }
      defer { isTaken.store(false, ordering: .releasing) }
      return body()
    #endif
  }
}

#if !canImport(Darwin)
  extension BriefLock {
    private static let looks = 128
    private static let yields = 64

    @usableFromInline func wait() {
      var rounds = 0
      while true {
        for _ in 0..<Self.looks {
          if !isTaken.load(ordering: .relaxed), !isTaken.exchange(true, ordering: .acquiring) { return }
        }
        rounds += 1
        if rounds <= Self.yields { Platform.yieldThread() } else { Platform.pauseThread() }
      }
    }
  }
#endif
