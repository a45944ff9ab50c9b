import Synchronization

/// The work of an action that `perform` awaits after its commit: the effects that the commit begins, the actions that
/// they dispatch, the effects of these, and so on.
///
/// It is carried by commits, as the tree knows the awaited work of the current one, and by effects, in their
/// revocation. If no caller waits, nothing is carried.
@usableFromInline final class AwaitedWork: Sendable {
  let owner: any AnyObject & Sendable
  /// The number of unfinished parts: the caller's own, effects and actions.
  private let parts = LockedValue(1)
  private let cancelled = Atomic(false)
  private let outcome = FirstOutcome<Void>()

  init(owner: any AnyObject & Sendable) { self.owner = owner }

  var isCancelled: Bool { cancelled.load(ordering: .acquiring) }
  func cancel() { cancelled.store(true, ordering: .releasing) }

  func enter() -> Part? {
    let isOpen = parts.withLock { parts in
      if parts > 0 { parts += 1 }
      return parts > 0
    }
    return isOpen ? Part(of: self) : nil
  }

  func leave() {
    let isOver = parts.withLock { parts in
      parts -= 1
      return parts == 0
    }
    if isOver { outcome.end(with: .success(())) }
  }

  /// Returns when all parts have ended.
  ///
  /// - Parameter effect: The effect whose work the current task does, if any. It rests meanwhile, as the awaited
  ///   effects count themselves.
  func untilOver(of effect: RunningEffect?, isolation: isolated (any Actor)? = #isolation) async {
    _ = await outcome.value(of: effect, for: .time)
  }
}

extension AwaitedWork {
  /// An effect, or an action to be committed. It ends when it is released, at the latest.
  final class Part: Sendable {
    let awaitedWork: AwaitedWork
    private let isOver = Atomic(false)

    fileprivate init(of awaitedWork: AwaitedWork) { self.awaitedWork = awaitedWork }

    func end() { if !isOver.exchange(true, ordering: .acquiringAndReleasing) { awaitedWork.leave() } }

    deinit { end() }
  }
}
