import Synchronization

/// The work that `perform` awaits after a commit: the effects that it begins, the actions that they dispatch, the
/// effects of these, and so on. Carried only while a caller waits.
@usableFromInline final class AwaitedWork: Sendable {
  let owner: any AnyObject & Sendable
  /// The unfinished parts: the caller's own, effects and actions.
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

  /// - Parameter effect: The current task's effect, if any. It rests meanwhile: the awaited effects count themselves.
  func untilOver(of effect: RunningEffect?, isolation: isolated (any Actor)? = #isolation) async {
    _ = await outcome.value(of: effect, for: .time)
  }
}

extension AwaitedWork {
  /// An effect, or an action to be committed. Ends at its release, at the latest.
  final class Part: Sendable {
    let awaitedWork: AwaitedWork
    private let isOver = Atomic(false)

    fileprivate init(of awaitedWork: AwaitedWork) { self.awaitedWork = awaitedWork }

    func end() { if !isOver.exchange(true, ordering: .acquiringAndReleasing) { awaitedWork.leave() } }

    deinit { end() }
  }
}
