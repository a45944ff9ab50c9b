/// The outcome of a wait that may end in several ways. The first counts.
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

  /// Returns when there is an outcome. Called once.
  ///
  /// - Parameters:
  ///   - effect: The effect whose work the current task does, if any. It rests meanwhile.
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
