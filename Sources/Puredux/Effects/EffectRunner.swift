import Synchronization

@usableFromInline final class EffectRunner: RunningEffect.Host {
  private typealias Instruction = EffectInstruction<RunningEffect>
  private typealias Group = EffectGroup<RunningEffect, Waiter<Instruction>, Waiter<Void>>

  let store: (any AnyObject & Sendable)?
  private let group = LockedValue(Group())

  @usableFromInline init(of store: (any AnyObject & Sendable)? = nil) { self.store = store }

  var runningCount: Int { group.withLock { $0.unfinishedCount } }
  var effectCount: Int { group.withLock { $0.unfinishedCount - $0.observerCount } }

  typealias Spawn = (@escaping @Sendable () async -> Void) -> Void

  /// For the first effect, `spawn` must call its argument in a task.
  ///
  /// - Parameter isHeld: Whether only `release` starts the effect.
  /// - Returns: False if the store starts no more effects.
  @discardableResult
  func add(_ effect: RunningEffect, isObserver: Bool = false, isHeld: Bool = false, spawn: Spawn) -> Bool {
    carryOut(group.withLock { $0.add(effect, isObserver: isObserver, isHeld: isHeld) }, spawn)
  }

  func release(spawn: Spawn) { _ = carryOut(group.withLock { $0.release() }, spawn) }

  private func carryOut(_ addition: Group.Addition, _ spawn: Spawn) -> Bool {
    switch addition {
    case .refused: return false
    case .added: break
    case .spawn: spawn { await self.run() }
    case .wake(let wake): self.wake(wake)
    }
    return true
  }

  @usableFromInline func run() async {
    let outer = RunningEffect.ofCurrentTask
    await withDiscardingTaskGroup { tasks in
      var count = 0
      while true {
        switch await next() {
        case .start(let effects):
          for effect in effects {
            effect.starts(as: count, within: outer)
            count += 1
            tasks.addTask { await effect.run() }
          }
        case .cancel:
          tasks.cancelAll()
          for waiter in group.withLock({ $0.cancelled() }) { waiter.resume(returning: ()) }
        case .leave: return
        }
      }
    }
    for waiter in group.withLock({ $0.runnerEnded() }) { waiter.resume(returning: ()) }
  }

  func effect(_ effect: RunningEffect, pausesBy pause: RunningEffect.Pause) {
    // The replaced pause is released outside the lock.
    let outcome = group.withLock { group in
      effect.hasEnded ? nil : group.effect(effect.number, pausesBy: pause)
    }
    for waiter in outcome?.told ?? [] { waiter.resume(returning: ()) }
  }

  func effect(_ effect: RunningEffect, expects timeout: RunningEffect.Pause) {
    group.withLock { if !effect.hasEnded { $0.expects(timeout) } }
  }

  func ended(_ timeout: RunningEffect.Pause) {
    // The caller holds the timeout, so that it is not released under the lock.
    for waiter in group.withLock({ $0.ended(timeout) }) { waiter.resume(returning: ()) }
  }

  var isRestAwaited: Bool { group.withLock { $0.isRestAwaited } }

  private func next() async -> Instruction {
    await Waiter<Instruction>.wait { waiter in
      if let instruction = group.withLock({ $0.next(orPark: waiter) }) {
        waiter.resume(returning: instruction)
      }
    }
  }

  func ended(_ effect: RunningEffect) {
    let end = group.withLock { group in
      effect.end()
      return group.effectEnded(effect.number)
    }
    wake(end.wake)
    for waiter in end.ended { waiter.resume(returning: ()) }
  }

  private func wake(_ wake: Group.Wake?) {
    guard let wake else { return }
    wake.runner.resume(returning: wake.instruction)
  }

  @usableFromInline func end(cancelling: Bool) {
    let end = group.withLock { $0.end(cancelling: cancelling) }
    wake(end.wake)
    for waiter in end.ended { waiter.resume(returning: ()) }
  }

  /// Returns when all effects are idle, or the caller is cancelled.
  func untilIdle(_ idleness: EffectIdleness) async {
    let number = Atomic(0)
    let giveUp = { @Sendable [self] in
      group.withLock { $0.forgetIdleWaiter(number.load(ordering: .relaxed)) }?.resume(returning: ())
    }
    await withTaskCancellationHandler {
      await Waiter<Void>.wait { waiter in
        let isIdle = group.withLock { group in
          let (isIdle, place) = group.isIdle(idleness, orTells: waiter)
          number.store(place, ordering: .relaxed)
          return isIdle
        }
        if isIdle { waiter.resume(returning: ()) } else if Task.isCancelled { giveUp() }
      }
    } onCancel: {
      giveUp()
    }
  }

  func workload(_ idleness: EffectIdleness) -> (isIdle: Bool, changeCount: Int) {
    if idleness == .nothingRuns {
      for sleep in group.withLock({ $0.sleeps }) { sleep.look() }
    }
    return group.withLock { ($0.isIdle(idleness), $0.changeCount) }
  }

  func untilEnded() async {
    await Waiter<Void>.wait { waiter in
      if group.withLock({ $0.hasEnded(orTells: waiter) }) { waiter.resume(returning: ()) }
    }
  }
}

/// A wait of an effect that a test controls. From `begin` to `end`, it counts as rest (`settled`) while a condition
/// holds.
package struct EffectRest: Sendable {
  private let effect: RunningEffect
  private let pause: RunningEffect.Pause

  /// Nil if the current task is not an effect's own task.
  package init?(while isPending: @escaping @Sendable () -> Bool) {
    guard let effect = RunningEffect.ofThisTask else { return nil }
    self.effect = effect
    pause = RunningEffect.Pause(for: .time, while: { _ in isPending() })
  }

  package func begin() { effect.pauses(by: pause) }

  /// May be called before `begin`: then there is no rest.
  package func end() { pause.end() }
}
