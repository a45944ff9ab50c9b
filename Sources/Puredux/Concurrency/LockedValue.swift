import Synchronization

/// A value behind a lock.
///
/// A `Mutex` whose handover is also signalled by an atomic that is compiled into the client: on Linux the contended
/// path of `Mutex` is in a library that the thread sanitizer cannot see into, so that it would report races that do not
/// exist, in this library's tests and in those of all its users. The two plain moves that this costs are not
/// measurable.
@usableFromInline package struct LockedValue<Value: Sendable>: ~Copyable, Sendable {
  @usableFromInline let mutex: Mutex<Value>
  @usableFromInline let handover = Atomic(false)

  @inlinable package init(_ value: Value) {
    mutex = Mutex(value)
  }

  @inline(__always) @inlinable package func withLock<Result, Failure: Error>(
    _ body: (inout Value) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    try mutex.withLock { value throws(Failure) in
      _ = handover.load(ordering: .acquiring)
      defer { handover.store(true, ordering: .releasing) }
      return try body(&value)
    }
  }

  /// Runs a body under the lock, and releases what it returns outside: the optimizer may otherwise release a result
  /// that nobody uses, and with it run the user's code, before the lock is released.
  @inline(__always) @inlinable package func releasingOutside<Result>(_ body: (inout Value) -> Result) {
    let result = withLock(body)
    withExtendedLifetime(result) {}
  }
}
