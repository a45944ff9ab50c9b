final class StateEffectRunner<Action: Sendable>: Sendable {
  private let node: any AnyStoreNode
  private let dispatch: @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  private let commit: @Sendable (Action) -> ActionCommit?
  private let scheduler = LockedValue(StateEffectScheduler<Int, IdentifiedEffect>())

  init(
    of node: any AnyStoreNode, commit: @escaping @Sendable (Action) -> ActionCommit?,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) {
    self.node = node
    self.commit = commit
    self.dispatch = dispatch
  }

  func setFarewell(
    _ actions: (@Sendable (isolated any TreeIsolation) -> [Action])?, on tree: isolated any TreeIsolation
  ) {
    guard let actions else { return node.setFarewell(nil, of: ObjectIdentifier(self), on: tree) }
    node.setFarewell(
      { [commit] tree in
        for action in actions(tree) { try? commit(action)?(tree, true) }
      }, of: ObjectIdentifier(self), on: tree)
  }

  /// Begins work for an element, replacing any before. Only on the tree's executor, in commit order, like `end`.
  func begin(_ effect: Effect<Action>?, for id: Int) {
    if scheduler.withLock({ $0.isClosed }) { return }
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
    carryOut(scheduler.withLock { $0.begin(work, for: id) })
  }

  func end(_ id: Int) { carryOut(scheduler.withLock { $0.end(id) }) }

  func isOver(_ id: Int) -> Bool { scheduler.withLock { $0.isOver(id) } }

  /// The states have ended: no more work begins.
  func close() { carryOut(scheduler.withLock { $0.close() }) }

  /// No work is wanted any more. Can be called from anywhere.
  func endAll() { carryOut(scheduler.withLock { $0.endAll() }) }

  private func carryOut(_ steps: [StateEffectScheduler<Int, IdentifiedEffect>.Step]) {
    for step in steps {
      switch step {
      case .cancel(let work): work.cancel()
      case .start(let work, let id):
        let effect: ClosureEffect.Body = { [self] running in
          await work.run(within: running, of: node) { [self] in
            carryOut(scheduler.withLock { $0.ended(work, for: id) })
          }
        }
        node.effects.start(effect, of: node)
      }
    }
  }
}

extension StateEffect {
  @usableFromInline func following(
    _ states: Confined<Source<State>>, of node: any AnyStoreNode,
    commit: @escaping @Sendable (Action) -> ActionCommit?,
    dispatch: @escaping @Sendable (RunningEffect, Revocation) -> Dispatch<Action>
  ) -> TreeWork {
    following(states, by: StateEffectRunner(of: node, commit: commit, dispatch: dispatch))
  }

  private func following(_ states: Confined<Source<State>>, by runner: StateEffectRunner<Action>) -> TreeWork {
    let follower = states.map { states in
      let numbers = StateEffectRunner<Action>.Numbers()
      let sink = StateEffectSink<Action> {
        runner.begin($0, for: numbers.number(of: $1, isOver: runner.isOver))
      } end: {
        if let number = numbers[$0] { runner.end(number) }
      }
      return Follower(of: states, makeFollowing(sink), ended: runner.close)
    }
    return TreeWork { [atEnd] tree in
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
    let following = following(states, by: runner)
    guard node.enqueue({ tree in following.begin(tree) }) else { return Subscription {} }
    return Subscription {
      runner.endAll()
      _ = node.enqueue { tree in following.end(tree) }
    }
  }
}

extension StateEffectRunner {
  /// Numbers for the elements that have effects of the state: their ids are the user's, whose code must not run under a
  /// lock.
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

/// Decides which work runs for which element of a state, never two for one element at a time: a pure state machine,
/// under its runner's lock.
///
/// Each mutating method returns the steps to carry out, in order. The caller releases them outside the lock.
struct StateEffectScheduler<ID: Hashable, Work: AnyObject> {
  enum Step {
    case start(Work, ID)
    /// The work runs or is never begun.
    case cancel(Work)
  }

  fileprivate struct Slot {
    /// By identity, because there may be many. May be cancelled, but is not over.
    var running: [ObjectIdentifier: Work]
    var next: [Work] = []
  }

  private var slots: [ID: Slot] = [:]
  private(set) var isClosed = false

  mutating func begin(_ work: [Work], for id: ID) -> [Step] {
    if isClosed { return work.map { .cancel($0) } }
    let steps = end(id)
    if slots[id] == nil { return steps + start(work, for: id) }
    slots[id]?.next = work
    return steps
  }

  mutating func end(_ id: ID) -> [Step] {
    guard let slot = slots[id] else { return [] }
    slots[id]?.next = []
    return (slot.running.values + slot.next).map { .cancel($0) }
  }

  mutating func endAll() -> [Step] {
    isClosed = true
    return slots.keys.flatMap { end($0) }
  }

  mutating func close() -> [Step] {
    isClosed = true
    defer { for id in slots.keys { slots[id]?.next = [] } }
    return slots.values.flatMap(\.next).map { .cancel($0) }
  }

  func isOver(_ id: ID) -> Bool { slots[id] == nil }

  mutating func ended(_ work: Work, for id: ID) -> [Step] {
    slots[id]?.running[ObjectIdentifier(work)] = nil
    guard let slot = slots[id], slot.running.isEmpty else { return [] }
    return start(slot.next, for: id)
  }

  private mutating func start(_ work: [Work], for id: ID) -> [Step] {
    let running = work.map { (ObjectIdentifier($0), $0) }
    slots[id] = work.isEmpty ? nil : Slot(running: Dictionary(uniqueKeysWithValues: running))
    return work.map { .start($0, id) }
  }
}

extension StateEffectScheduler: Sendable where ID: Sendable, Work: Sendable {}
extension StateEffectScheduler.Slot: Sendable where Work: Sendable {}

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
