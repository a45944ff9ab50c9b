import Synchronization

/// A lock for operations that mostly take a few nanoseconds. A thread that finds it taken spins, then yields, and then
/// sleeps for a moment at a time.
///
/// It is released by a plain store, as there is nobody to be woken. A `Mutex` needs a second atomic read-modify-write
/// for that, which is a quarter of a dispatch, and threads that meet at one go to the kernel (`Docs/Performance.md`,
/// both threads). In return there is no priority inheritance, it is not fair, and not recursion-checked. It has no
/// queue that a flood could fill: a thread that looks while the lock is free gets in.
///
/// As all of it is inlined, the optimizer may release an unused result of a body before it releases the lock: so a body
/// returns nothing whose release runs the user's code. Such values are held in a `LockedValue`, and dropped by
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
    /// How often a waiting thread looks before it yields, and how often it yields before it sleeps.
    private static let looks = 128
    private static let yields = 64

    /// Takes the lock as soon as it is free.
    @usableFromInline func wait() {
      var rounds = 0
      while true {
        for _ in 0..<Self.looks {
          if !isTaken.load(ordering: .relaxed), !isTaken.exchange(true, ordering: .acquiring) { return }
        }
        rounds += 1
        // The thread that has taken it is not running, or has much to copy.
        if rounds <= Self.yields { Platform.yieldThread() } else { Platform.pauseThread() }
      }
    }
  }
#endif
