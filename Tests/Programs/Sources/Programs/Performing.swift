import Puredux
import Synchronization

extension Program {
  public func run(features: Features = .all) async -> Recorded {
    let run = Run(self, features: features)
    await run.perform()
    run.clear()
    for (name, count) in [("states", run.states), ("actions", run.actions), ("closures", run.closures)] {
      if await !count.until({ $0 == 0 }) { run.violate("G7 \(count.value) \(name) are alive that nobody holds") }
    }
    return run.recorded
  }
}

extension Run {
  func perform() async {
    makeRoot()
    for store in program.stores.indices.dropFirst() where program.stores[store].isEarly { make(store) }
    await withDiscardingTaskGroup { group in
      for (number, operations) in program.tasks.enumerated() {
        group.addTask { [self] in
          for (place, operation) in operations.enumerated() {
            await perform(operation, given: (number + 1) * 100_000 + place * 2_000)
          }
        }
      }
    }
    await end()
  }

  private func perform(_ operation: Operation, given: Int) async {
    switch operation {
    case .dispatch(let via, let spec):
      guard let target = target(via) else { return }
      dispatch(action(given, via.store, spec), via, to: target)
    case .burst(let via, let count):
      guard let target = target(via) else { return }
      for number in 0..<count {
        dispatch(action(given + number, via.store, ActionSpec(.number(number), rule: number % 8)), via, to: target)
      }
    case .send(let via, let spec):
      guard let target = target(via) else { return }
      await send(action(given, via.store, spec), via, to: target)
    case .sendReading(let via, let spec):
      guard let target = target(via) else { return }
      await sendReading(action(given, via.store, spec), via, to: target)
    case .sendContents(let via, let specs):
      guard let target = target(via) else { return }
      let actions = specs.enumerated().map { action(given + $0.offset, via.store, $0.element) }
      await sendContents(actions, via, to: target)
    case .state(let via):
      guard let target = target(via) else { return }
      await read(via, target)
    case .poll(let via, let count):
      guard let target = target(via) else { return }
      for _ in 0..<count { await read(via, target) }
    case .subscribe(let subscribing):
      guard let target = target(subscribing.via) else { return }
      subscribe(subscribing, to: target)
    case .cancelReader(let key):
      let tasks = readers.withLock { readers in
        readers[key]?.isCancelled = true
        return readers[key]?.tasks
      }
      for task in tasks ?? [] { task.cancel() }
    case .drop(let key):
      // Released outside the lock.
      _ = readers.withLock { readers in
        let held = readers[key]?.held
        readers[key]?.held = nil
        return held
      }
    case .observe(let observing):
      guard let target = target(observing.via) else { return }
      observe(observing, target)
    case .moveObserver(let key, let via):
      guard let watching = watchings.withLock({ $0[key] }) else { return }
      move(watching, key, via)
    case .cancelObserver(let key):
      guard let watching = watchings.withLock({ $0[key] }),
        let (number, subscription) = watching.subscriptions.withLock({ $0.last })
      else { return }
      let span = began()
      subscription.cancel()
      cut(number, ended(span))
    case .make(let store): make(store)
    case .release(let store): release(store)
    case .shutDown(let store, let finishing): await shutDown(store, finishing: finishing)
    case .intercept(let spec): setInterceptor(spec)
    case .statistics:
      guard let root = places.withLock({ $0[0].root }) else { return }
      let span = began()
      let read = await root.statistics
      statistics.add(StatisticsRead(commits: read.commits, span: ended(span), seenAfter: seen))
    case .history(let store): readHistory(store)
    case .yield: await Task.yield()
    }
  }

  // MARK: Actions

  private func dispatch(_ action: Action, _ via: Via, to target: any StoreType<Snapshot, Action>) {
    let span = began()
    let outcome: Outcome =
      switch target.dispatch(action) {
      case .enqueued: .enqueued
      // A store without a log never returns the others; if it does, the checker reports the refusal of an open store.
      case .terminated, .tooDeep, .overloaded, .stopped: .terminated
      case .unmapped: .unmapped
      }
    calls.add(Call(bare(action), views: via.views, ended(span), outcome))
  }

  private func send(_ action: Action, _ via: Via, to target: some StoreType<Snapshot, Action>) async {
    let span = began()
    let outcome: Outcome
    do throws(StoreError) {
      try await target.send(action)
      outcome = .committed
    } catch {
      outcome = Outcome(error)
    }
    calls.add(Call(bare(action), views: via.views, ended(span), outcome))
  }

  private func sendReading(_ action: Action, _ via: Via, to target: some StoreType<Snapshot, Action>) async {
    let span = began()
    let outcome: Outcome
    do throws(StoreError) {
      outcome = .read(try await target.send(action) { [self] in bare($0) })
    } catch {
      outcome = Outcome(error)
    }
    calls.add(Call(bare(action), views: via.views, ended(span), outcome))
  }

  private func sendContents(_ actions: [Action], _ via: Via, to target: some StoreType<Snapshot, Action>) async {
    let contents = Contents(actions: actions, views: via.views, run: self)
    do {
      try await target.send(contentsOf: contents)
      contents.finish(with: nil)
    } catch {
      contents.finish(with: error as? StoreError)
      if !(error is StoreError) { violate("G9 send(contentsOf:) threw \(error)") }
    }
  }

  // MARK: Reading

  private func read(_ via: Via, _ target: some StoreType<Snapshot, Action>) async {
    let span = began()
    let outcome: Outcome
    do {
      outcome = .read(bare(try await target.state))
    } catch {
      outcome = Outcome(error)
    }
    reads.add(StateRead(via, ended(span), outcome))
  }

  private func readHistory(_ store: Int) {
    let span = began()
    let entries: [HistoryEntry]
    if store == 0 {
      guard let rootHistory = keptHistories.withLock({ $0.root }) else { return }
      entries = rootHistory.entries.map { entry in
        HistoryEntry(
          action: bare(entry.action), isRootGiven: entry.store == .root, position: entry.position,
          before: bare(entry.stateBefore.ledgers[0]), after: bare(entry.state.ledgers[0]), steps: entry.steps.count)
      }
    } else {
      guard let history = keptHistories.withLock({ $0.children[store] }) else { return }
      entries = history.entries.map { entry in
        HistoryEntry(
          action: bare(entry.action), isRootGiven: entry.store == .root, position: entry.position,
          before: bare(entry.stateBefore), after: bare(entry.state), steps: entry.steps.count)
      }
    }
    histories.add(HistoryRead(store: store, span: ended(span), seenAfter: seen, entries: entries))
  }

  private func subscribe(_ subscribing: Subscribing, to target: some StoreType<Snapshot, Action>) {
    let via = subscribing.via
    let policy = subscribing.buffering.policy
    let equating = subscribing.filter.equating(dispatching: subscribing.filterDispatches, to: via.store, in: self)
    let span = began()
    let sequence: any AsyncSequence<Snapshot, Never> & Sendable
    if subscribing.isStream {
      sequence = target.states(bufferingPolicy: policy, removeStateDuplicates: equating)
    } else {
      sequence = target.states(bufferingPolicy: policy, removeStateDuplicates: equating) as StateSequence
    }
    var followed = Followed(
      name: "#\(subscribing.key)", via: via, buffering: subscribing.buffering, filter: subscribing.filter,
      span: ended(span))
    var reader = Reader()
    switch subscribing.consumption {
    case .unread:
      reader.held = sequence
      reader.isUnread = true
    case .shared:
      let parts = Record<[Snapshot]>()
      followed.name += " (shared)"
      for _ in 0..<2 {
        reader.tasks.append(
          Task { [self, followed] in
            let (elements, _) = await elements(of: sequence, subscribing.consumption)
            parts.add(elements)
            let all = parts.all
            if all.count == 2 { share(all, of: followed, key: subscribing.key) }
          })
      }
    default:
      reader.tasks = [
        Task { [self, followed] in
          var followed = followed
          let isEnded: Bool
          (followed.elements, isEnded) = await elements(of: sequence, subscribing.consumption)
          followed.endStamp = stamp()
          if case .stalling(let count, afterEnd: true) = subscribing.consumption,
            isEndAwaited.load(ordering: .acquiring)
          {
            followed.stalledAt = min(count, followed.elements.count)
          }
          finish(followed, isEnded: isEnded, key: subscribing.key)
        }
      ]
    }
    if case .stalling(_, afterEnd: true) = subscribing.consumption { reader.isStalled = true }
    if subscribing.consumption == .keeping { reader.held = sequence }
    readers.withLock { $0[subscribing.key] = reader }
  }

  private func elements(
    of sequence: some AsyncSequence<Snapshot, Never> & Sendable, _ consumption: Consumption
  ) async -> (elements: [Snapshot], isEnded: Bool) {
    var elements: [Snapshot] = []
    var iterator = sequence.makeAsyncIterator()
    switch consumption {
    case .taking(let count):
      while elements.count < count {
        guard let state = await iterator.next(isolation: nil) else { return (elements, true) }
        elements.append(bare(state))
      }
      return (elements, false)
    case .stalling(let count, let afterEnd):
      while elements.count < count {
        guard let state = await iterator.next(isolation: nil) else { return (elements, true) }
        elements.append(bare(state))
      }
      await (afterEnd ? ended : quiet).wait()
    case .toEnd, .keeping, .shared, .unread: break
    }
    while let state = await iterator.next(isolation: nil) { elements.append(bare(state)) }
    return (elements, true)
  }

  private func share(_ parts: [[Snapshot]], of followed: Followed, key: Int) {
    for part in parts where zip(part, part.dropFirst()).contains(where: { $0.at >= $1.at }) {
      violate("G4 \(followed.name): a consumer of a shared sequence got \(part)")
    }
    var followed = followed
    followed.elements = parts.joined().sorted { $0.at < $1.at }
    followed.endStamp = stamp()
    finish(followed, isEnded: true, key: key)
  }

  private func finish(_ read: Followed, isEnded: Bool, key: Int) {
    var read = read
    let isCancelled = readers.withLock { $0[key]?.isCancelled == true }
    read.isWhole = isEnded && !isCancelled
    if isCancelled { read.stalledAt = nil }
    followed.add(read)
  }

  // MARK: Observers

  private func observe(_ observing: Observing, _ target: some StoreType<Snapshot, Action>) {
    let isBusy = Busy()
    let calls = Counter()
    let equating = observing.filter.equating(dispatching: false, to: observing.via.store, in: self)
    let observer = Observer<Snapshot>(bufferingPolicy: observing.buffering.policy, removeStateDuplicates: equating) {
      [self, tie = tie()] state in
      tie.use()
      let begin = stamp()
      if !isBusy.enter() { violate("G8 two calls of observer #\(observing.key) at a time") }
      for _ in 0..<observing.yields { await Task.yield() }
      if observing.dispatches { dispatchPerhaps(to: observing.via.store) }
      let count = calls.increment()
      let isDead = observing.deadAfter.map { count >= $0 } ?? false
      isBusy.leave()
      observerCalls.add(
        ObserverCall(subscription: state.tag, state: bare(state), begin: begin, end: stamp(), isDead: isDead))
      return isDead ? .dead : .active
    }
    let watching = Watching(observer: observer)
    watchings.withLock { $0[observing.key] = watching }
    subscribe(watching, observing, observing.via, target)
  }

  private func subscribe(
    _ watching: Watching, _ observing: Observing, _ via: Via, _ target: some StoreType<Snapshot, Action>
  ) {
    let number = nextSubscription.add(1, ordering: .relaxed).oldValue
    var via = via
    via.views.append(.marked(number))
    let proxy = View.marked(number).of(target.store(), store: via.store, in: self)
    let span = began()
    let before = watching.subscriptions.withLock { $0.map(\.number) }
    let subscription = proxy.subscribe(observer: watching.observer)
    let spanEnded = ended(span)
    // Recorded before others can find and cancel the subscription.
    observed.add(Observed(number: number, observing: observing, via: via, span: spanEnded))
    watching.subscriptions.withLock { $0.append((number, subscription)) }
    for number in before { cut(number, spanEnded) }
  }

  private func move(_ watching: Watching, _ key: Int, _ via: Via) {
    guard let target = target(via),
      let observing = observed.all.first(where: { $0.observing.key == key })?.observing
    else { return }
    subscribe(watching, observing, via, target)
  }

  private func cut(_ number: Int, _ span: Span) {
    observed.update { all in
      if let index = all.firstIndex(where: { $0.number == number }) { all[index].cuts.append(span) }
    }
  }

  // MARK: Ending

  private func release(_ store: Int) {
    let span = began()
    var place = places.withLock { places in
      let place = places[store]
      places[store].root = nil
      places[store].child = nil
      return place
    }
    guard place.root != nil || place.child != nil else { return }
    // Recorded before the store is released, because its end may be visible at once.
    closings.add(Closing(store: store, isShutdown: false, span: span))
    place.root = nil
    place.child = nil
  }

  private func shutDown(_ store: Int, finishing: Bool) async {
    let place = places.withLock { $0[store] }
    let way = finishing ? InterceptorShutdown.finish(within: .seconds(100)) : .cancel
    let span = began()
    if let root = place.root {
      await root.shutdown(interceptors: way)
    } else if let child = place.child {
      await child.shutdown(interceptors: way)
    } else {
      return
    }
    var closing = Closing(store: store, isShutdown: true, span: ended(span))
    closing.isFinishing = finishing
    closings.add(closing)
  }

  private func end() async {
    // Returns after the last action that closures dispatched is committed.
    if let root = places.withLock({ $0[0].root }) { _ = await root.state }
    quiet.open()
    if case .shutdown(let finishing) = program.ending {
      await shutDown(0, finishing: finishing)
      if let root = places.withLock({ $0[0].root }) {
        isEndAwaited.store(true, ordering: .releasing)
        let statistics = await root.statistics
        if features.contains(.interceptorEnds), statistics.runningTasks != 0 {
          violate("G8 \(statistics.runningTasks) tasks run after shutdown")
        }
        if statistics.waiting != 0 { violate("G9 \(statistics.waiting) requests wait after shutdown") }
      }
    }
    for store in program.stores.indices.reversed() { release(store) }
    for task in readers.withLock({ $0.sorted { $0.key < $1.key }.flatMap { $1.isStalled ? [] : $1.tasks } }) {
      await task.value
    }
    // Nobody else holds a store now.
    _ = await holders.until { $0 == 0 }
    if weakStores.all.contains(where: { $0.store != nil }) { violate("G7 a store is alive that nobody holds") }
    ended.open()
    for task in readers.withLock({ $0.sorted { $0.key < $1.key }.flatMap(\.value.tasks) }) { await task.value }
    for store in program.stores.indices { readHistory(store) }
    if !readers.withLock({ $0.values.contains { $0.isUnread && $0.held != nil } }), features.contains(.heldMemory) {
      // Proxies and observers are still held.
      let isSettled = await states.until { $0 == keptByHistories }
      if !isSettled { violate("G7 \(states.value) states are alive while proxies are held") }
    }
  }

  /// The number of states that the histories keep.
  private var keptByHistories: Int {
    var kept: Set<ObjectIdentifier> = []
    let histories = keptHistories.withLock { $0 }
    for entry in histories.root?.entries ?? [] {
      for state in [entry.stateBefore] + entry.steps.map(\.state) {
        for token in state.ledgers.compactMap(\.token) { kept.insert(ObjectIdentifier(token)) }
      }
    }
    for history in histories.children {
      for entry in history?.entries ?? [] {
        for ledger in [entry.stateBefore] + entry.steps.map(\.state) {
          if let token = ledger.token { kept.insert(ObjectIdentifier(token)) }
        }
      }
    }
    return kept.count
  }

  /// Releases everything except the record.
  func clear() {
    let places = places.withLock { places in
      defer { places = places.map { _ in Place() } }
      return places
    }
    let readers = readers.withLock { readers in
      defer { readers = [:] }
      return readers
    }
    let watchings = watchings.withLock { watchings in
      defer { watchings = [:] }
      return watchings
    }
    let histories = keptHistories.withLock { histories in
      defer { histories = Histories(root: nil, children: []) }
      return histories
    }
    keptProxies.update { $0 = [] }
    withExtendedLifetime((places, readers, watchings, histories)) {}
  }

  var recorded: Recorded {
    var recorded = Recorded(program: program)
    recorded.commits = commits.all
    recorded.calls = calls.all
    recorded.reads = reads.all
    recorded.followed = followed.all
    recorded.observed = observed.all
    recorded.observerCalls = observerCalls.all
    recorded.closings = closings.all
    recorded.interceptions = interceptions.all
    recorded.starts = starts.all
    recorded.works = works.all
    recorded.histories = histories.all
    recorded.statistics = statistics.all
    recorded.violations = violations.all
    return recorded
  }
}

final class Counter: Sendable {
  private let count = Atomic(0)
  func increment() -> Int { count.add(1, ordering: .acquiringAndReleasing).newValue }
}

/// Detects two callers at a time.
final class Busy: Sendable {
  private let isBusy = Atomic(false)
  func enter() -> Bool { !isBusy.exchange(true, ordering: .acquiringAndReleasing) }
  func leave() { isBusy.store(false, ordering: .releasing) }
}

extension Outcome {
  init(_ error: StoreError) {
    self =
      switch error {
      case .terminated, .tooDeep, .outcomeUnknown, .withdrawn, .stopped: .terminated
      case .stateUnavailable: .stateUnavailable
      case .unmapped: .unmapped
      case .rejected(let reason): .rejected(reason?.description)
      }
  }
}

/// Actions for `send(contentsOf:)`. A request for the next one shows that the previous one is committed.
final class Contents: AsyncSequence, Sendable {
  typealias Element = Action
  typealias Failure = Never

  private struct Progress: Sendable {
    var next = 0
    var underWay: (action: Action, span: Span)?
  }

  private let actions: [Action]
  private let views: [View]
  private let run: Run
  private let progress = Guarded(Progress())

  init(actions: [Action], views: [View], run: Run) {
    self.actions = actions
    self.views = views
    self.run = run
  }

  private func record(_ outcome: Outcome) {
    let underWay = progress.withLock { progress in
      defer { progress.underWay = nil }
      return progress.underWay
    }
    guard let underWay else { return }
    run.calls.add(Call(run.bare(underWay.action), views: views, run.ended(underWay.span), outcome))
  }

  func next() -> Action? {
    record(.committed)
    let span = run.began()
    return progress.withLock { progress in
      guard progress.next < actions.count else { return nil }
      let action = actions[progress.next]
      progress.next += 1
      progress.underWay = (action, span)
      return action
    }
  }

  func finish(with error: StoreError?) {
    switch error {
    case nil:
      if progress.withLock({ $0.underWay != nil || $0.next < actions.count }) {
        run.violate("G9 send(contentsOf:) returned before all was sent")
      }
      record(.committed)
    case .terminated: record(.unknown)
    case .some(let error): record(Outcome(error))
    }
  }

  func makeAsyncIterator() -> Iterator { Iterator(contents: self) }

  struct Iterator: AsyncIteratorProtocol {
    let contents: Contents
    mutating func next() async -> Action? { contents.next() }
    mutating func next(isolation actor: isolated (any Actor)?) async -> Action? { contents.next() }
  }
}
