import Puredux
import Synchronization

enum CarriedNumber {
  @TaskLocal static var current = 0
}

struct EffectAction: Sendable {
  var store: Int
  var action: Int
  var cause: EffectCause
}

/// The state of any store: the local states of the stores on its path, the root's first.
struct EffectState: Sendable, Equatable {
  var locals: [EffectLocal]
  var elements: Keyed<Int, Int> = [:]

  func with(_ local: EffectLocal) -> EffectState {
    var composed = self
    composed.locals.append(local)
    return composed
  }

  var part: EffectState {
    var part = self
    for place in part.locals.indices { part.locals[place].commits = 0 }
    return part
  }
}

/// One run of a program of effects. It records the events of each phase.
final class EffectRun: Sendable {
  typealias Root = RootStore<EffectState, EffectAction>
  typealias Child = StateStore<EffectState, EffectAction>

  private struct Happened: Sendable {
    var commits: [EffectCommit] = []
    var allEntries: [EffectKey: Int] = [:]
    var entries: [EffectKey: Int] = [:]
    var carried: [EffectKey: Int] = [:]
    var live: [EffectKey: Int] = [:]
    var failed: [EffectKey] = []
    var turnedAway = 0
    var returned: Set<EffectCause> = []
    var violations: [String] = []
    var position = 0
    // For runs of several tasks.
    var moments: [Int] = []
    var works: [EffectRecord.Work] = []
    var moment = 0
  }

  private struct Held: Sendable {
    var root: Root?
    var children: [Int: Child] = [:]
    var proxies: [Int: Store<EffectState, EffectAction>] = [:]
    var subscriptions: [Int: Subscription] = [:]
    /// The tasks that perform actions, by step.
    var performing: [Int: Task<Void, Never>] = [:]
    var ending: Task<Void, Never>?
    var nextInstance = 0
  }

  private struct Failure: Error { var key: EffectKey }

  private let program: EffectProgram
  private let clock = HandClock()
  private let happened = Guarded(Happened())
  private let held = Guarded(Held())

  init(_ program: EffectProgram) { self.program = program }

  /// Performs the model's phases, and returns the actual ones.
  func perform(_ expected: [EffectPhase]) async -> (phases: [EffectPhase], violations: [String]) {
    var phases: [EffectPhase] = []
    makeStores()
    for phase in expected {
      var actual = EffectPhase(doing: phase.doing)
      actual.answers = await perform(phase.doing)
      if phase.isFinished { await held.withLock({ $0.ending.take() })?.value }
      await untilCallersWentOn(phase)
      if let root = held.withLock({ $0.root }) {
        await root.settled()
        let statistics = await root.statistics
        actual.count = statistics.effects.values.reduce(0, +)
        if phase.doing == .shutDown(0), statistics.runningTasks != 0 {
          violate("G8 \(statistics.runningTasks) tasks run after the shutdown")
        }
      }
      take(&actual)
      phases.append(actual)
      // After a difference, later phases would differ, too.
      if EffectChecker.difference(expected: phase, actual: actual, isCarrying: program.isCarrying) != nil { break }
    }
    let root = held.withLock { $0.root }
    await root?.shutdown()
    clear()
    return (phases, happened.withLock { $0.violations })
  }

  /// Tasks that perform are not part of the tree, so settling does not wait for them. Returns when they have continued
  /// as expected, or after a time limit.
  private func untilCallersWentOn(_ phase: EffectPhase) async {
    let given = phase.commits.map(\.cause).filter { if case .driver(_, let gift) = $0 { gift > 0 } else { false } }
    if phase.returned.isEmpty { return }
    let root = held.withLock { $0.root }
    let end = ContinuousClock.now.advanced(by: .seconds(10))
    while ContinuousClock.now < end {
      let isDone = happened.withLock { happened in
        happened.returned.isSuperset(of: phase.returned)
          && given.allSatisfy { cause in happened.commits.contains { $0.cause == cause } }
      }
      if isDone { break }
      // The tree may need time for the effects that they await.
      await root?.settled()
      await Task.yield()
    }
  }

  // MARK: Several tasks

  /// Several tasks share the steps. Returns the record.
  func performFreely() async -> (record: EffectRecord, violations: [String]) {
    makeStores()
    let left = LiveCount()
    for _ in 0..<program.tasks { left.add() }
    await withDiscardingTaskGroup { group in
      for task in 0..<program.tasks {
        group.addTask { [self] in
          for step in program.steps.indices where step % program.tasks == task {
            await performFreely(program.steps[step], step)
          }
          left.subtract()
        }
      }
      // Time advances, so that no shutdown waits for it.
      group.addTask { [self] in
        while left.value > 0 {
          for _ in 0..<20 { await Task.yield() }
          clock.move(to: clock.now.time + .milliseconds(5))
        }
      }
    }
    let count = await run(toItsEnd: ())
    let root = held.withLock { $0.root }
    await root?.shutdown()
    clear()
    return happened.withLock { happened in
      var record = EffectRecord()
      record.commits = Array(zip(happened.commits, happened.moments))
      record.works = happened.works
      record.turnedAway = happened.turnedAway
      record.count = count
      for step in program.steps {
        switch step {
        case .shutDown(let store), .release(let store), .finish(let store, _): record.ended.insert(store)
        case .intercept: record.isReplaced = true
        case .give, .perform, .cancelPerforming, .advance, .next, .subscribe, .unsubscribe: break
        }
      }
      return (record, happened.violations)
    }
  }

  private func performFreely(_ step: EffectProgram.Step, _ number: Int) async {
    switch step {
    // A task that performs is not part of the tree, and may continue after the tree seems quiet. So these actions are
    // given.
    case .give(let gifts), .perform(let gifts): _ = await perform(.give(gifts, step: number))
    case .cancelPerforming: break
    case .advance(let time): clock.move(to: clock.now.time + .nanoseconds(time))
    case .next: await Task.yield()
    case .shutDown(let store): await shutDown(store, .cancel)
    case .release(let store): if store > 0 { _ = await perform(.release(store)) }
    case .finish(let store, let limit): await shutDown(store, .finish(within: .nanoseconds(limit)))
    case .subscribe(let spec, let store):
      let instance = held.withLock { held in
        held.nextInstance += 1
        return held.nextInstance - 1
      }
      _ = await perform(.subscribe(spec, store: store, instance: instance))
    case .unsubscribe(let instance): _ = await perform(.unsubscribe(instance))
    case .intercept: _ = await perform(.intercept)
    }
  }

  /// Advances the clock until nothing happens any more. Returns the number of effects counted under ids; nil if too
  /// much happened, or the tree has ended.
  private func run(toItsEnd: Void) async -> Int? {
    guard let root = held.withLock({ $0.root }), await (try? root.store().state) != nil else { return nil }
    var (before, quiet) = (-1, 0)
    for _ in 0..<500 {
      await root.settled()
      clock.move(to: clock.now.time + .seconds(1_000_000))
      await root.settled()
      let moment = happened.withLock { $0.moment }
      quiet = moment == before ? quiet + 1 : 0
      before = moment
      if quiet > 2 {
        let waits = happened.withLock { $0.live.values.contains { $0 > 0 } }
        let count = await root.statistics.effects.values.reduce(0, +)
        if waits { return nil }
        if count > 0 { violate("G8 the statistics count \(count) under ids, and nothing is at work") }
        return count
      }
    }
    return nil
  }

  private func violate(_ text: String) { happened.withLock { $0.violations.append(text) } }

  private func take(_ phase: inout EffectPhase) {
    happened.withLock { happened in
      phase.commits = happened.commits
      phase.entries = happened.entries
      phase.carried = happened.carried
      phase.live = Set(happened.live.filter { $0.value != 0 }.keys)
      phase.failed = happened.failed
      phase.turnedAway = happened.turnedAway
      phase.returned = happened.returned
      happened.returned = []
      happened.commits = []
      happened.entries = [:]
      happened.carried = [:]
      happened.failed = []
      happened.turnedAway = 0
    }
  }

  private func clear() {
    let gone = held.withLock { held in
      defer { held = Held() }
      return held
    }
    withExtendedLifetime(gone) {}
  }

  // MARK: Steps

  private func perform(_ doing: EffectPhase.Doing) async -> [Bool] {
    switch doing {
    case .start: break
    case .give(let gifts, let step):
      var answers: [Bool] = []
      for (place, gift) in gifts.enumerated() {
        let action = EffectAction(store: gift.store, action: gift.action, cause: .driver(step: step, gift: place))
        answers.append(await CarriedNumber.$current.withValue(step + 1) { await give(action, isSent: gift.isSent) })
      }
      return answers
    case .perform(let gifts, let step):
      let performing = begin(gifts, step: step)
      let first = EffectCause.driver(step: step, gift: 0)
      // Waits until the first action has its place in the order.
      while !happened.withLock({ happened in
        happened.returned.contains(first) || happened.commits.contains { $0.cause == first }
      }) { await Task.yield() }
      held.withLock { $0.performing[step] = performing }
    case .cancelPerforming(let step): held.withLock { $0.performing[step] }?.cancel()
    case .time(let time): clock.move(to: .nanoseconds(time))
    case .shutDown(let store): await shutDown(store, .cancel)
    case .release(let store): _ = held.withLock { $0.children.removeValue(forKey: store) }
    case .finish(let store, let limit):
      let isOver = Flag()
      let end = clock.now.advanced(by: .nanoseconds(limit))
      let ending = Task {
        await shutDown(store, .finish(within: .nanoseconds(limit)))
        isOver.set()
      }
      held.withLock { $0.ending = ending }
      // Waits until the shutdown sleeps until its limit.
      while !isOver.isSet, !clock.hasSleeper(until: end) { await Task.yield() }
    case .subscribe(let spec, let store, let instance):
      let effect = stateEffect(program.stateEffects[spec], instance: instance, of: store)
      held.withLock { $0.nextInstance = max($0.nextInstance, instance + 1) }
      if let proxy = proxy(of: store) {
        let subscription = proxy.subscribe(effect: effect)
        held.withLock { $0.subscriptions[instance] = subscription }
      }
    case .unsubscribe(let instance):
      let subscription = held.withLock { $0.subscriptions.removeValue(forKey: instance) }
      subscription?.cancel()
    case .intercept:
      let root = held.withLock { $0.root }
      root?.interceptActions(with: interceptor(of: 0))
    }
    return []
  }

  private func proxy(of store: Int) -> Store<EffectState, EffectAction>? { held.withLock { $0.proxies[store] } }

  /// Starts a task that performs actions one after the other.
  private func begin(_ gifts: [EffectProgram.Gift], step: Int) -> Task<Void, Never> {
    CarriedNumber.$current.withValue(step + 1) {
      Task {
        for (place, gift) in gifts.enumerated() where !Task.isCancelled {
          let cause = EffectCause.driver(step: step, gift: place)
          try? await proxy(of: gift.store)?.perform(
            EffectAction(store: gift.store, action: gift.action, cause: cause))
          _ = happened.withLock { $0.returned.insert(cause) }
        }
      }
    }
  }

  private func give(_ action: EffectAction, isSent: Bool) async -> Bool {
    guard let proxy = proxy(of: action.store) else { return false }
    if isSent {
      do {
        try await proxy.send(action)
        return true
      } catch {
        return false
      }
    }
    return proxy.dispatch(action) == .enqueued
  }

  private func shutDown(_ store: Int, _ way: InterceptorShutdown) async {
    let (root, child) = held.withLock { ($0.root, $0.children[store]) }
    if store == 0 {
      await root?.shutdown(interceptors: way, clock: clock)
    } else {
      await child?.shutdown(interceptors: way, clock: clock)
    }
    // A child store keeps the stores above it alive.
    let gone = held.withLock { held in
      let below = held.children.filter { program.isStore($0.key, atOrBelow: store) }
      for child in below.keys { held.children[child] = nil }
      return below
    }
    withExtendedLifetime(gone) {}
  }

  // MARK: Stores

  private func makeStores() {
    let executor: StoreExecutor
    switch program.executor {
    case .own: executor = .own
    case .main: executor = .mainActor
    case .shuffling(let seed):
      ShufflingExecutor.shared.seed(seed)
      executor = .serial(ShufflingExecutor.shared)
    }
    let root = Root(
      initialState: EffectState(locals: [EffectLocal()]),
      options: StoreOptions(
        executor: executor, clock: clock, reporting: { [self] in report($0) },
        carrying: program.isCarrying ? .values(of: CarriedNumber.$current) : nil),
      interceptors: interceptor(of: 0)
    ) { [self] state, action in
      let change = program.actions[action.action].change
      state.locals[0].reduce(change)
      if case .element(let key, let value) = change { state.elements[key] = value }
      let commit = EffectCommit(
        store: action.store, action: action.action, cause: action.cause, carried: CarriedNumber.current)
      happened.withLock {
        $0.position += 1
        $0.commits.append(commit)
        if program.tasks > 0 {
          $0.moment += 1
          $0.moments.append($0.moment)
        }
      }
    }
    held.withLock {
      $0.root = root
      $0.proxies[0] = root.store()
    }
    for store in program.stores.indices.dropFirst() { make(store) }
  }

  private func make(_ store: Int) {
    let spec = program.stores[store]
    let (root, parent) = held.withLock { ($0.root, $0.children[spec.parent]) }
    let child: Child
    if spec.parent == 0 {
      guard let root else { return }
      child = spec.isOfPart ? make(store, of: root.part { $0.part }) : make(store, of: root)
    } else {
      guard let parent else { return }
      child = spec.isOfPart ? make(store, of: parent.part { $0.part }) : make(store, of: parent)
    }
    held.withLock {
      $0.children[store] = child
      $0.proxies[store] = child.store()
    }
  }

  private func make(_ store: Int, of parent: some StoreParent<EffectState, EffectAction>) -> Child {
    parent.childStore(
      initialState: EffectLocal(), stateMapping: { $0.with($1) }, interceptors: interceptor(of: store),
      atEnd: program.stores[store].atEnd.map { EffectAction(store: store, action: $0, cause: .atEnd(store)) }
    ) { [program] local, action in
      local.reduce(program.actions[action.action].change)
    }
  }

  // MARK: Interceptors

  private func report(_ report: EffectReport) {
    switch report.reason {
    case .turnedAway: happened.withLock { $0.turnedAway += 1 }
    // No program is nested that deeply.
    case .tooDeep: break
    case .failed(let error):
      if let failure = error as? Failure {
        happened.withLock { $0.failed.append(failure.key) }
      } else {
        violate("G8 \(report)")
      }
    @unknown default: violate("G8 \(report)")
    }
  }

  private func interceptor(of store: Int) -> Interceptor<EffectState, EffectAction> {
    let looksAtRoot = program.stores[store].looksAtRoot
    let local: @Sendable (EffectState) -> EffectLocal = { $0.locals[looksAtRoot ? 0 : $0.locals.count - 1] }
    let part: Interceptor<EffectLocal, EffectAction> = asked(.part, of: store)
    let keyed: Interceptor<Int, EffectAction> = asked(.keyed, of: store)
    let listed: Interceptor<Listed, EffectAction> = asked(.listed, of: store)
    let isKeyed = looksAtRoot || store == 0
    let liftedKeyed: Interceptor<EffectState, EffectAction>
    if isKeyed {
      liftedKeyed = keyed.lifted(elements: { $0.elements }) { [self] in
        isMeant($0, .keyed, store) ? (program.actions[$0.action].element, $0) : nil
      } into: {
        $1
      }
    } else {
      liftedKeyed = keyed.lifted(elements: { local($0).elements }) { [self] in
        isMeant($0, .keyed, store) ? (program.actions[$0.action].element, $0) : nil
      } into: {
        $1
      }
    }
    let effects = program.stores[store].stateEffects.map { spec in
      let instance = held.withLock { held in
        held.nextInstance += 1
        return held.nextInstance - 1
      }
      return stateEffect(program.stateEffects[spec], instance: instance, of: store)
    }
    return Interceptor(
      combining: [
        asked(.whole, of: store),
        part.lifted(
          state: { local($0).hasPart ? local($0) : nil },
          action: { [self] in isMeant($0, .part, store) ? $0 : nil }, into: { $0 }),
        liftedKeyed,
        listed.lifted(elements: { local($0).listed }) { [self] in
          isMeant($0, .listed, store) ? ("\(program.actions[$0.action].element)", $0) : nil
        } into: {
          $1
        },
      ] + effects.map { .effects(ofState: $0) })
  }

  private func isMeant(_ action: EffectAction, _ scope: EffectProgram.Scope, _ store: Int) -> Bool {
    program.actions[action.action].orders.contains {
      $0.scope == scope && program.interceptor(of: $0, givenTo: action.store) == store
    }
  }

  private func asked<State>(_ scope: EffectProgram.Scope, of store: Int) -> Interceptor<State, EffectAction> {
    .effects { [self] action, context in
      let position = context.position
      var effects: [Effect<EffectAction>] = []
      for (place, order) in program.actions[action.action].orders.enumerated() where order.scope == scope {
        guard program.interceptor(of: order, givenTo: action.store) == store else { continue }
        effects.append(effect(order.what, key: .order(position, place), of: action.store))
      }
      return effects.isEmpty ? nil : effects.count == 1 ? effects[0] : Effect(combining: effects)
    }
  }

  private func effect(_ what: EffectProgram.What, key: EffectKey, of store: Int) -> Effect<EffectAction> {
    switch what {
    case .cancel(let id):
      switch id {
      case .zero: return .cancel(0)
      case .one: return .cancel(1)
      case .real: return .cancel(1.0)
      case .text: return .cancel("1")
      }
    case .begin(let work, let id, let policy):
      let effect = effect(work, key: key, of: store)
      switch id {
      case nil: return effect
      case .zero: return effect.id(0, policy.policy)
      case .one: return effect.id(1, policy.policy)
      case .real: return effect.id(1.0, policy.policy)
      case .text: return effect.id("1", policy.policy)
      }
    }
  }

  private func effect(_ work: EffectProgram.Work, key: EffectKey, of store: Int) -> Effect<EffectAction> {
    var effect = Effect<EffectAction>.run { [self] dispatch in try await perform(work, key, store, dispatch) }
    if work.after > 0 { effect = effect.after(.nanoseconds(work.after)) }
    if work.attempts > 1 { effect = effect.retried(.constant(.nanoseconds(work.pause), attempts: work.attempts)) }
    if let action = work.catching {
      effect = effect.catching { [self] _ in
        mayGive ? EffectAction(store: store, action: action, cause: .caught(key)) : nil
      }
    }
    return effect
  }

  private func stateEffect(
    _ spec: EffectProgram.StateWork, instance: Int, of store: Int
  ) -> StateEffect<EffectState, EffectAction> {
    let local: @Sendable (EffectState) -> EffectLocal = { $0.locals[spec.looksAtRoot ? 0 : $0.locals.count - 1] }
    let begun: @Sendable (Int, Int) -> Effect<EffectAction>? = { [self] element, value in
      guard spec.hasEffect(value) else { return nil }
      let position = happened.withLock { $0.position }
      return effect(spec.work, key: .state(instance, element, position), of: store)
    }
    switch spec.kind {
    case .whileAtLeast(let number): return .while({ local($0).number >= number }) { begun(0, 1) }
    case .onChange(let modulus): return .onChange(of: { local($0).number % max(1, modulus) }) { begun(0, $0) }
    case .keyed:
      if spec.looksAtRoot || store == 0 { return .forEach({ $0.elements }) { begun($0, $1) } }
      return .forEach({ local($0).elements }) { begun($0, $1) }
    case .listed: return .forEach({ local($0).listed }) { begun(Int($0.id) ?? 0, $0.value) }
    case .part:
      let ofPart = StateEffect<EffectLocal, EffectAction>.onChange(of: \.number) { begun(0, $0) }
      return ofPart.lifted(state: { local($0).hasPart ? local($0) : nil }, into: { $0 })
    }
  }

  // MARK: Works

  /// With several tasks, a limit of actions makes all effects end.
  private var mayGive: Bool { program.tasks == 0 || happened.withLock { $0.position < 200 } }

  private func perform(
    _ work: EffectProgram.Work, _ key: EffectKey, _ store: Int, _ dispatch: Dispatch<EffectAction>
  ) async throws {
    let (attempt, entered) = happened.withLock { happened in
      happened.moment += 1
      happened.allEntries[key, default: 0] += 1
      happened.entries[key, default: 0] += 1
      happened.carried[key] = CarriedNumber.current
      happened.live[key, default: 0] += 1
      return (happened.allEntries[key, default: 0] - 1, happened.moment)
    }
    defer {
      happened.withLock { happened in
        happened.moment += 1
        happened.live[key, default: 0] -= 1
        if program.tasks > 0 {
          happened.works.append(EffectRecord.Work(key: key, entered: entered, left: happened.moment))
        }
      }
    }
    for (place, part) in work.parts.enumerated() {
      func action(_ number: Int, to store: Int) -> EffectAction {
        EffectAction(store: store, action: number, cause: .effect(key, attempt: attempt, place: place))
      }
      switch part {
      case .sleep(let time):
        do {
          try await dispatch.sleep(for: .nanoseconds(time))
        } catch {
          if !work.ignoresCancellation { throw error }
        }
      case .follow(let count):
        guard let proxy = proxy(of: store) else { return }
        let states: StateSequence<EffectState> = proxy.states()
        var isReached = false
        for await state in states where state.locals[state.locals.count - 1].commits >= count {
          isReached = true
          break
        }
        if !isReached { return }
      case .dispatch(let number): if mayGive { dispatch(action(number, to: store)) }
      case .send(let number, let target):
        if !Task.isCancelled, mayGive, let proxy = proxy(of: target) {
          try? await proxy.send(action(number, to: target))
        }
      case .perform(let number, let target):
        if !Task.isCancelled, mayGive, let proxy = proxy(of: target) {
          // With several tasks, two performances could await each other.
          if program.tasks > 0 {
            try? await proxy.send(action(number, to: target))
          } else {
            try? await proxy.perform(action(number, to: target))
          }
        }
      case .fail: throw Failure(key: key)
      case .linger(let count): for _ in 0..<count { await Task.yield() }
      }
      if Task.isCancelled, !work.ignoresCancellation { throw CancellationError() }
    }
  }
}

private struct Listed: Identifiable, Equatable, Sendable {
  var id: String
  var value: Int
}

extension EffectLocal {
  fileprivate var listed: [Listed] {
    elements.sorted { $0.key < $1.key }.map { Listed(id: "\($0.key)", value: $0.value) }
  }
}

extension EffectProgram.Policy {
  fileprivate var policy: EffectPolicy {
    switch self {
    case .latest: .latest
    case .first: .first
    case .inTurn(let limit): .inTurn(limit: limit)
    case .concurrent(let limit): .concurrent(limit: limit)
    case .debounced(let time): .debounced(for: .nanoseconds(time))
    case .throttled(let time, let latest): .throttled(for: .nanoseconds(time), latest: latest)
    case .newest(let limit): .newest(limit: limit)
    }
  }
}

final class Flag: Sendable {
  private let value = Atomic(false)
  var isSet: Bool { value.load(ordering: .acquiring) }
  func set() { value.store(true, ordering: .releasing) }
}
