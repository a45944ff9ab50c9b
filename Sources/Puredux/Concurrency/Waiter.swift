/// A task that waits to be handed a value.
///
/// An unchecked continuation, as one is made for each delivery. SAFETY: whoever keeps a waiter (cursors, an inbox, an
/// effect group, a late visit) keeps it in exactly one place, removes it there to hand it out, and every caller that is
/// handed one resumes it.
@usableFromInline @safe struct Waiter<Value: Sendable>: Sendable {
  @usableFromInline let continuation: UnsafeContinuation<Value, Never>

  @inlinable init(_ continuation: UnsafeContinuation<Value, Never>) {
    unsafe self.continuation = continuation
  }

  @inlinable func resume(returning value: Value) {
    unsafe continuation.resume(returning: value)
  }

  /// Suspends the current task until the waiter passed to the closure is resumed.
  @inlinable static func wait(
    isolation: isolated (any Actor)? = #isolation, _ register: (Waiter) -> Void
  ) async -> Value {
    unsafe await withUnsafeContinuation { continuation in
      unsafe register(Waiter(continuation))
    }
  }
}

/// A waiter whatever it waits for: so that what keeps waiters is compiled once, and not once for each type of value.
@usableFromInline struct AnyWaiter: Hashable, Sendable {
  @usableFromInline let bits: UInt

  @inlinable init(bits: UInt) { self.bits = bits }
}

extension AnyWaiter {
  /// SAFETY: a continuation is one reference to its task, whatever its types. It is counted by nobody: resuming it
  /// takes it.
  @inlinable init<Value>(_ waiter: Waiter<Value>) {
    self.init(bits: unsafe unsafeBitCast(waiter.continuation, to: UInt.self))
  }
}

extension Waiter {
  /// The waiter that another was made from. Unsafe: it has to have been one for the same type of value.
  @unsafe @inlinable init(_ waiter: AnyWaiter) {
    unsafe self.init(unsafeBitCast(waiter.bits, to: UnsafeContinuation<Value, Never>.self))
  }
}
