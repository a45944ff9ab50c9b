import Synchronization

/// What a caller waits for besides the commit of an action: the effects that this begins, the actions that they dispatch,
/// the effects of those, and so on.
///
/// It goes along with commits, as a task-local value that is set while one is made, and with effects, in their
/// revocation. Who asks for none carries none.
final class Errand: Sendable {
  @TaskLocal private static var ofCommit: Errand?
  private static let count = Atomic(0)

  /// Whether there is any: no other commit looks for its own.
  static var isAny: Bool { count.load(ordering: .relaxed) > 0 }

  /// That of the commit in progress; on a tree's executor.
  static var current: Errand? { isAny ? ofCommit : nil }

  /// What knows the effects that belong to it.
  let owner: any AnyObject & Sendable
  /// The caller's own part, and those of effects and actions.
  private let parts = LockedValue(1)
  private let cancelled = Atomic(false)
  private let outcome = FirstOutcome<Void>()

  init(owner: any AnyObject & Sendable) {
    self.owner = owner
    Self.count.wrappingAdd(1, ordering: .relaxed)
  }

  deinit { Self.count.wrappingSubtract(1, ordering: .relaxed) }

  /// Whether nothing more is to begin.
  var isCancelled: Bool { cancelled.load(ordering: .acquiring) }
  func cancel() { cancelled.store(true, ordering: .releasing) }

  /// Something more belongs to it. Nil if it is over.
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
  /// - Parameter effect: The effect whose work the current task does, if it does any. It rests meanwhile, as those that
  ///   it waits for speak for themselves.
  func untilOver(of effect: RunningEffect?, isolation: isolated (any Actor)? = #isolation) async {
    _ = await outcome.value(of: effect, for: .time)
  }

  /// Calls a closure that makes a commit, which belongs to an errand if there is one.
  static func committing<Failure: Error>(
    of errand: Errand?, _ body: () throws(Failure) -> Void
  ) throws(Failure) {
    guard let errand else { return try body() }
    var failure: Failure?
    $ofCommit.withValue(errand) {
      do throws(Failure) { try body() } catch { failure = error }
    }
    if let failure { throw failure }
  }
}

extension Errand {
  /// An effect, or an action that is to be committed. Over at the latest when nobody holds it.
  final class Part: Sendable {
    let errand: Errand
    private let isOver = Atomic(false)

    fileprivate init(of errand: Errand) { self.errand = errand }

    func end() { if !isOver.exchange(true, ordering: .acquiringAndReleasing) { errand.leave() } }

    deinit { end() }
  }
}
