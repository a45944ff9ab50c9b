final class StateEffectRunner<Action: Sendable>: Sendable {
  private typealias Scheduler = EffectScheduler<IdentifiedEffect>

  /// The schedulers of the elements that have unfinished work.
  private struct Elements: Sendable {
    var schedulers: [Int: Scheduler] = [:]
    var isClosed = false

    mutating func change(_ id: Int, _ change: (inout Scheduler) -> [Scheduler.Step]) -> [Scheduler.Step] {
      guard var scheduler = schedulers.removeValue(forKey: id) else { return [] }
      defer { if scheduler.count > 0 { schedulers[id] = scheduler } }
      return change(&scheduler)
    }

    mutating func changeAll(_ change: (inout Scheduler) -> [Scheduler.Step]) -> [Scheduler.Step] {
      schedulers.keys.sorted().flatMap { self.change($0, change) }
    }
  }

  private let node: any AnyStoreNode
  private let dispatch: @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  private let commit: @Sendable (Action) -> ActionCommit?
  private let elements = LockedValue(Elements())

  init(
    of node: any AnyStoreNode, commit: @escaping @Sendable (Action) -> ActionCommit?,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) {
    self.node = node
    self.commit = commit
    self.dispatch = dispatch
  }

  /// Whether the log takes no more actions, and the store publishes no more states.
  var isStopped: Bool { node.refusal == .stopped }

  func setFarewell(
    _ actions: (@Sendable (isolated any TreeIsolation) -> [Action])?, on tree: isolated any TreeIsolation
  ) {
    guard let actions else { return node.setFarewell(nil, of: ObjectIdentifier(self), on: tree) }
    node.setFarewell(
      { [self] tree in
        if isStopped { return endAll() }
        for action in actions(tree) { try? commit(action)?(tree, true) }
      }, of: ObjectIdentifier(self), on: tree)
  }

  /// Only on the tree's executor, in commit order, like `end`.
  func begin(_ effect: Effect<Action>?, for id: Int) {
    if elements.withLock({ $0.isClosed }) { return }
    let effects = node.effects
    var runs: [Effect<Action>.Run] = []
    for part in effect?.parts ?? [] {
      switch part.detail {
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
        let name = run.id?.description
        named?.count(name, by: 1)
        await run.perform(for: node, within: running, revocation, settings) { [dispatch] part in
          dispatch(running, part ?? revocation)
        }
        named?.count(name, by: -1)
      }
    }
    let steps = elements.withLock { elements -> [Scheduler.Step] in
      if elements.isClosed { return work.map { .leaveOut($0) } }
      if elements.schedulers[id] == nil { elements.schedulers[id] = Scheduler() }
      return elements.change(id) { $0.replace(with: work) }
    }
    carryOut(steps, for: id)
  }

  func end(_ id: Int) { carryOut(elements.withLock { $0.change(id) { $0.replace(with: []) } }, for: id) }

  func isOver(_ id: Int) -> Bool { elements.withLock { $0.schedulers[id] == nil } }

  func close() { stop { $0.leaveOutWaiting() } }

  /// Can be called from anywhere.
  func endAll() { stop { $0.replace(with: []) } }

  private func stop(_ change: (inout Scheduler) -> [Scheduler.Step]) {
    let steps = elements.withLock { elements in
      elements.isClosed = true
      return elements.changeAll(change)
    }
    for step in steps { step.work.cancel() }
  }

  private func carryOut(_ steps: [Scheduler.Step], for id: Int) {
    for step in steps {
      guard case .start(let work) = step else {
        step.work.cancel()
        continue
      }
      let effect: ClosureEffect.Body = { [self] running in
        await work.run(within: running, of: node) { [self] in
          carryOut(elements.withLock { $0.change(id) { $0.ended(work) } }, for: id)
        }
      }
      if !node.effects.start(effect, of: node) { work.cancel() }
    }
  }
}

extension StateEffect {
  @usableFromInline func following(
    _ states: Confined<Source<State>>, of node: any AnyStoreNode,
    commit: @escaping @Sendable (Action) -> ActionCommit?,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) -> TreeWork {
    let runner = StateEffectRunner(of: node, commit: commit, dispatch: dispatch)
    return following(states, by: runner, through: follower(of: states, for: runner))
  }

  private func follower(
    of states: Confined<Source<State>>, for runner: StateEffectRunner<Action>
  ) -> Confined<Follower<State>> {
    states.map { states in
      let numbers = StateEffectRunner<Action>.Numbers()
      let sink = StateEffectSink<Action> {
        runner.begin($0, for: numbers.number(of: $1, isOver: runner.isOver))
      } end: {
        if let number = numbers[$0] { runner.end(number) }
      }
      return Follower(of: states, makeFollowing(sink), ended: runner.close)
    }
  }

  private func following(
    _ states: Confined<Source<State>>, by runner: StateEffectRunner<Action>,
    through follower: Confined<Follower<State>>
  ) -> TreeWork {
    TreeWork { [atEnd] tree in
      if atEnd != nil, runner.isStopped { return }
      follower(on: tree).begin()
      guard let atEnd else { return }
      runner.setFarewell(
        { tree in
          var actions: [Action] = []
          states.withValue(on: tree) { $0.withState { actions = atEnd($0) } }
          return actions
        }, on: tree)
    } end: { [atEnd] tree in
      runner.endAll()
      follower(on: tree).detachIfIdle()
      if atEnd != nil { runner.setFarewell(nil, on: tree) }
    }
  }

  /// Takes its place in the order before it returns.
  @usableFromInline func subscribe(
    to states: Confined<Source<State>>, of node: any AnyStoreNode,
    commit: @escaping @Sendable (Action) -> ActionCommit?,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) -> Subscription {
    let runner = StateEffectRunner(of: node, commit: commit, dispatch: dispatch)
    let follower = follower(of: states, for: runner)
    let following = following(states, by: runner, through: follower)
    // The states of a store above go on after the end of the effect's store.
    let ending = node.effects.atEnd(of: node) {
      runner.close()
      node.enqueueDetachment { tree in follower(on: tree).detachIfIdle() }
    }
    guard node.enqueue({ tree in following.begin(tree) }) else {
      node.effects.forget(ending)
      return Subscription {}
    }
    return Subscription {
      node.effects.forget(ending)
      runner.endAll()
      node.enqueueDetachment { tree in following.end(tree) }
    }
  }
}

extension StateEffectRunner {
  /// Numbers for elements: their ids are the user's, whose code must not run under a lock.
  fileprivate final class Numbers {
    private var numbers = SweptTable<EffectID, Int>()
    private var last = 0

    subscript(id: EffectID) -> Int? { numbers[id] }

    func number(of id: EffectID, isOver: (Int) -> Bool) -> Int {
      last += 1
      return numbers.value(of: id, orMake: { last }, isOver: isOver)
    }
  }
}

@usableFromInline struct StateEffectSink<Action: Sendable> {
  private let beginWork: (Effect<Action>?, EffectID) -> Void
  private let endWork: (EffectID) -> Void

  init(
    begin: @escaping (Effect<Action>?, EffectID) -> Void, end: @escaping (EffectID) -> Void
  ) {
    beginWork = begin
    endWork = end
  }

  @usableFromInline func begin(_ effect: Effect<Action>?, for id: EffectID) { beginWork(effect, id) }

  @usableFromInline func end(_ id: EffectID) { endWork(id) }

  /// Adds the steps for an element to a list, while there is one, to be carried out later.
  func collecting<ID>(in steps: Box<[(id: ID, carryOut: () -> Void)]>, of id: ID) -> StateEffectSink {
    func add(_ step: @escaping () -> Void) {
      if steps.value == nil { step() } else { steps.value?.append((id, step)) }
    }
    return StateEffectSink { [beginWork] effect, effectID in
      add { beginWork(effect, effectID) }
    } end: { [endWork] effectID in
      add { endWork(effectID) }
    }
  }

  func map<Part: Sendable>(_ toAction: @escaping @Sendable (Part) -> Action) -> StateEffectSink<Part> {
    StateEffectSink<Part>(begin: { [beginWork] in beginWork($0?.map(toAction), $1) }, end: endWork)
  }

  func map<Part: Sendable>(
    of element: some Hashable & Sendable, _ toAction: @escaping @Sendable (Part) -> Action
  ) -> StateEffectSink<Part> {
    StateEffectSink<Part>(
      begin: { [beginWork] in beginWork($0?.map(toAction).of(element: element), $1.of(element: element)) },
      end: { [endWork] in endWork($0.of(element: element)) })
  }
}
