import Synchronization

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// A value behind a lock, for what takes a few nanoseconds most of the time.
///
/// On Linux and Android it is a lock of our own. A `Mutex` there hands over from thread to thread through the kernel,
/// which takes a hundred times the processor time where many threads flood one store, and the thread sanitizer does not
/// see that it synchronizes; a `pthread_mutex` makes a `dispatch` half as slow again, as it needs a second atomic
/// operation to release it and is never inlined. A thread that finds the lock taken spins, then yields, and then
/// sleeps, longer from time to time, up to a millisecond. No priority inheritance, not fair, not recursion-checked.
@safe @usableFromInline package struct LockedValue<Value: Sendable>: ~Copyable, @unchecked Sendable {
  #if os(Linux) || os(Android)
    @usableFromInline let isTaken = Atomic(false)
    // SAFETY: allocated and initialized in `init`, and freed in `deinit`, when nobody can be within `withLock`, as that
    // borrows. Accessed only by whoever has taken the lock, which is why this is sendable.
    @usableFromInline let value: UnsafeMutablePointer<Value>

    @usableFromInline package init(_ value: Value) {
      unsafe self.value = .allocate(capacity: 1)
      unsafe self.value.initialize(to: value)
    }

    deinit {
      unsafe value.deinitialize(count: 1)
      unsafe value.deallocate()
    }
  #else
    @usableFromInline let mutex: Mutex<Value>

    @usableFromInline package init(_ value: Value) { mutex = Mutex(value) }
  #endif

  /// Passes the value to a closure, under the lock: not to be taken again in there.
  @inline(__always) @inlinable package func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    #if os(Linux) || os(Android)
      if isTaken.exchange(true, ordering: .acquiring) { wait() }
      defer { isTaken.store(false, ordering: .releasing) }
      return try unsafe body(&value.pointee)
    #else
      return try mutex.withLock { value throws(Failure) in try body(&value) }
    #endif
  }
}

#if os(Linux) || os(Android)
  extension LockedValue {
    /// How often a waiting thread looks before it yields, and how often it yields before it sleeps.
    private static var looks: Int { 128 }
    private static var yields: Int { 64 }

    /// Takes the lock as soon as it is free.
    @inline(never) @usableFromInline func wait() {
      var rounds = 0
      while true {
        for _ in 0..<Self.looks {
          if !isTaken.load(ordering: .relaxed), !isTaken.exchange(true, ordering: .acquiring) { return }
        }
        rounds += 1
        // The thread that has taken it is not running, or has much to copy.
        if rounds <= Self.yields { _ = sched_yield() } else { usleep(UInt32(50 * min(rounds - Self.yields, 20))) }
      }
    }
  }
#endif
