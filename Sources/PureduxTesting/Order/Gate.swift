import Puredux

/// A door that tasks wait at until it is opened: for a test that decides when something goes on, instead of hoping for
/// it.
///
///     let gate = Gate()
///     let service = Service(search: { text in await gate.wait(); return [text] })
///     …
///     await store.settled()  // The effect waits at the gate.
///     gate.open()
///
/// An effect that waits at a gate in its own task is at rest for `settled()`, until the gate opens. It is not for
/// `shutdown(interceptors: .finish(within:))`: there it is work that is to be completed.
public final class Gate: Sendable {
  private struct Door {
    var isOpen = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let door = LockedValue(Door())
  private let isWork: Bool

  /// - Parameter isWork: Whether an effect that waits here counts as running: `settled()` then waits for it.
  public init(isWork: Bool = false) { self.isWork = isWork }

  /// Lets all tasks through that wait, and all that come. Opening it again changes nothing.
  public func open() {
    let waiting = door.withLock { door in
      door.isOpen = true
      defer { door.waiting = [] }
      return door.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  /// Whether it has been opened.
  public var isOpen: Bool { door.withLock { $0.isOpen } }

  /// Returns when the gate is open, whether the task is cancelled or not.
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

/// Returns when the current task is cancelled: for work that does not end by itself. An effect that waits here is at
/// rest for `settled()`, unless it `isWork`.
public func untilCancelled(isWork: Bool = false) async {
  let gate = Gate(isWork: isWork)
  await withTaskCancellationHandler {
    await gate.wait()
  } onCancel: {
    gate.open()
  }
}
