import Synchronization

/// A value behind a lock.
///
/// A `Mutex` whose handover is also signalled by an atomic that is compiled into the client: on Linux the contended
/// path of `Mutex` is in a library that the thread sanitizer cannot see into, so that it would report races that do not
/// exist, in this library's tests and in those of all its users. The two plain moves that this costs are not
/// measurable.
@usableFromInline struct LockedValue<Value: Sendable>: ~Copyable, Sendable {
  @usableFromInline let mutex: Mutex<Value>
  @usableFromInline let handover = Atomic(false)

  @inlinable init(_ value: Value) {
    mutex = Mutex(value)
  }

  @inline(__always) @inlinable func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
    mutex.withLock { value in
      _ = handover.load(ordering: .acquiring)
      defer { handover.store(true, ordering: .releasing) }
      return body(&value)
    }
  }
}
