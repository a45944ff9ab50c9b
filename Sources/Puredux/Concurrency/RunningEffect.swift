import Synchronization

/// What runs effects.
protocol EffectHost: AnyObject, Sendable {
  func effect(_ effect: RunningEffect, pausesBy pause: EffectPause)
}

/// What an effect waits for, in the task that does its work.
@usableFromInline final class EffectPause: Sendable {
  enum Cause { case states, time }

  let cause: Cause
  /// Whether what it waits for has not come, as far as can be told by a look.
  private let isPending: @Sendable () -> Bool
  private let isOver = Atomic(false)
  /// As `look` has found.
  private let isDue = Atomic(false)

  init(for cause: Cause, while isPending: @escaping @Sendable () -> Bool) {
    self.cause = cause
    self.isPending = isPending
  }

  /// Whether what it waits for has not come. Of a sleep, as `look` has found: the clock may be the user's, and this is
  /// asked under a lock.
  var holds: Bool {
    if isOver.load(ordering: .acquiring) { return false }
    return cause == .time ? !isDue.load(ordering: .relaxed) : isPending()
  }

  /// Sees whether its time has come.
  func look() { isDue.store(!isPending(), ordering: .relaxed) }

  @usableFromInline func end() { isOver.store(true, ordering: .releasing) }
}

/// An effect that runs, or has run: what tells the tasks that are part of it. That is an object of its own and not an
/// address, which comes to be that of something else.
@usableFromInline final class RunningEffect: Sendable {
  /// The innermost effect that the current task is part of, or was: a task may be left behind.
  @TaskLocal static var current: RunningEffect?

  /// What runs it.
  let runner: any EffectHost
  /// The store that it belongs to, if any.
  let store: (any AnyObject & Sendable)?
  /// Its number among those of its runner.
  let number: Int
  /// Those that its runner is part of, as the store is one that they made.
  let outer: [RunningEffect]
  private let isOver = Atomic(false)
  /// What tells the task that does the work from its child tasks and those that it has made.
  private let mainTask = Atomic(0)

  init(
    of runner: any EffectHost, in store: (any AnyObject & Sendable)? = nil, number: Int,
    within outer: [RunningEffect]
  ) {
    self.runner = runner
    self.store = store
    self.number = number
    self.outer = outer
  }

  /// Written under the lock of the runner.
  var hasEnded: Bool { isOver.load(ordering: .relaxed) }

  /// The current task does the work of this effect.
  func beginsHere() { mainTask.store(Self.currentTask, ordering: .relaxed) }

  /// Whether the current task is the one that does the work.
  @usableFromInline var isHere: Bool { mainTask.load(ordering: .relaxed) == Self.currentTask }

  /// SAFETY: nothing of the task is kept but a number.
  private static var currentTask: Int { unsafe withUnsafeCurrentTask { unsafe $0?.hashValue ?? 0 } }

  /// It waits for something.
  func pauses(by pause: EffectPause) { runner.effect(self, pausesBy: pause) }

  func end() { isOver.store(true, ordering: .relaxed) }

  /// Those that run, of the effects that the current task is part of.
  static var ofCurrentTask: [RunningEffect] {
    guard let current else { return [] }
    return (current.outer + [current]).filter { !$0.hasEnded }
  }
}
