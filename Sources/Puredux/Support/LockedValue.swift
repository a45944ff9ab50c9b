import Synchronization

/// A `Mutex` with an atomic that signals each handover and is compiled into the client. On Linux the contended path of
/// `Mutex` is in a library that the thread sanitizer does not see: without the atomic, it reports false races. The cost
/// is not measurable.
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

  /// Otherwise the optimizer may release an unused result, and run a user's code, under the lock.
  @inline(__always) @inlinable package func releasingOutside<Result>(_ body: (inout Value) -> Result) {
    let result = withLock(body)
    withExtendedLifetime(result) {}
  }
}
