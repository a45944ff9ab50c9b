/// Runs the effects of one store's state: does what their turns decide, and nothing else.
final class StateEffectRunner<Action: Sendable>: Sendable {
  /// The store that they belong to.
  private let node: any AnyStoreNode
  /// What an effect is handed.
  private let dispatch: @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  private let turns = LockedValue(StateEffectTurns<EffectID, IdentifiedEffect>())

  init(
    of node: any AnyStoreNode, dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) {
    self.node = node
    self.dispatch = dispatch
  }

  /// Work begins for an element, in place of what there is. Only on the tree's executor, in commit order, as `end`.
  func begin(_ effect: Effect<Action>?, for id: EffectID) {
    let effects = node.effects
    var runs: [Effect<Action>.Run] = []
    for part in effect?.parts ?? [] {
      switch part.content {
      case .run(var run):
        run.context = node.carriedContext
        runs.append(run)
      case .cancel(let id): effects.cancel(id, of: node)
      case .all: break
      }
    }
    if runs.isEmpty { return end(id) }
    let named = runs.contains { $0.id != nil } ? effects.slots(of: node) : nil
    let work = runs.map { run in
      IdentifiedEffect { [self, settings = effects.settings] running, revocation in
        named?.count(run.id, by: 1)
        await run.perform(for: node, within: running, dispatch(running, revocation), revocation, settings)
        named?.count(run.id, by: -1)
      }
    }
    carryOut(turns.withLock { $0.begin(work, for: id) })
  }

  /// An element is gone.
  func end(_ id: EffectID) { carryOut(turns.withLock { $0.end(id) }) }

  /// None is wanted any more. From anywhere.
  func endAll() { carryOut(turns.withLock { $0.endAll() }) }

  private func carryOut(_ steps: [StateEffectTurns<EffectID, IdentifiedEffect>.Step]) {
    for step in steps {
      switch step {
      case .cancel(let work): work.cancel()
      case .start(let work, let id):
        let effect: EffectRunner.Effect = { [self] running in
          await work.run(within: running, of: node) { [self] in
            carryOut(turns.withLock { $0.ended(work, for: id) })
          }
        }
        node.effects.start(effect, of: node)
      }
    }
  }
}

extension StateEffect {
  /// What has a store's states decide about this effect.
  @usableFromInline func following(
    _ states: Confined<Source<State>>, of node: any AnyStoreNode,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) -> TreeWork {
    let runner = StateEffectRunner(of: node, dispatch: dispatch)
    let sink = StateEffectSink<Action>(begin: { runner.begin($0, for: $1) }, end: { runner.end($0) })
    let follower = states.map { Follower(of: $0, makeFollowing(sink)) }
    return TreeWork { tree in
      follower(on: tree).begin()
    } end: {
      runner.endAll()
      _ = node.enqueue { tree in follower(on: tree).detachIfIdle() }
    }
  }

  /// From its place in the order on, which is taken when this returns.
  @usableFromInline func subscribe(
    to states: Confined<Source<State>>, of node: any AnyStoreNode,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) -> Subscription {
    let following = following(states, of: node, dispatch: dispatch)
    let isAccepted = node.enqueue { tree in following.begin(tree) }
    return Subscription { if isAccepted { following.end() } }
  }
}
