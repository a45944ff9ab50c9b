/// A suspended task that waits for a value. An unchecked continuation, because one is made for each delivery.
///
/// SAFETY: each holder of a waiter (cursors, an inbox, an effect group, a pending request, a first outcome) keeps it in
/// exactly one place, and removes it from there to hand it out. Every caller that receives one resumes it.
@usableFromInline @safe struct Waiter<Value: Sendable>: Sendable {
  @usableFromInline let continuation: UnsafeContinuation<Value, Never>

  @inlinable init(_ continuation: UnsafeContinuation<Value, Never>) {
    unsafe self.continuation = continuation
  }

  @inlinable func resume(returning value: Value) {
    unsafe continuation.resume(returning: value)
  }

  @inlinable static func wait(
    isolation: isolated (any Actor)? = #isolation, _ register: (Waiter) -> Void
  ) async -> Value {
    unsafe await withUnsafeContinuation { continuation in
      unsafe register(Waiter(continuation))
    }
  }
}

/// Independent of the value's type, so that code that stores waiters is compiled once.
@usableFromInline struct AnyWaiter: Hashable, Sendable {
  @usableFromInline let bits: UInt

  @inlinable init(bits: UInt) { self.bits = bits }
}

extension AnyWaiter {
  /// SAFETY: a continuation is a single reference to its task, whatever its types. The reference is not counted:
  /// resuming the continuation consumes it.
  @inlinable init<Value>(_ waiter: Waiter<Value>) {
    self.init(bits: unsafe unsafeBitCast(waiter.continuation, to: UInt.self))
  }
}

extension Waiter {
  /// Unsafe: it must have been a waiter for the same type of value.
  @unsafe @inlinable init(_ waiter: AnyWaiter) {
    unsafe self.init(unsafeBitCast(waiter.bits, to: UnsafeContinuation<Value, Never>.self))
  }
}

/// The first outcome counts.
final class FirstOutcome<Value: Sendable>: Sendable {
  typealias Outcome = Result<Value, any Error>

  private enum Phase: Sendable {
    case open
    case awaited(Waiter<Outcome>)
    case known(Outcome)
  }

  private let phase = LockedValue(Phase.open)

  init() {}

  var isOpen: Bool { phase.withLock { if case .known = $0 { false } else { true } } }

  func end(with outcome: Outcome) {
    let waiter = phase.withLock { phase -> Waiter<Outcome>? in
      switch phase {
      case .known: return nil
      case .open:
        phase = .known(outcome)
        return nil
      case .awaited(let waiter):
        phase = .known(outcome)
        return waiter
      }
    }
    waiter?.resume(returning: outcome)
  }

  /// Called once.
  ///
  /// - Parameters:
  ///   - effect: The current task's effect, if any. It rests meanwhile.
  ///   - cause: The cause of the effect's pause.
  func value(
    of effect: RunningEffect?, for cause: RunningEffect.Pause.Cause, isolation: isolated (any Actor)? = #isolation
  ) async -> Outcome {
    var pause: RunningEffect.Pause?
    defer { pause?.end() }
    return await Waiter<Outcome>.wait { waiter in
      let known = phase.withLock { phase -> Outcome? in
        if case .known(let outcome) = phase { return outcome }
        phase = .awaited(waiter)
        return nil
      }
      if let known { return waiter.resume(returning: known) }
      guard let effect else { return }
      let begun = RunningEffect.Pause(for: cause) { [self] pause in !pause.hasEnded && isOpen }
      pause = begun
      effect.pauses(by: begun)
    }
  }
}
