import Synchronization

/// What runs effects.
protocol EffectHost: AnyObject, Sendable {
  func effect(_ effect: RunningEffect, waitsWhile isWaiting: @escaping @Sendable () -> Bool)
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

  /// It waits for the next state of its own tree: as long as it does it is not waited for before the states end.
  func waits(while isWaiting: @escaping @Sendable () -> Bool) { runner.effect(self, waitsWhile: isWaiting) }

  func end() { isOver.store(true, ordering: .relaxed) }

  /// Those that run, of the effects that the current task is part of.
  static var ofCurrentTask: [RunningEffect] {
    guard let current else { return [] }
    return (current.outer + [current]).filter { !$0.hasEnded }
  }
}
