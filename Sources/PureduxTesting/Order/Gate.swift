import Puredux

/// A gate that blocks tasks until the test opens it.
///
///     let gate = Gate()
///     let service = Service(search: { text in await gate.wait(); return [text] })
///     …
///     await store.settled()  // The effect waits at the gate.
///     gate.open()
///
/// An effect that waits at a gate in its own task is at rest for `settled()`, but unfinished for
/// `shutdown(interceptors: .finish(within:))`.
public final class Gate: Sendable {
  private struct Door {
    var isOpen = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let door = LockedValue(Door())
  private let isWork: Bool

  /// - Parameter isWork: Whether a waiting effect counts as running for `settled()`.
  public init(isWork: Bool = false) { self.isWork = isWork }

  /// Resumes all waiting tasks, and lets later ones pass. A second call changes nothing.
  public func open() {
    let waiting = door.withLock { door in
      door.isOpen = true
      defer { door.waiting = [] }
      return door.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Whether the gate has been opened.
  public var isOpen: Bool { door.withLock { $0.isOpen } }

  /// Returns when the gate is open. Cancellation does not end the wait.
  public func wait() async {
    let rest = isWork || isOpen ? nil : EffectRest { [self] in !isOpen }
    rest?.begin()
    await withCheckedContinuation { continuation in
      let isOpen = door.withLock { door in
        if !door.isOpen { door.waiting.append(continuation) }
        return door.isOpen
      }
      if isOpen { continuation.resume() }
    }
    rest?.end()
  }
}

/// Returns when the current task is cancelled. An effect that waits here is at rest for `settled()`, unless `isWork` is
/// true.
public func untilCancelled(isWork: Bool = false) async {
  let gate = Gate(isWork: isWork)
  await withTaskCancellationHandler {
    await gate.wait()
  } onCancel: {
    gate.open()
  }
}
