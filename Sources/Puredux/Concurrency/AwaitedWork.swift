import Synchronization

/// The work that a caller waits for besides the commit of an action: the effects that the commit begins, the actions
/// that they dispatch, the effects of those, and so on.
///
/// Commits carry it, as the tree knows the awaited work of the commit in progress, and effects do, in their revocation.
/// Without a caller that waits, nothing is carried.
@usableFromInline final class AwaitedWork: Sendable {
  /// The object that knows the effects that belong to this work.
  let owner: any AnyObject & Sendable
  /// How many parts are not over: the caller's own, and those of effects and actions.
  private let parts = LockedValue(1)
  private let cancelled = Atomic(false)
  private let outcome = FirstOutcome<Void>()

  init(owner: any AnyObject & Sendable) { self.owner = owner }

  /// Whether nothing more is to begin.
  var isCancelled: Bool { cancelled.load(ordering: .acquiring) }
  func cancel() { cancelled.store(true, ordering: .releasing) }

  /// Adds a part. Nil if the work is over.
  func enter() -> Part? {
    let isOpen = parts.withLock { parts in
      if parts > 0 { parts += 1 }
      return parts > 0
    }
    return isOpen ? Part(of: self) : nil
  }

  /// The caller's own part is over, or another one.
  func leave() {
    let isOver = parts.withLock { parts in
      parts -= 1
      return parts == 0
    }
    if isOver { outcome.end(with: .success(())) }
  }

  /// Returns when all is over.
  ///
  /// - Parameter effect: The effect whose work the current task does, if it does any. It rests meanwhile, as the
  ///   effects that it waits for speak for themselves.
  func untilOver(of effect: RunningEffect?, isolation: isolated (any Actor)? = #isolation) async {
    _ = await outcome.value(of: effect, for: .time)
  }
}

extension AwaitedWork {
  /// An effect, or an action that is to be committed. Over at the latest when nobody holds it.
  final class Part: Sendable {
    let awaitedWork: AwaitedWork
    private let isOver = Atomic(false)

    fileprivate init(of awaitedWork: AwaitedWork) { self.awaitedWork = awaitedWork }

    func end() { if !isOver.exchange(true, ordering: .acquiringAndReleasing) { awaitedWork.leave() } }

    deinit { end() }
  }
}
