import Synchronization

/// An object that runs effects.
protocol EffectHost: AnyObject, Sendable {
  func effect(_ effect: RunningEffect, pausesBy pause: EffectPause)
  /// The work is done.
  func ended(_ effect: RunningEffect)
}

/// Something that an effect waits for, in the task that does its work.
@usableFromInline final class EffectPause: Sendable {
  enum Cause { case states, time }

  let cause: Cause
  /// Whether the effect still has to wait, as far as can be seen now.
  private let isPending: @Sendable () -> Bool
  private let isOver = Atomic(false)
  /// What `look` found.
  private let isDue = Atomic(false)

  init(for cause: Cause, while isPending: @escaping @Sendable () -> Bool) {
    self.cause = cause
    self.isPending = isPending
  }

  /// Whether the effect still has to wait. For a sleep, this is what `look` found: the clock may be the user's, and
  /// this is called under a lock.
  var holds: Bool {
    if isOver.load(ordering: .acquiring) { return false }
    return cause == .time ? !isDue.load(ordering: .relaxed) : isPending()
  }

  /// Checks whether its time has come: for good, as one who looked before may write after one who looked later.
  func look() { if !isPending() { isDue.store(true, ordering: .relaxed) } }

  @usableFromInline func end() { isOver.store(true, ordering: .releasing) }
}

/// An effect that runs, or has run: identifies the tasks that are part of it. An object and not just an address, as an
/// address is reused.
@usableFromInline final class RunningEffect: Sendable {
  /// What is to be done. A structure, because generic code wraps a bare closure once more.
  struct Work: Sendable {
    let body: @Sendable (RunningEffect) async -> Void
  }

  private struct Contents {
    /// What is to be done, until it begins.
    var work: Work?
    /// How often pauses are held back, and the newest of those that are.
    var holdCount = 0
    var newest: EffectPause?
  }

  /// The innermost effect that the current task is or was part of: a task may outlive its effect.
  @TaskLocal static var current: RunningEffect?

  /// The object that runs it.
  let runner: any EffectHost
  /// The store that it belongs to, if any.
  let store: (any AnyObject & Sendable)?
  /// Its number among the effects of its runner.
  let number: Int
  /// The effects that its runner is part of, because they made the store.
  let outer: [RunningEffect]
  private let isOver = Atomic(false)
  private let contents: LockedValue<Contents>
  /// Distinguishes the task that does the work from its child tasks and from the tasks that it has made.
  private let mainTask = Atomic(0)

  init(
    of runner: any EffectHost, in store: (any AnyObject & Sendable)? = nil, number: Int,
    within outer: [RunningEffect], doing work: Work
  ) {
    contents = LockedValue(Contents(work: work))
    self.runner = runner
    self.store = store
    self.number = number
    self.outer = outer
  }

  /// Does the work, once, in the current task. A task that captures nothing but this object needs no other.
  func run() async {
    guard let work = contents.withLock({ $0.work.take() }) else { return }
    await Self.$current.withValue(self) { await work.body(self) }
    runner.ended(self)
  }

  /// Written under the runner's lock.
  var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  /// Records that the current task does the work of this effect.
  func beginsHere() { mainTask.store(Self.currentTask, ordering: .relaxed) }

  /// Whether the current task is the one that does the work.
  @usableFromInline var isHere: Bool { mainTask.load(ordering: .relaxed) == Self.currentTask }

  /// SAFETY: only a number is kept of the task.
  private static var currentTask: Int { unsafe withUnsafeCurrentTask { unsafe $0?.hashValue ?? 0 } }

  /// Reports that it waits for something.
  func pauses(by pause: EffectPause) {
    // What it replaces is released outside the lock.
    let (isHeld, replaced) = contents.withLock { contents -> (Bool, EffectPause?) in
      guard contents.holdCount > 0 else { return (false, nil) }
      defer { contents.newest = pause }
      return (true, contents.newest)
    }
    if !isHeld { runner.effect(self, pausesBy: pause) }
    withExtendedLifetime(replaced) {}
  }

  /// Holds pauses back until each call of this has been matched by one of `releasePauses`.
  func holdPauses() { contents.withLock { $0.holdCount += 1 } }

  func releasePauses() {
    // Held until the newest has been told, so that none overtakes it.
    while let newest = contents.withLock({ contents in
      if contents.holdCount == 1, let newest = contents.newest.take() { return newest }
      contents.holdCount -= 1
      return nil
    }) { runner.effect(self, pausesBy: newest) }
  }

  func end() { isOver.store(true, ordering: .relaxed) }

  /// The effects that the current task is part of and that still run.
  static var ofCurrentTask: [RunningEffect] {
    guard let current else { return [] }
    return (current.outer + [current]).filter { !$0.hasEnded }
  }
}
