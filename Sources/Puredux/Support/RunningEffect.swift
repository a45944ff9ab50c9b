import Synchronization

/// An effect before, during and after its run. Identifies the effect's tasks; an address would be reused. Subclasses
/// define the work.
///
/// SAFETY: variables are atomic, or behind the lock. The compiler does not check a class that can be inherited from.
@usableFromInline class RunningEffect: @unchecked Sendable {
  private struct Contents {
    var outer: [RunningEffect] = []
    var holdCount = 0
    var newest: Pause?
  }

  /// The innermost effect that the current task is or was part of: a task may outlive its effect.
  @TaskLocal static var current: RunningEffect?

  final let runner: any Host
  private let place = Atomic(0)
  private let hasBegun = Atomic(false)
  private let isOver = Atomic(false)
  private let endsElsewhere = Atomic(false)
  private let contents = LockedValue(Contents())
  /// Not one of its child tasks or of the tasks that it made.
  private let mainTask = Atomic(0)

  init(of runner: any Host) { self.runner = runner }

  /// The base class has no work.
  func run() async {
    if begins() { runner.ended(self) }
  }

  final func begins() -> Bool { !hasBegun.exchange(true, ordering: .relaxed) }

  /// The host learns of the end at its place in the order, not from the task.
  final func endIsTaken() { endsElsewhere.store(true, ordering: .relaxed) }
  final var isEndTaken: Bool { endsElsewhere.load(ordering: .relaxed) }

  final var number: Int { place.load(ordering: .relaxed) }

  final func starts(as number: Int, within outer: [RunningEffect]) {
    place.store(number, ordering: .relaxed)
    if !outer.isEmpty { contents.withLock { $0.outer = outer } }
  }

  /// Written under the host's lock.
  final var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  final func beginsHere() { mainTask.store(Self.currentTask, ordering: .relaxed) }

  @usableFromInline final var isHere: Bool { mainTask.load(ordering: .relaxed) == Self.currentTask }

  /// SAFETY: only the task's hash value is kept.
  private static var currentTask: Int { unsafe withUnsafeCurrentTask { unsafe $0?.hashValue ?? 0 } }

  final func pauses(by pause: Pause) {
    // The replaced pause is released outside the lock.
    let (isHeld, replaced) = contents.withLock { contents -> (Bool, Pause?) in
      guard contents.holdCount > 0 else { return (false, nil) }
      defer { contents.newest = pause }
      return (true, contents.newest)
    }
    if !isHeld { runner.effect(self, pausesBy: pause) }
    withExtendedLifetime(replaced) {}
  }

  /// Holds pauses back until `releasePauses` has matched each call.
  final func holdPauses() { contents.withLock { $0.holdCount += 1 } }

  final func releasePauses() {
    // Until the newest has been reported, so that none overtakes it.
    while let newest = contents.withLock({ contents in
      if contents.holdCount == 1, let newest = contents.newest.take() { return newest }
      contents.holdCount -= 1
      return nil
    }) { runner.effect(self, pausesBy: newest) }
  }

  /// Another task waits for a timeout, and then resumes this one. Until then, the effect rests only if the time has not
  /// come.
  final func expects(_ timeout: Pause) { runner.effect(self, expects: timeout) }
  final func ended(_ timeout: Pause) { runner.ended(timeout) }

  final func end() { isOver.store(true, ordering: .relaxed) }

  static var ofThisTask: RunningEffect? { current.flatMap { $0.isHere ? $0 : nil } }

  static var ofCurrentTask: [RunningEffect] {
    guard let current else { return [] }
    return (current.contents.withLock { $0.outer } + [current]).filter { !$0.hasEnded }
  }
}

extension RunningEffect {
  protocol Host: AnyObject, Sendable {
    var store: (any AnyObject & Sendable)? { get }
    func effect(_ effect: RunningEffect, pausesBy pause: Pause)
    func effect(_ effect: RunningEffect, expects timeout: Pause)
    func ended(_ timeout: Pause)
    func ended(_ effect: RunningEffect)
  }

  /// A wait of an effect, in the task that does its work.
  @usableFromInline final class Pause: Sendable {
    enum Cause {
      /// The next element of a sequence that ends with the effect's own tree, at the latest.
      case states
      /// The next element of another sequence of this library.
      case elements
      /// A time of the store's clock, or an event that a test decides about.
      case time
      /// A time of the store's clock, in work that lasts as long as the store. A finishing store does not wait for it.
      case interval

      var isTimed: Bool { self == .time || self == .interval }
    }

    let cause: Cause
    /// When the closure has acquired a lock, the pause may be over, and the value behind the lock gone.
    let isPending: @Sendable (Pause) -> Bool
    private let isOver = Atomic(false)
    private let isDue = Atomic(false)

    init(for cause: Cause, while isPending: @escaping @Sendable (Pause) -> Bool) {
      self.cause = cause
      self.isPending = isPending
    }

    /// For a sleep, the result of `look`: this is called under a lock, and the clock may be the user's.
    var holds: Bool {
      if hasEnded { return false }
      return cause.isTimed ? !isDue.load(ordering: .relaxed) : isPending(self)
    }

    var hasEnded: Bool { isOver.load(ordering: .acquiring) }

    /// Never reset, because a caller may be stale.
    func look() { if !isPending(self) { isDue.store(true, ordering: .relaxed) } }

    @usableFromInline func end() { isOver.store(true, ordering: .releasing) }
  }
}

extension RunningEffect.Host {
  // For a host that is never asked whether its effects rest.
  func effect(_ effect: RunningEffect, expects timeout: RunningEffect.Pause) {}
  func ended(_ timeout: RunningEffect.Pause) {}
}

/// SAFETY: the initializer sets the closure, and it is taken after `begins` has returned true, which happens once. The
/// compiler does not check subclasses of `RunningEffect`.
final class ClosureEffect: RunningEffect, @unchecked Sendable {
  typealias Body = @Sendable (RunningEffect) async -> Void

  /// Nil once begun, so that a holder of the effect, such as a `Dispatch`, does not hold its captures.
  private var body: Body?

  init(of runner: any Host, _ body: @escaping Body) {
    self.body = body
    super.init(of: runner)
  }

  override func run() async {
    guard begins() else { return }
    if let body = body.take() { await Self.$current.withValue(self) { await body(self) } }
    if !isEndTaken { runner.ended(self) }
  }
}

/// Whether an effect's actions are refused. Set on the tree's executor, in commit order, or from any thread when a
/// subscription is cancelled.
///
/// SAFETY: the flags are atomic, and `awaitedWork` is set before this is shared; subclasses are responsible for their
/// own state. The compiler does not check a class that is not final.
@usableFromInline class Revocation: @unchecked Sendable {
  private let revoked = Atomic(false)
  private let dispatched = Atomic(false)
  private final let whole: Revocation?
  final var awaitedWork: AwaitedWork?

  init(within whole: Revocation? = nil) {
    self.whole = whole
    awaitedWork = whole?.awaitedWork
  }

  final var isRevoked: Bool { revoked.load(ordering: .acquiring) || whole?.isRevoked == true }
  final func revoke() { revoked.store(true, ordering: .releasing) }

  final var hasDispatched: Bool { dispatched.load(ordering: .relaxed) }
  final func noteDispatch() {
    dispatched.store(true, ordering: .relaxed)
    whole?.noteDispatch()
  }
}
