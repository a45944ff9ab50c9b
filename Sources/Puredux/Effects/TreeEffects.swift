/// The effects of a tree: a runner for each store that an interceptor has taken an action of.
@usableFromInline
final class TreeEffects<Action: Sendable>: Sendable {
  /// Starts the task of a runner.
  @usableFromInline
  typealias Spawn = @Sendable (@escaping EffectRunner.Effect) -> Void

  private struct StoreEffects {
    let origin: Origin<Action>
    let runner: EffectRunner
  }

  private let spawn: Spawn
  private let stores = Guarded<[ObjectIdentifier: StoreEffects]>([:])

  @usableFromInline
  init(spawn: @escaping Spawn) {
    self.spawn = spawn
  }

  @usableFromInline
  func start(_ effect: @escaping Interceptor<Action>.Effect, of origin: Origin<Action>) {
    let runner = stores.withLock { stores in
      let id = ObjectIdentifier(origin)
      if let store = stores[id] { return store.runner }
      let store = StoreEffects(origin: origin, runner: EffectRunner())
      stores[id] = store
      return store.runner
    }
    runner.add {
      await effect(Dispatch(origin: origin))
    } spawn: { run in
      spawn {
        let trees = EffectContext.trees.union([ObjectIdentifier(origin.tree)])
        await EffectContext.$trees.withValue(trees) { await run() }
        self.forget(origin)
      }
    }
  }

  private func forget(_ origin: Origin<Action>) {
    _ = stores.withLock { $0.removeValue(forKey: ObjectIdentifier(origin)) }
  }

  /// Ends the effects of a store and of all below it.
  @usableFromInline
  func end(below origin: Origin<Action>, cancelling: Bool) {
    for runner in runners(below: origin) { runner.end(cancelling: cancelling) }
  }

  /// Returns when all effects of a store and of all below it have ended.
  @usableFromInline
  func untilEnded(below origin: Origin<Action>) async {
    for runner in runners(below: origin) { await runner.untilEnded() }
  }

  private func runners(below origin: Origin<Action>) -> [EffectRunner] {
    stores.withLock { stores in
      stores.values.filter { $0.origin.isBelow(origin) }.map(\.runner)
    }
  }
}

/// The trees whose effects the current task is part of: one of them cannot wait for the end of them all.
@usableFromInline
enum EffectContext {
  @TaskLocal static var trees: Set<ObjectIdentifier> = []
}

/// Hands every commit of a tree to an interceptor.
@usableFromInline
struct Interception<Action: Sendable>: CommitObserver {
  @usableFromInline
  let interceptor: Interceptor<Action>
  @usableFromInline
  let effects: TreeEffects<Action>

  @inlinable
  init(interceptor: Interceptor<Action>, effects: TreeEffects<Action>) {
    self.interceptor = interceptor
    self.effects = effects
  }

  @inlinable
  func committed(_ action: Action, from origin: Origin<Action>) {
    for effect in interceptor.effects(action) { effects.start(effect, of: origin) }
  }
}
