/// A sequential model of G8: the exact outcome of a program of effects, step by step.
struct EffectModel {
  fileprivate typealias Work = EffectProgram.Work

  /// The effects that can interact: those of one store, one element and one id.
  struct SlotKey: Hashable {
    var store: Int
    /// Nil for effects of the whole state or its part.
    var list: EffectProgram.Scope?
    var element = 0
    var id: EffectProgram.Identity
  }

  /// A part or element whose absence ends effects, as seen by one interceptor.
  struct Owner: Hashable {
    var interceptor: Int
    var generation: Int
    var scope: EffectProgram.Scope
    var element = 0
  }

  fileprivate enum Status: Equatable {
    case waiting
    case held(until: Int)
    case delayed(until: Int)
    case asleep(until: Int, next: Int)
    case following(Int, next: Int)
    case performing(Int, next: Int)
    case atWork
    /// Its end follows the actions that it has dispatched.
    case ending
    case over

    var deadline: Int? {
      switch self {
      case .held(let time), .delayed(let time), .asleep(let time, _): time
      case .waiting, .following, .performing, .atWork, .ending, .over: nil
      }
    }
  }

  fileprivate struct Effect {
    var key: EffectKey
    var store: Int
    var slot: SlotKey?
    var owner: Owner?
    var policy = EffectProgram.Policy.latest
    var work: Work
    var carried: Int
    var status = Status.waiting
    var attempt = 0
    var beganIn = -1
    /// The commit that began it; -1 if it began between commits.
    var beganAt = -1
    var performance: Int?
    /// The following and the element, for an effect of the state.
    var place: (instance: Int, element: Int)?
  }

  private struct Slot {
    /// In commit order.
    var unfinished: [Int] = []
    var window: (end: Int, opener: Int)?
  }

  /// An effect of the state that follows a store.
  private struct Following {
    var instance: Int
    var spec: Int
    var store: Int
    var isSubscribed: Bool
    /// The values of the elements that are present.
    var values: [Int: Int] = [:]
    var running: [Int: Int] = [:]
    var next: [Int: Int] = [:]
  }

  private enum Item {
    case action(EffectCommit, by: Int?, of: Int?)
    case end(Int)
    /// A performance's caller was cancelled.
    case withdraw(Int)
  }

  /// A performed action, with the effects that its caller awaits.
  private struct Performance {
    enum Caller {
      /// The task of a step, and the index of its gift.
      case task(step: Int, gift: Int)
      case effect(Int)
    }

    var caller: Caller
    var isCancelled = false
    /// The number of this phase's commits when all its effects had ended.
    var overAt: Int?
    /// Whether its caller still waited at that point.
    var wasAwaited = false
    /// Whether its caller has continued.
    var isDone = false
  }

  private let program: EffectProgram
  private(set) var phases: [EffectPhase] = []
  /// Whether the order is undetermined, because two things happen at one time, or too much happens.
  private(set) var isAmbiguous = false
  private var phase = EffectPhase(doing: .start)
  private var now = 0
  private var position = 0
  private var locals: [EffectLocal]
  private var isAlive: [Bool]
  private var isFinishing: [Bool]
  private var effects: [Effect] = []
  private var slots: [SlotKey: Slot] = [:]
  private var followings: [Following] = []
  private var queue: [Item] = []
  private var generation = 0
  private var nextInstance = 0
  /// The store whose effects are finishing.
  private var finisher: Int?
  private var performances: [Performance] = []
  /// The cancelled tasks, by step.
  private var cancelledTasks: Set<Int> = []
  /// Whether an effect gives its next action right after its last commit.
  private var someoneGoesOn = false
  /// Whether a commit is in progress, and its performance.
  private var isCommitting = false
  private var committedPerformance: Int?

  init(_ program: EffectProgram) {
    self.program = program
    locals = program.stores.map { _ in EffectLocal() }
    isAlive = program.stores.map { _ in true }
    isFinishing = program.stores.map { _ in false }
    run()
  }

  // MARK: Steps

  private mutating func run() {
    for store in program.stores.indices {
      for spec in program.stores[store].stateEffects { follow(spec, store: store, isSubscribed: false) }
    }
    settle()
    for (number, step) in program.steps.enumerated() {
      if isAmbiguous { return }
      perform(step, number)
    }
    // Runs all remaining effects to their end.
    var rounds = 0
    while let time = nextDeadline, !isAmbiguous {
      rounds += 1
      if rounds > 100 { isAmbiguous = true }
      move(to: time)
    }
    end(0)
    phase.doing = .shutDown(0)
    settle()
  }

  private mutating func perform(_ step: EffectProgram.Step, _ number: Int) {
    switch step {
    case .give(let gifts):
      phase.doing = .give(gifts, step: number)
      for (place, gift) in gifts.enumerated() {
        let isTaken = isAlive[gift.store]
        phase.answers.append(isTaken)
        guard isTaken else { continue }
        let commit = EffectCommit(
          store: gift.store, action: gift.action, cause: .driver(step: number, gift: place),
          carried: program.isCarrying ? number + 1 : 0)
        queue.append(.action(commit, by: nil, of: nil))
      }
      settle()
    case .perform(let gifts):
      phase.doing = .perform(gifts, step: number)
      perform(step: number, gift: 0)
      settle()
    case .cancelPerforming(let step):
      guard step < number, case .perform = program.steps[step] else { return }
      phase.doing = .cancelPerforming(step)
      cancelledTasks.insert(step)
      for place in performances.indices where !performances[place].isDone {
        if case .task(step, _) = performances[place].caller { queue.append(.withdraw(place)) }
      }
      settle()
    case .advance(let time):
      let target = now + time
      while let next = nextDeadline, next <= target, !isAmbiguous { move(to: next) }
      if now < target { move(to: target) }
    case .next: if let next = nextDeadline { move(to: next) }
    case .shutDown(let store):
      guard isAlive[store] else { return }
      phase.doing = .shutDown(store)
      end(store)
      settle()
    case .release(let store):
      let hasChildren = program.stores.indices.contains { program.stores[$0].parent == store && isAlive[$0] }
      guard store > 0, isAlive[store], !hasChildren else { return }
      phase.doing = .release(store)
      end(store)
      settle()
    case .finish(let store, let limit): finish(store, within: limit)
    case .subscribe(let spec, let store):
      guard isAlive[store], spec < program.stateEffects.count else { return }
      phase.doing = .subscribe(spec, store: store, instance: nextInstance)
      follow(spec, store: store, isSubscribed: true)
      settle()
    case .unsubscribe(let instance):
      guard let place = followings.firstIndex(where: { $0.instance == instance && $0.isSubscribed }) else { return }
      phase.doing = .unsubscribe(instance)
      stopFollowing(at: place)
      settle()
    case .intercept:
      guard isAlive[0] else { return }
      phase.doing = .intercept
      // The old interceptor's effects of the state end; those of the new one begin with the current state.
      while let place = followings.firstIndex(where: { $0.store == 0 && !$0.isSubscribed }) { stopFollowing(at: place) }
      generation += 1
      for spec in program.stores[0].stateEffects { follow(spec, store: 0, isSubscribed: false) }
      settle()
    }
  }

  // MARK: Time

  private var nextDeadline: Int? { effects.lazy.compactMap(\.status.deadline).min() }

  private mutating func move(to time: Int) {
    phase.doing = .time(time)
    now = time
    let due = effects.indices.filter { effects[$0].status.deadline == time }
    if due.count > 1 { isAmbiguous = true }
    for effect in due { wake(effect) }
    settle()
  }

  private mutating func wake(_ effect: Int) {
    switch effects[effect].status {
    case .held:
      if case .throttled(let time, _) = effects[effect].policy, let slot = effects[effect].slot {
        slots[slot]?.window = (now + time, effect)
      }
      begin(effect)
    case .delayed: enter(effect)
    case .asleep(_, let next): work(effect, from: next, isAlone: true)
    case .waiting, .following, .performing, .atWork, .ending, .over: break
    }
  }

  // MARK: The end of a phase

  private mutating func settle() {
    goOn()
    if let store = finisher, !isBusy(below: store) {
      // Effects that only follow states end now.
      cancelEffects(below: store)
      finisher = nil
      phase.isFinished = true
      goOn()
    }
    phase.live = Set(effects.lazy.filter { $0.isLive }.map(\.key))
    phase.count = slots.values.reduce(0) { $0 + $1.unfinished.count }
    phases.append(phase)
    phase = EffectPhase(doing: .start)
    if position > 250 || effects.count > 400 { isAmbiguous = true }
  }

  /// Performs everything that happens before time advances.
  private mutating func goOn() {
    repeat {
      drain()
      // Cancelled effects have returned, so effects that waited for them begin.
      for place in followings.indices {
        for (element, effect) in followings[place].running where effects[effect].status == .over {
          followings[place].running[element] = nil
        }
        for (element, effect) in followings[place].next {
          followings[place].running[element] = effect
          begin(effect)
        }
        followings[place].next = [:]
      }
      drain()
    } while callersGoOn()
  }

  private mutating func drain() {
    noteWhatIsOver()
    while !queue.isEmpty {
      switch queue.removeFirst() {
      case .action(let action, let effect, let performance):
        if let effect, effects[effect].status == .over { break }
        guard isAlive[action.store] || isFinishing[action.store] && effect != nil else { break }
        commit(action, of: performance)
      case .end(let effect): if effects[effect].status == .ending { ended(effect) }
      case .withdraw(let performance):
        performances[performance].isCancelled = true
        withdraw(effects.indices.filter { effects[$0].performance == performance })
      }
      noteWhatIsOver()
      if position > 300 {
        isAmbiguous = true
        queue = []
      }
    }
  }

  // MARK: Performances

  /// Performs a task's next action, unless all are performed or the task is cancelled.
  private mutating func perform(step: Int, gift: Int) {
    guard case .perform(let gifts) = program.steps[step], gift < gifts.count, !cancelledTasks.contains(step) else {
      return
    }
    let cause = EffectCause.driver(step: step, gift: gift)
    guard isAlive[gifts[gift].store] else {
      phase.returned.insert(cause)
      return perform(step: step, gift: gift + 1)
    }
    performances.append(Performance(caller: .task(step: step, gift: gift)))
    let commit = EffectCommit(
      store: gifts[gift].store, action: gifts[gift].action, cause: cause, carried: program.isCarrying ? step + 1 : 0)
    queue.append(.action(commit, by: nil, of: performances.count - 1))
  }

  private func isOver(_ performance: Int) -> Bool {
    let isQueued = queue.contains { if case .action(_, _, performance) = $0 { true } else { false } }
    return !isQueued && committedPerformance != performance
      && !effects.contains { $0.performance == performance && $0.status != .over }
  }

  private mutating func noteWhatIsOver() {
    for place in performances.indices where performances[place].overAt == nil && isOver(place) {
      performances[place].overAt = phase.commits.count
      performances[place].wasAwaited = isAwaited(place)
      // The caller continues, and so does the effect whose action or end caused this.
      let isAnotherEnding = queue.contains { item in
        if case .end(let effect) = item { effects[effect].slot != nil } else { false }
      }
      if performances[place].wasAwaited, someoneGoesOn || isAnotherEnding { isAmbiguous = true }
    }
  }

  private func isAwaited(_ performance: Int) -> Bool {
    guard case .effect(let effect) = performances[performance].caller else { return true }
    if case .performing(performance, _) = effects[effect].status { return true }
    return false
  }

  /// Lets the callers of ended performances continue. Returns false if there are none.
  private mutating func callersGoOn() -> Bool {
    let over = performances.indices.filter { performances[$0].overAt != nil && !performances[$0].isDone }
    // Two callers, or a caller and other commits of the phase, could come in any order.
    var goOnCount = 0
    for place in over {
      performances[place].isDone = true
      let isLate = performances[place].overAt != phase.commits.count
      switch performances[place].caller {
      case .task(let step, let gift):
        phase.returned.insert(.driver(step: step, gift: gift))
        let count = performances.count
        perform(step: step, gift: gift + 1)
        if performances.count == count { continue }
      case .effect(let effect):
        // An effect that a later commit cancelled may have continued before that commit.
        if isLate, performances[place].wasAwaited { isAmbiguous = true }
        guard case .performing(place, let next) = effects[effect].status else { continue }
        work(effect, from: next, isAlone: true)
      }
      goOnCount += 1
      if isLate { isAmbiguous = true }
    }
    if goOnCount > 1 { isAmbiguous = true }
    return !over.isEmpty && !isAmbiguous
  }

  // MARK: Commits

  private mutating func commit(_ action: EffectCommit, of performance: Int? = nil) {
    let outer = (isCommitting, committedPerformance)
    (isCommitting, committedPerformance) = (true, performance)
    defer { (isCommitting, committedPerformance) = outer }
    position += 1
    phase.commits.append(action)
    let path = program.path(to: action.store)
    let deed = program.actions[action.action]
    for store in path { locals[store].reduce(deed.change) }
    for effect in effects.indices {
      if case .following(let count, let next) = effects[effect].status, locals[effects[effect].store].commits >= count {
        work(effect, from: next)
      }
    }
    for place in followings.indices { updateFollowing(at: place, carried: action.carried) }
    for interceptor in path.reversed() {
      cancelWhatIsGone(for: interceptor)
      for scope in EffectProgram.Scope.allCases {
        guard isThere(scope, deed.element, for: interceptor) else { continue }
        for (place, order) in deed.orders.enumerated() where order.scope == scope {
          guard program.interceptor(of: order, givenTo: action.store) == interceptor else { continue }
          perform(order, at: place, of: action, element: deed.element, by: interceptor)
        }
      }
    }
  }

  /// The state whose parts an interceptor sees.
  private func seen(by interceptor: Int) -> EffectLocal {
    locals[program.stores[interceptor].looksAtRoot ? 0 : interceptor]
  }

  private func isThere(_ scope: EffectProgram.Scope, _ element: Int, for interceptor: Int) -> Bool {
    switch scope {
    case .whole: true
    case .part: seen(by: interceptor).hasPart
    case .keyed, .listed: seen(by: interceptor).elements[element] != nil
    }
  }

  private mutating func perform(
    _ order: EffectProgram.Order, at place: Int, of action: EffectCommit, element: Int, by interceptor: Int
  ) {
    let isOfElement = order.scope == .keyed || order.scope == .listed
    func slot(_ id: EffectProgram.Identity) -> SlotKey {
      SlotKey(
        store: action.store, list: isOfElement ? order.scope : nil, element: isOfElement ? element : 0, id: id)
    }
    switch order.what {
    case .cancel(let id): cancelAll(in: slot(id))
    case .begin(let work, let id, let policy):
      if let performance = committedPerformance, performances[performance].isCancelled { return }
      let owner =
        order.scope == .whole
        ? nil
        : Owner(
          interceptor: interceptor, generation: interceptor == 0 ? generation : 0, scope: order.scope,
          element: isOfElement ? element : 0)
      let effect = Effect(
        key: .order(position, place), store: action.store, slot: id.map(slot), owner: owner, policy: policy,
        work: work, carried: action.carried, performance: committedPerformance)
      effects.append(effect)
      add(effects.count - 1)
    }
  }

  // MARK: Ids

  private mutating func add(_ effect: Int) {
    guard let key = effects[effect].slot else { return begin(effect) }
    let unfinished = slots[key]?.unfinished ?? []
    func append(_ status: Status? = nil) {
      slots[key, default: Slot()].unfinished.append(effect)
      if let status { effects[effect].status = status }
    }
    switch effects[effect].policy {
    case .latest:
      cancelAll(in: key)
      append()
      begin(effect)
    case .first:
      guard unfinished.isEmpty else { return leaveOut(effect) }
      append()
      begin(effect)
    case .inTurn(let limit):
      if !unfinished.isEmpty, unfinished.count(where: { effects[$0].status == .waiting }) >= limit {
        phase.turnedAway += 1
        return leaveOut(effect)
      }
      append(.waiting)
      beginWaiting(in: key)
    case .concurrent:
      append(.waiting)
      beginWaiting(in: key)
    case .debounced(let time):
      cancelAll(in: key)
      append(time > 0 ? .held(until: now + time) : nil)
      if time <= 0 { begin(effect) }
    case .throttled(let time, let latest):
      let end = slots[key]?.window?.end ?? now
      if time <= 0 || end <= now {
        append()
        if time > 0 { slots[key]?.window = (now + time, effect) }
        begin(effect)
      } else if latest {
        if let held = unfinished.first(where: isHeldThrottled) { cancel(held) }
        append(.held(until: end))
        // An effect that waited for the replaced one may begin.
        beginWaiting(in: key)
      } else {
        leaveOut(effect)
      }
    case .newest(let limit):
      let surplus = unfinished.count - (max(1, limit) - 1)
      if surplus > 0 { for old in unfinished.prefix(surplus) { cancel(old) } }
      append()
      begin(effect)
      beginWaiting(in: key)
    }
  }

  private func isHeldThrottled(_ effect: Int) -> Bool {
    if case .held = effects[effect].status, case .throttled = effects[effect].policy { true } else { false }
  }

  private mutating func cancelAll(in key: SlotKey) {
    for effect in slots[key]?.unfinished ?? [] { cancel(effect) }
    slots[key]?.window = nil
  }

  /// Begins the effects whose turn has come.
  private mutating func beginWaiting(in key: SlotKey) {
    var before = 0
    for effect in slots[key]?.unfinished ?? [] {
      if effects[effect].status == .waiting {
        if case .concurrent(let limit) = effects[effect].policy {
          guard before < max(1, limit) else { return }
        } else {
          guard before == 0 else { return }
        }
        begin(effect)
      }
      before += 1
    }
  }

  private mutating func leaveOut(_ effect: Int) { effects[effect].status = .over }

  // MARK: One effect

  private mutating func begin(_ effect: Int) {
    effects[effect].beganIn = phases.count
    effects[effect].beganAt = isCommitting ? position : -1
    let delay = effects[effect].work.after
    if delay > 0 { effects[effect].status = .delayed(until: now + delay) } else { enter(effect) }
  }

  private mutating func enter(_ effect: Int) {
    let key = effects[effect].key
    phase.entries[key, default: 0] += 1
    phase.carried[key] = effects[effect].carried
    work(effect, from: 0)
  }

  /// - Parameter isAlone: Whether nothing else happens, so that its dispatched actions are committed before it
  ///   continues.
  private mutating func work(_ effect: Int, from first: Int, isAlone: Bool = false) {
    effects[effect].status = .atWork
    let (parts, store, key) = (effects[effect].work.parts, effects[effect].store, effects[effect].key)
    for place in first..<max(first, parts.count) {
      switch parts[place] {
      case .sleep(let time):
        if time <= 0 { continue }
        effects[effect].status = .asleep(until: now + time, next: place + 1)
        return
      case .follow(let count):
        // Its own dispatched actions come first.
        if isAlone { drain() }
        if effects[effect].status == .over { return }
        if locals[store].commits >= count { continue }
        effects[effect].status = .following(count, next: place + 1)
        return
      case .dispatch(let action):
        noteRace(of: effect)
        queue.append(
          .action(
            commit(of: action, to: store, by: effect, place), by: effect, of: effects[effect].performance))
      case .send(let action, let target):
        if !isAlone { isAmbiguous = true }
        guard drain(before: parts[place...], by: effect) else { return }
        if isAlive[target] || isFinishing[target] && isFinishing[store] {
          let action = commit(of: action, to: target, by: effect, place)
          guard drain(action, before: parts[(place + 1)...], by: effect) else { return }
        }
      case .perform(let action, let target):
        if !isAlone { isAmbiguous = true }
        guard drain(before: parts[place...], by: effect) else { return }
        guard isAlive[target] || isFinishing[target] && isFinishing[store] else { continue }
        performances.append(Performance(caller: .effect(effect)))
        effects[effect].status = .performing(performances.count - 1, next: place + 1)
        let action = commit(of: action, to: target, by: effect, place)
        _ = drain(action, of: performances.count - 1, before: parts[(place + 1)...], by: effect)
        return
      case .fail: return fail(effect, key)
      case .linger: break
      }
    }
    if effects[effect].slot != nil { noteRace(of: effect) }
    effects[effect].status = .ending
    queue.append(.end(effect))
  }

  /// Commits an effect's action, if it gives one, and the queued ones. Returns whether the effect continues.
  ///
  /// An effect continues at once with its next part. If a later entry cancels it, that part may come before or after
  /// the cancellation.
  private mutating func drain(
    _ action: EffectCommit? = nil, of performance: Int? = nil, before parts: ArraySlice<EffectProgram.Part>,
    by effect: Int
  ) -> Bool {
    if effects[effect].status == .over { return false }
    let outer = someoneGoesOn
    defer { someoneGoesOn = outer }
    switch parts.first(where: { if case .linger = $0 { false } else { true } }) {
    case .dispatch, .send, .perform, .fail: someoneGoesOn = true
    case nil: if effects[effect].slot != nil { someoneGoesOn = true }
    case .sleep, .follow, .linger: break
    }
    if let action { commit(action, of: performance) }
    drain()
    guard effects[effect].status == .over else { return true }
    if someoneGoesOn, !parts.isEmpty { isAmbiguous = true }
    return false
  }

  /// An effect, or a continuing caller, gives an action while others do: any of them may be first.
  private mutating func noteRace(of effect: Int?) {
    let others = queue.contains { item in
      switch item {
      case .action(_, by: let other, of: _): other != effect || other == nil
      case .end(let other): other != effect && effects[other].slot != nil
      case .withdraw: false
      }
    }
    if someoneGoesOn || others { isAmbiguous = true }
  }

  private func commit(of action: Int, to store: Int, by effect: Int, _ place: Int) -> EffectCommit {
    EffectCommit(
      store: store, action: action,
      cause: .effect(effects[effect].key, attempt: effects[effect].attempt, place: place),
      carried: effects[effect].carried)
  }

  private mutating func fail(_ effect: Int, _ key: EffectKey) {
    let work = effects[effect].work
    effects[effect].attempt += 1
    if effects[effect].attempt < work.attempts {
      if work.pause > 0 { effects[effect].status = .delayed(until: now + work.pause) } else { enter(effect) }
      return
    }
    if let action = work.catching {
      noteRace(of: effect)
      let commit = EffectCommit(
        store: effects[effect].store, action: action, cause: .caught(key), carried: effects[effect].carried)
      queue.append(.action(commit, by: effect, of: effects[effect].performance))
    } else {
      phase.failed.append(key)
    }
    effects[effect].status = .ending
    queue.append(.end(effect))
  }

  private mutating func ended(_ effect: Int) {
    effects[effect].status = .over
    if let key = effects[effect].slot {
      slots[key]?.unfinished.removeAll { $0 == effect }
      beginWaiting(in: key)
    }
    if let (instance, element) = effects[effect].place,
      let place = followings.firstIndex(where: { $0.instance == instance }),
      followings[place].running[element] == effect
    {
      followings[place].running[element] = nil
    }
  }

  private mutating func cancel(_ effect: Int) {
    let key = effects[effect].key
    if effects[effect].status == .over { return }
    // An effect that began in this phase may have been entered, unless the same commit began it.
    if effects[effect].beganIn == phases.count, let count = phase.entries[key] {
      phase.entries[key] = count > 1 ? count - 1 : nil
      if !isCommitting || effects[effect].beganAt != position { phase.maybe.insert(key) }
    }
    if case .performing(let performance, _) = effects[effect].status {
      noteRace(of: nil)
      queue.append(.withdraw(performance))
    }
    effects[effect].status = .over
    if let key = effects[effect].slot { slots[key]?.unfinished.removeAll { $0 == effect } }
  }

  // MARK: Parts

  private mutating func cancelWhatIsGone(for interceptor: Int) {
    let current = interceptor == 0 ? generation : 0
    let gone = effects.indices.filter { effect in
      guard let owner = effects[effect].owner, owner.interceptor == interceptor, owner.generation == current else {
        return false
      }
      return !isThere(owner.scope, owner.element, for: interceptor)
    }
    withdraw(gone)
  }

  /// Cancels effects as if they had never existed for others.
  private mutating func withdraw(_ gone: [Int]) {
    if gone.isEmpty { return }
    var touched: [SlotKey] = []
    for effect in gone {
      cancel(effect)
      effects[effect].owner = nil
      effects[effect].performance = nil
      guard let key = effects[effect].slot else { continue }
      touched.append(key)
      if slots[key]?.window?.opener == effect { slots[key]?.window = nil }
    }
    for key in touched {
      guard let slot = slots[key] else { continue }
      // An effect that waited for the closed window begins, and opens its own.
      if slot.window == nil, let held = slot.unfinished.first(where: isHeldThrottled),
        case .throttled(let time, _) = effects[held].policy
      {
        slots[key]?.window = (now + time, held)
        begin(held)
      }
      beginWaiting(in: key)
    }
  }

  // MARK: Effects of the state

  private mutating func follow(_ spec: Int, store: Int, isSubscribed: Bool) {
    followings.append(Following(instance: nextInstance, spec: spec, store: store, isSubscribed: isSubscribed))
    nextInstance += 1
    updateFollowing(at: followings.count - 1, carried: 0)
  }

  private mutating func updateFollowing(at place: Int, carried: Int) {
    let following = followings[place]
    let spec = program.stateEffects[following.spec]
    let values = spec.values(of: locals[spec.looksAtRoot ? 0 : following.store])
    followings[place].values = values
    for element in following.values.keys.sorted() where values[element] == nil { stop(element, at: place) }
    for element in values.keys.sorted() where values[element] != following.values[element] {
      stop(element, at: place)
      guard let value = values[element], spec.hasEffect(value) else { continue }
      effects.append(
        Effect(
          key: .state(following.instance, element, position), store: following.store, work: spec.work,
          carried: carried, place: (following.instance, element)))
      let effect = effects.count - 1
      if followings[place].running[element] == nil {
        followings[place].running[element] = effect
        begin(effect)
      } else {
        followings[place].next[element] = effect
      }
    }
  }

  /// Cancels the running and the next effect of an element. The running one blocks new ones until the tree has settled.
  private mutating func stop(_ element: Int, at place: Int) {
    if let running = followings[place].running[element] { cancel(running) }
    if let next = followings[place].next.removeValue(forKey: element) {
      // It may have begun already.
      if effects[next].work.after <= 0 { phase.maybe.insert(effects[next].key) }
      phase.carried[effects[next].key] = effects[next].carried
      effects[next].status = .over
    }
  }

  private mutating func stopFollowing(at place: Int) {
    let following = followings.remove(at: place)
    for (_, effect) in following.running { cancel(effect) }
    for (_, effect) in following.next { effects[effect].status = .over }
  }

  // MARK: Ends

  /// Gives a store its last action, then cancels all effects of it and of the stores below.
  private mutating func end(_ store: Int) {
    let turnedAway = phase.turnedAway
    giveLast(store)
    drain()
    // The store has closed. An effect that its last effects would turn away may come after these have gone.
    phase.maybeTurnedAway += phase.turnedAway - turnedAway
    cancelEffects(below: store)
  }

  private mutating func giveLast(_ store: Int) {
    guard store > 0, let action = program.stores[store].atEnd else { return }
    let commit = EffectCommit(store: store, action: action, cause: .atEnd(store), carried: 0)
    queue.append(.action(commit, by: nil, of: nil))
  }

  private mutating func cancelEffects(below store: Int) {
    for below in program.stores.indices where program.isStore(below, atOrBelow: store) {
      (isAlive[below], isFinishing[below]) = (false, false)
      while let place = followings.firstIndex(where: { $0.store == below }) { stopFollowing(at: place) }
      for effect in effects.indices where effects[effect].store == below { cancel(effect) }
      for key in slots.keys where key.store == below { slots[key] = nil }
    }
  }

  private mutating func finish(_ store: Int, within limit: Int) {
    guard isAlive[store], limit > 0 else { return }
    phase.doing = .finish(store, within: limit)
    giveLast(store)
    drain()
    for below in program.stores.indices where program.isStore(below, atOrBelow: store) && isAlive[below] {
      (isAlive[below], isFinishing[below]) = (false, true)
    }
    let end = now + limit
    finisher = store
    settle()
    while finisher != nil, !isAmbiguous {
      guard let next = nextDeadline, next <= end else {
        now = end
        phase.doing = .time(end)
        phase.isFinished = true
        cancelEffects(below: store)
        finisher = nil
        settle()
        break
      }
      if next == end { isAmbiguous = true }
      move(to: next)
    }
  }

  private func isBusy(below store: Int) -> Bool {
    effects.contains { effect in
      guard program.isStore(effect.store, atOrBelow: store) else { return false }
      switch effect.status {
      // An effect that waits for one that only follows states ends with it.
      case .over, .following, .waiting: return false
      case .held, .delayed, .asleep, .performing, .atWork, .ending: return true
      }
    }
  }
}

extension EffectModel.Effect {
  fileprivate var isLive: Bool {
    switch status {
    case .asleep, .following, .performing: true
    case .waiting, .held, .delayed, .atWork, .ending, .over: false
    }
  }
}

extension EffectProgram.StateWork {
  /// The values that it depends on, by element.
  func values(of local: EffectLocal) -> [Int: Int] {
    switch kind {
    case .whileAtLeast(let number): [0: local.number >= number ? 1 : 0]
    case .onChange(let modulus): [0: local.number % max(1, modulus)]
    case .keyed, .listed: local.elements
    case .part: local.hasPart ? [0: local.number] : [:]
    }
  }

  func hasEffect(_ value: Int) -> Bool { value != 0 }
}
