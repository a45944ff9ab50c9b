extension StoreNode {
  /// Only on the tree's executor, in commit order.
  @inlinable func perform(_ effect: Effect<Action>) {
    guard case .work(let work) = effect.content, !carriesMore else { return performDetail(of: effect) }
    perform(work)
  }

  /// SAFETY: called by `perform`, on the tree's executor, whose variable this reads.
  @usableFromInline var carriesMore: Bool {
    if needsPlacing || tree.isOwingStarts || instrument != nil { return true }
    return unsafe tree.awaitedWorkOfExecutor != nil
  }

  @inlinable func perform(_ work: @escaping Effect<Action>.Work) {
    effects.start(of: self, making: { ActionEffect(of: $0, in: self, work) })
  }

  @usableFromInline func performDetail(of effect: Effect<Action>) { effects.perform(effect, of: self) }

  fileprivate func performLater(_ work: @escaping Effect<Action>.Work) {
    effects.startLater(of: self, making: { ActionEffect(of: $0, in: self, work) })
  }
}

/// An effect that is only work: one object and one function, because the frames of several would exceed a task's
/// initial memory.
///
/// SAFETY: the phase is set by the initializer, and changed where `begins` is true, which it is once. The compiler does
/// not check subclasses of `RunningEffect`.
@usableFromInline final class ActionEffect<Action: Sendable>: RunningEffect, @unchecked Sendable {
  private enum Phase {
    case waiting(Effect<Action>.Work)
    case begun
  }

  private let node: StoreNode<Action>
  /// An enumeration: an optional would wrap the closure once more.
  private var phase: Phase

  @usableFromInline init(of runner: EffectRunner, in node: StoreNode<Action>, _ work: @escaping Effect<Action>.Work) {
    self.node = node
    phase = .waiting(work)
    super.init(of: runner)
  }

  override func run() async {
    guard begins() else { return }
    if case .waiting(let work) = phase {
      phase = .begun
      if !Task.isCancelled, !node.hasEnded {
        await Self.$current.withValue(self) {
          beginsHere()
          do {
            try await work(Dispatch(.effect(node, self, nil)))
          } catch {
            if !Task.isCancelled, !node.hasEnded {
              node.effects.settings.report(EffectReport(.failed(error), store: node.id))
            }
          }
        }
      }
    }
    runner.ended(self)
  }
}

extension TreeEffects {
  fileprivate func perform<Action>(_ effect: Effect<Action>, of node: StoreNode<Action>) {
    // SAFETY: on the tree's executor, as `StoreNode.perform`.
    let awaitedWork = unsafe node.tree.awaitedWorkOfExecutor
    if case .work(let work) = effect.content, node.carriedContext == nil, awaitedWork == nil, node.instrument == nil {
      return node.performLater(work)
    }
    switch effect.detail {
    case .all(let parts): for part in parts { perform(part, of: node) }
    case .cancel(let id): cancel(id, of: node)
    case .run(var run):
      run.context = node.carriedContext
      let part = awaitedWork?.enter()
      if let part {
        if part.awaitedWork.isCancelled { return }
        if let owner = part.awaitedWork.owner as? EffectOwner { run.owners.append(owner) }
      }
      guard run.id != nil || !run.owners.isEmpty else {
        let work: ClosureEffect.Body = { [settings, run] running in
          await run.perform(for: node, within: running, nil, settings) { Dispatch(.effect(node, running, $0)) }
        }
        return startLater(of: node, making: { ClosureEffect(of: $0, work) })
      }
      let now = settings.clock.now
      let slot = run.id.map { slots(of: node).makeSlot(of: $0, at: now) }
      let effect = IdentifiedEffect(number: nextNumber(), owners: run.owners, in: slot, of: node, part: part) {
        [settings, run] running, revocation in
        await run.perform(for: node, within: running, revocation, settings) {
          Dispatch(.effect(node, running, $0 ?? revocation))
        }
      }
      for owner in run.owners { owner.add(effect) }
      if let id = run.id, let slot { return add(effect, id, run.policy, in: slot, at: now, of: node) }
      startLater(
        of: node, making: { ClosureEffect(of: $0) { running in await effect.run(within: running, of: node) {} } })
    }
  }

  private func add(
    _ effect: IdentifiedEffect, _ id: EffectID, _ policy: EffectPolicy, in slot: EffectSlots.Slot, at now: Duration,
    of node: any AnyStoreNode
  ) {
    let steps = slot.scheduler.withLock { scheduler in
      scheduler.add(effect, policy, at: now) {
        IdentifiedEffect { [self] running, timer in await wait(in: slot, by: timer, within: running, of: node) }
      }
    }
    carryOut(steps, in: slot, of: node) { [settings] in
      settings.report(EffectReport(.turnedAway, store: node.id, effect: id.description))
      node.instrument?.turnedAway(id.description, of: node.id)
    }
  }

  func cancel(_ id: EffectID, of node: any AnyStoreNode) {
    guard let slot = existingSlots(of: node)?[id] else { return }
    carryOut(slot.scheduler.withLock { $0.cancelAll() }, in: slot, of: node)
  }

  /// Steps that start an effect need the tree's executor.
  fileprivate func carryOut(
    _ steps: [EffectScheduler<IdentifiedEffect>.Step], in slot: EffectSlots.Slot, of node: any AnyStoreNode,
    turnedAway: () -> Void = {}
  ) {
    func start(_ body: @escaping ClosureEffect.Body) {
      startLater(of: node, making: { ClosureEffect(of: $0, body) })
    }
    for step in steps {
      switch step {
      case .start(let effect): start { [self] running in await run(effect, in: slot, within: running, of: node) }
      case .startTimer(let timer): start { running in await timer.run(within: running) }
      case .cancel(let effect), .leaveOut(let effect): effect.cancel()
      case .turnAway(let effect):
        effect.cancel()
        turnedAway()
      }
    }
  }

  private func run(
    _ effect: IdentifiedEffect, in slot: EffectSlots.Slot, within running: RunningEffect, of node: any AnyStoreNode
  ) async {
    await effect.run(within: running, of: node) {
      slot.scheduler.withLock { !$0.endedAlone(effect) }
    } ended: { [self] in
      // Once the store has closed, no effect begins, even before the effects are ended.
      let isLast = node.hasEnded
      carryOut(slot.scheduler.withLock { isLast ? $0.endedLast(effect) : $0.ended(effect) }, in: slot, of: node)
    }
  }

  private func wait(
    in slot: EffectSlots.Slot, by timer: IdentifiedEffect, within running: RunningEffect, of node: any AnyStoreNode
  ) async {
    running.beginsHere()
    var reached = Duration.zero
    while true {
      let now = max(settings.clock.now, reached)
      switch slot.scheduler.withLock({ $0.timerWoke(timer, at: now) }) {
      case .end: return
      case .begin:
        let effect = await Waiter<IdentifiedEffect?>.wait { waiter in
          node.place(
            .closure { [settings] _ in
              let now = max(settings.clock.now, now)
              waiter.resume(returning: slot.scheduler.withLock { $0.begin(timer, at: now) })
            })
        }
        if let effect { return await run(effect, in: slot, within: running, of: node) }
      case .sleep(let time):
        await settings.clock.wait(until: time, in: running)
        if Task.isCancelled { return }
        reached = time
      }
    }
  }
}

extension IdentifiedEffect {
  /// Cancels all, in commit order, before another effect begins in their place. Only on the tree's executor.
  static func cancel(_ effects: [IdentifiedEffect]) {
    // Owners do not know the order of their effects.
    let effects = effects.sorted { $0.number < $1.number }
    var groups: Keyed<ObjectIdentifier, [IdentifiedEffect]> = [:]
    for effect in effects {
      if let slot = effect.slot { groups[ObjectIdentifier(slot), default: []].append(effect) }
    }
    let slots = groups.values.compactMap { group -> (slot: EffectSlots.Slot, node: any AnyStoreNode)? in
      guard let slot = group[0].slot, let node = group[0].node else { return nil }
      node.effects.carryOut(slot.scheduler.withLock { $0.withdraw(group) }, in: slot, of: node)
      return (slot, node)
    }
    for effect in effects { effect.cancel() }
    for (slot, node) in slots where !node.hasEnded {
      let now = node.effects.settings.clock.now
      node.effects.carryOut(slot.scheduler.withLock { $0.goOn(at: now) }, in: slot, of: node)
    }
  }

  /// Does the work, and reports its end in its turn, after its actions, which can be revoked until they are committed.
  /// The effect leaves its id before its runner counts it as ended, and before its waiters resume.
  ///
  /// - Parameter needsTurn: Whether the end needs a place in the order even without a dispatched action.
  func run(
    within running: RunningEffect, of node: any AnyStoreNode, needsTurn: () -> Bool = { false },
    ended: @escaping @Sendable () -> Void
  ) async {
    running.endIsTaken()
    await run(within: running)
    let end = { @Sendable [self] in
      ended()
      leaveOwners()
      running.runner.ended(running)
      part?.end()
    }
    // Its actions may be uncommitted. Also, an effect that performs an action rests while that action's effects work.
    // With a place in the order for the end, one of them is at work at any moment.
    if hasDispatched, !isRevoked {
      node.placeBehindCommits(.closure { _ in end() })
    } else if hasDispatched || part != nil || needsTurn() {
      node.place(.closure { _ in end() })
    } else {
      end()
    }
  }
}

extension Effect.Run {
  typealias MakeDispatch = @Sendable (_ part: Revocation?) -> Dispatch<Action>

  func perform(
    for node: any AnyStoreNode, within running: RunningEffect, _ revocation: Revocation?,
    _ settings: TreeEffects.Settings, dispatch: @escaping MakeDispatch
  ) async {
    let measurement = node.instrument.map { EffectMeasurement(by: $0, id: id?.description, of: node.id) }
    let performance = EffectPerformance(
      node: node, running: running, revocation: revocation, settings: settings, measurement: measurement,
      makeDispatch: dispatch)
    let perform = { @Sendable in
      guard let measurement else { return await performance.perform(self) }
      await measurement.run {
        await performance.perform(self)
      } isCancelled: {
        // After the store's end, the work may not have been entered.
        performance.isCancelled || node.hasEnded
      }
    }
    guard let context else { return await perform() }
    await context.restoreAsync { await perform() }
  }
}

private struct EffectPerformance<Action: Sendable>: Sendable {
  let node: any AnyStoreNode
  let running: RunningEffect
  var revocation: Revocation?
  let settings: TreeEffects.Settings
  let measurement: EffectMeasurement?
  let makeDispatch: Effect<Action>.Run.MakeDispatch
  /// If other work of the effect runs side by side, no task stands for the effect, and none rests.
  var isOneOfSeveral = false

  private var clock: ElapsedClock { settings.clock }
  var isCancelled: Bool { Task.isCancelled || revocation?.isRevoked == true }

  func perform(_ run: Effect<Action>.Run) async {
    if !isOneOfSeveral { running.beginsHere() }
    if run.delay > .zero { await clock.wait(run.delay, in: running) }
    if isCancelled || node.hasEnded { return }
    if let limit = run.limit { await work(run, upTo: limit) } else { await work(run) }
  }

  private func work(_ run: Effect<Action>.Run, upTo limit: (time: Duration, action: Action)) async {
    guard limit.time > .zero else {
      measurement?.note(.timedOut)
      if !isCancelled { await give(limit.action) }
      return
    }
    var timed = self
    let part = Revocation(within: revocation)
    timed.revocation = part
    let timeout = Timeout(after: limit.time, by: clock, of: running)
    await withTaskGroup(of: Bool.self) { [timed] tasks in
      tasks.addTask {
        if !isOneOfSeveral { running.beginsHere() }
        await timed.work(run)
        return true
      }
      tasks.addTask {
        await timeout.wait()
        return false
      }
      if await tasks.next() == false, !Task.isCancelled {
        measurement?.note(.timedOut)
        // After the actions dispatched in time, before all later ones.
        _ = node.enqueue(.closure { _ in part.revoke() }, by: running)
        await give(limit.action) { tasks.cancelAll() }
      }
      tasks.cancelAll()
      timeout.end()
    }
  }

  private func work(_ run: Effect<Action>.Run) async {
    if let steps = run.steps {
      for step in steps where !isCancelled { await perform(step.inheriting(from: run)) }
      return
    }
    let dispatch = makeDispatch(revocation)
    var failures = 0
    while true {
      if isCancelled || node.hasEnded { return }
      do {
        return try await run.work(dispatch)
      } catch {
        if isCancelled || node.hasEnded { return }
        failures += 1
        if let delay = run.retry?.delay(after: failures) {
          measurement?.retries(error, after: delay)
          // An immediate retry lets other tasks run first.
          if delay > .zero { await clock.wait(delay, in: running) } else { await Task.yield() }
        } else if let action = run.recover?(error) {
          measurement?.note(.caught(error))
          return await give(action)
        } else {
          measurement?.note(.failed(error))
          return settings.report(EffectReport(.failed(error), store: node.id, effect: run.id?.description))
        }
      }
    }
  }

  /// Dispatches an action of which no caller learns whether it is accepted: if too many wait for the log, this waits.
  private func give(_ action: Action, beforeWaiting: () -> Void = {}) async {
    let dispatch = makeDispatch(revocation)
    guard dispatch(action) == .overloaded else { return }
    beforeWaiting()
    try? await dispatch.send(action)
  }

  private func perform(_ step: Effect<Action>) async {
    switch step.detail {
    case .run(let run): await perform(run)
    case .cancel(let id):
      let command = Command.closure { [node, revocation] _ in
        if revocation?.isRevoked != true { node.effects.cancel(id, of: node) }
      }
      _ = node.enqueue(command, by: running)
    case .all(let parts):
      var several = self
      several.isOneOfSeveral = true
      await withDiscardingTaskGroup { [several] tasks in
        for part in parts { tasks.addTask { await several.perform(part) } }
      }
    }
  }
}

final class EffectMeasurement: Sendable {
  private let instrument: TreeInstrument
  private let id: String?
  private let store: StoreID
  private let number: Int
  /// The first outcome counts: one of several parts may fail while the others go on.
  private let outcome = LockedValue<EffectEvent.Outcome?>(nil)

  init(by instrument: TreeInstrument, id: String?, of store: StoreID) {
    self.instrument = instrument
    self.id = id
    self.store = store
    number = instrument.nextEffectNumber()
  }

  /// The end is reported within the instrument's `run`, so that a span can record the outcome.
  func run(_ work: @Sendable () async -> Void, isCancelled: @Sendable () -> Bool) async {
    let beginning = instrument.now
    let begun = event(.began)
    instrument.instrument.effect(begun, in: instrument.store)
    await instrument.instrument.run(begun, in: instrument.store) {
      await work()
      let outcome = outcome.withLock { $0 } ?? (isCancelled() ? .cancelled : .finished)
      let taken = instrument.elapsed(since: beginning)
      instrument.instrument.effect(event(.ended(outcome, after: taken)), in: instrument.store)
    }
  }

  func note(_ outcome: EffectEvent.Outcome) { self.outcome.withLock { $0 = $0 ?? outcome } }

  func retries(_ error: any Error, after delay: Duration) {
    instrument.instrument.effect(event(.retried(error, after: delay)), in: instrument.store)
  }

  private func event(_ kind: EffectEvent.Kind) -> EffectEvent {
    EffectEvent(kind: kind, number: number, id: id, store: store)
  }
}
