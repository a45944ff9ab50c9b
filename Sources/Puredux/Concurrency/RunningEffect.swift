import Synchronization

/// An effect that runs, is about to, or has run: identifies the tasks that are part of it. An object and not just an
/// address, as an address is reused. Its work is defined by subclasses.
///
/// SAFETY: variables are atomic, or behind the lock. The compiler does not check a class that can be inherited from.
@usableFromInline class RunningEffect: @unchecked Sendable {
  private struct Contents {
    /// The effects that its runner is part of, because they made the store.
    var outer: [RunningEffect] = []
    /// How many calls hold pauses back, and the newest pause that is held back.
    var holdCount = 0
    var newest: Pause?
  }

  /// The innermost effect that the current task is or was part of: a task may outlive its effect.
  @TaskLocal static var current: RunningEffect?

  /// The object that runs it.
  final let runner: any Host
  private let place = Atomic(0)
  private let hasBegun = Atomic(false)
  private let isOver = Atomic(false)
  private let endsElsewhere = Atomic(false)
  private let contents = LockedValue(Contents())
  /// Distinguishes the task that does the work from its child tasks and from the tasks that it has made.
  private let mainTask = Atomic(0)

  init(of runner: any Host) { self.runner = runner }

  /// Does the work, in the current task and as `current`, and tells the runner; once. This class has no work to do.
  func run() async {
    if begins() { runner.ended(self) }
  }

  /// Whether the work is to be done now: true once.
  final func begins() -> Bool { !hasBegun.exchange(true, ordering: .relaxed) }

  /// The end has a place in the order, and the runner is told of it there, and not by the task that does the work.
  final func endIsTaken() { endsElsewhere.store(true, ordering: .relaxed) }
  final var isEndTaken: Bool { endsElsewhere.load(ordering: .relaxed) }

  /// Its number among the effects of its runner.
  final var number: Int { place.load(ordering: .relaxed) }

  /// Its runner is about to make its task.
  final func starts(as number: Int, within outer: [RunningEffect]) {
    place.store(number, ordering: .relaxed)
    if !outer.isEmpty { contents.withLock { $0.outer = outer } }
  }

  /// Written under the runner's lock.
  final var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  /// Records that the current task does the work of this effect.
  final func beginsHere() { mainTask.store(Self.currentTask, ordering: .relaxed) }

  /// Whether the current task is the one that does the work.
  @usableFromInline final var isHere: Bool { mainTask.load(ordering: .relaxed) == Self.currentTask }

  /// SAFETY: only a number is kept of the task.
  private static var currentTask: Int { unsafe withUnsafeCurrentTask { unsafe $0?.hashValue ?? 0 } }

  /// Reports that it waits for something.
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

  /// Holds pauses back until each call of this has been matched by one of `releasePauses`.
  final func holdPauses() { contents.withLock { $0.holdCount += 1 } }

  final func releasePauses() {
    // Pauses are held back until the newest has been reported, so that none overtakes it.
    while let newest = contents.withLock({ contents in
      if contents.holdCount == 1, let newest = contents.newest.take() { return newest }
      contents.holdCount -= 1
      return nil
    }) { runner.effect(self, pausesBy: newest) }
  }

  /// Another task waits for a timeout, and will then resume the task that does the work: until the timeout has ended,
  /// the effect rests only while the time has not come.
  final func expects(_ timeout: Pause) { runner.effect(self, expects: timeout) }
  final func ended(_ timeout: Pause) { runner.ended(timeout) }

  final func end() { isOver.store(true, ordering: .relaxed) }

  /// The effect whose work the current task does.
  static var ofThisTask: RunningEffect? { current.flatMap { $0.isHere ? $0 : nil } }

  /// The effects that the current task is part of and that still run.
  static var ofCurrentTask: [RunningEffect] {
    guard let current else { return [] }
    return (current.contents.withLock { $0.outer } + [current]).filter { !$0.hasEnded }
  }
}

extension RunningEffect {
  /// An object that runs effects.
  protocol Host: AnyObject, Sendable {
    /// The store that the effects belong to, if any.
    var store: (any AnyObject & Sendable)? { get }
    func effect(_ effect: RunningEffect, pausesBy pause: Pause)
    func effect(_ effect: RunningEffect, expects timeout: Pause)
    func ended(_ timeout: Pause)
    /// The work is done.
    func ended(_ effect: RunningEffect)
  }

  /// Something that an effect waits for, in the task that does its work.
  @usableFromInline final class Pause: Sendable {
    enum Cause {
      /// The next element of a sequence that ends with the effect's own tree, at the latest.
      case states
      /// The next element of another sequence of this library.
      case elements
      /// A time of the store's clock, or what a test decides about.
      case time
      /// A time of the store's clock, for work that goes on for as long as the store does. A store that finishes does
      /// not wait for this work.
      case interval

      var isTimed: Bool { self == .time || self == .interval }
    }

    let cause: Cause
    /// Whether the effect still has to wait, as far as can be seen now. By the time that the closure has acquired a
    /// lock, the pause may be over, and the value behind the lock gone.
    let isPending: @Sendable (Pause) -> Bool
    private let isOver = Atomic(false)
    /// Whether `look` has found that its time has come.
    private let isDue = Atomic(false)

    init(for cause: Cause, while isPending: @escaping @Sendable (Pause) -> Bool) {
      self.cause = cause
      self.isPending = isPending
    }

    /// Whether the effect still has to wait. For a sleep, this is what `look` found: the clock may be the user's, and
    /// this is called under a lock.
    var holds: Bool {
      if hasEnded { return false }
      return cause.isTimed ? !isDue.load(ordering: .relaxed) : isPending(self)
    }

    var hasEnded: Bool { isOver.load(ordering: .acquiring) }

    /// Checks whether its time has come. Sticky: a stale reader must not reset it.
    func look() { if !isPending(self) { isDue.store(true, ordering: .relaxed) } }

    @usableFromInline func end() { isOver.store(true, ordering: .releasing) }
  }
}

extension RunningEffect.Host {
  // A host that nobody asks whether all its effects rest ignores timeouts.
  func effect(_ effect: RunningEffect, expects timeout: RunningEffect.Pause) {}
  func ended(_ timeout: RunningEffect.Pause) {}
}
