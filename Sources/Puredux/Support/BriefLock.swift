import Synchronization

/// A lock for operations that mostly take a few nanoseconds. A waiting thread spins, then yields, then sleeps for short
/// intervals.
///
/// A plain store unlocks it, as there is no thread to wake. A `Mutex` needs a second atomic read-modify-write for that,
/// which is a quarter of a dispatch, and contending threads go to the kernel (`Docs/Project/Performance.md`, both threads). In
/// return, it has no priority inheritance, fairness or recursion check. It has no queue that a flood could fill: a
/// thread that tries while the lock is free gets it.
///
/// All of it is inlined, so the optimizer may release an unused result of a body before the lock. A body must therefore
/// not return a value whose release runs a user's code. Keep such values in a `LockedValue`, and drop them by
/// `releasingOutside`.
///
/// On Apple's systems it is a `Mutex`, as threads of very different priorities share a processor there.
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
