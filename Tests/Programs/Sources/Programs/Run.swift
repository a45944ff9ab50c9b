import Puredux
import Synchronization

/// One run of a program: its stores, the state that its tasks share, and the record.
final class Run: Sendable {
  typealias Root = RootStore<Snapshot, Action>
  typealias Child = StateStore<Snapshot, Action>
  typealias Proxy = Store<Snapshot, Action>

  struct Place: Sendable {
    var root: Root?
    var child: Child?
    var proxy: Proxy?
  }

  struct Reader: Sendable {
    var tasks: [Task<Void, Never>] = []
    var isCancelled = false
    var isUnread = false
    /// Whether its consumer waits until the tree has ended.
    var isStalled = false
    var held: (any AsyncSequence<Snapshot, Never> & Sendable)?
  }

  struct Histories: Sendable {
    var root: History<Snapshot, Action>?
    var children: [History<Ledger, Action>?]
  }

  final class Watching: Sendable {
    let observer: Observer<Snapshot>
    let subscriptions = Guarded<[(number: Int, subscription: Subscription)]>([])
    init(observer: Observer<Snapshot>) { self.observer = observer }
  }

  let program: Program
  let features: Features
  let states = LiveCount()
  let actions = LiveCount()
  let closures = LiveCount()
  /// Interceptors that may hold a store while they shut it down.
  let holders = LiveCount()

  private let stamps = Atomic(1)
  private let commitCount = Atomic(0)
  private let dispatchesLeft: Atomic<Int>
  private let nextGiven = Atomic(1_000_000)
  private let nextGeneration = Atomic(0)
  let nextSubscription = Atomic(0)

  let places: Guarded<[Place]>
  let readers = Guarded<[Int: Reader]>([:])
  let watchings = Guarded<[Int: Watching]>([:])
  let keptHistories: Guarded<Histories>
  /// Whether the whole tree was shut down at the end.
  let isEndAwaited = Atomic(false)
  let keptProxies = Record<Proxy>()
  let weakStores = Record<WeakStore>()

  let commits = Record<Action>()
  let calls = Record<Call>()
  let reads = Record<StateRead>()
  let followed = Record<Followed>()
  let observed = Record<Observed>()
  let observerCalls = Record<ObserverCall>()
  let closings = Record<Closing>()
  let interceptions = Record<Interception>()
  let starts = Record<Start>()
  let works = Record<Work>()
  let histories = Record<HistoryRead>()
  let statistics = Record<StatisticsRead>()
  let violations = Record<String>()

  let quiet = Gate()
  let ended = Gate()

  init(_ program: Program, features: Features) {
    self.program = program
    self.features = features
    dispatchesLeft = Atomic(program.dispatches)
    places = Guarded(Array(repeating: Place(), count: program.stores.count))
    keptHistories = Guarded(
      Histories(
        root: program.stores[0].history.map { History(limit: $0) },
        children: program.stores.map { store in store.parent < 0 ? nil : store.history.map { History(limit: $0) } }))
  }

  // MARK: Recording

  func stamp() -> Int { stamps.add(1, ordering: .acquiringAndReleasing).oldValue }

  var seen: Int { commitCount.load(ordering: .acquiring) }

  func began() -> Span {
    let seen = seen
    return Span(stamp(), 0, seen: seen)
  }

  func ended(_ span: Span) -> Span {
    var span = span
    span.end = stamp()
    return span
  }

  func violate(_ text: String) { violations.add(text) }

  func tie() -> Token { Token(closures) }

  func action(_ given: Int, _ store: Int, _ spec: ActionSpec) -> Action {
    var action = Action(given: given, store: store, spec: spec)
    action.token = Token(actions)
    return action
  }

  private func further(of cause: Action?, to store: Int) -> Action {
    let given = nextGiven.add(1, ordering: .relaxed).oldValue
    let change: Change = given % 3 == 0 ? .optional(given % 5) : .number(given % 5)
    return action(given, store, ActionSpec(change, rule: cause?.rule ?? given % 8))
  }

  func dispatchFurther(of cause: Action?, to store: Int, _ dispatch: (Action) -> DispatchResult) {
    let action = further(of: cause, to: store)
    let span = began()
    let outcome: Outcome =
      switch dispatch(action) {
      case .enqueued: .enqueued
      case .terminated, .tooDeep, .overloaded, .stopped: .terminated
      case .unmapped: .unmapped
      }
    calls.add(Call(bare(action), ended(span), outcome))
  }

  /// Dispatches from a mapping, a filter or an observer, within the budget.
  func dispatchPerhaps(to store: Int) {
    guard dispatchesLeft.subtract(1, ordering: .relaxed).newValue >= 0, let proxy = proxy(of: store) else { return }
    dispatchFurther(of: nil, to: store) { proxy.dispatch($0) }
  }

  func proxy(of store: Int) -> Proxy? { places.withLock { $0[store].proxy } }

  /// A copy without the counted token.
  func bare(_ action: Action) -> Action {
    var bare = action
    bare.token = nil
    return bare
  }

  func bare(_ state: Snapshot) -> Snapshot {
    var bare = state
    for index in bare.ledgers.indices { bare.ledgers[index].token = nil }
    return bare
  }

  func bare(_ ledger: Ledger) -> Ledger {
    var bare = ledger
    bare.token = nil
    return bare
  }

  // MARK: Stores

  private func freshLedger(_ store: Int) -> Ledger {
    var ledger = Ledger(store: store)
    ledger.token = Token(states)
    return ledger
  }

  /// Called on the tree's executor, by the root's first reducer.
  private func committed(_ action: Action) {
    commits.add(bare(action))
    commitCount.add(1, ordering: .acquiringAndReleasing)
    if action.echoes.contains(.reducer), let proxy = proxy(of: action.store) {
      dispatchFurther(of: action, to: action.store) { proxy.dispatch($0) }
    }
  }

  func makeRoot() {
    let spec = program.stores[0]
    let executor: StoreExecutor
    switch program.executor {
    case .own: executor = .own
    case .main: executor = .mainActor
    case .shuffling(let seed):
      ShufflingExecutor.shared.seed(seed)
      executor = .serial(ShufflingExecutor.shared)
    }
    let reducers: [Reducer<Snapshot, Action>]
    if spec.isSplit {
      reducers = [
        Reducer("enter") { [self, tie = tie()] state, action in
          tie.use()
          committed(action)
          state.at += 1
          state.ledgers[0].enter(action)
        },
        Reducer("change") { [self] state, action in
          state.ledgers[0].change(by: action)
          state.fillSlots(by: action)
          state.ledgers[0].token = Token(states)
        },
      ]
    } else {
      reducers = [
        Reducer { [self, tie = tie()] state, action in
          tie.use()
          committed(action)
          state.at += 1
          state.ledgers[0].reduce(action)
          state.fillSlots(by: action)
          state.ledgers[0].token = Token(states)
        }
      ]
    }
    let interceptor = program.interceptor.map { spec in
      let span = began()
      let generation = nextGeneration.add(1, ordering: .relaxed).oldValue
      interceptions.add(Interception(generation: generation, spec: spec, span: ended(span)))
      return self.interceptor(spec, generation: generation)
    }
    let root = Root(
      initialState: Snapshot(ledgers: [freshLedger(0)]), reducers: reducers, options: StoreOptions(executor: executor),
      middleware: spec.middleware.map { middleware($0, of: 0) }, emits: emission(spec.emits),
      history: keptHistories.withLock { $0.root })
    if let interceptor { root.interceptActions(with: interceptor) }
    weakStores.add(WeakStore(root))
    places.withLock {
      $0[0].root = root
      $0[0].proxy = root.store()
    }
  }

  func make(_ store: Int) {
    let spec = program.stores[store]
    guard proxy(of: store) == nil else { return }
    let parent = places.withLock { $0[spec.parent] }
    let child: Child
    if let root = parent.root {
      child = spec.isOfPart ? make(store, spec, of: part(of: root)) : make(store, spec, of: root)
    } else if let parent = parent.child {
      child = spec.isOfPart ? make(store, spec, of: part(of: parent)) : make(store, spec, of: parent)
    } else {
      return
    }
    weakStores.add(WeakStore(child))
    places.withLock {
      $0[store].child = child
      $0[store].proxy = child.store()
    }
  }

  private func part(of store: some StoreParent<Snapshot, Action>) -> StoreAnchor<Snapshot, Action> {
    store.part { [tie = tie()] in
      tie.use()
      return $0.part
    }
  }

  private func make(_ store: Int, _ spec: StoreSpec, of parent: some StoreParent<Snapshot, Action>) -> Child {
    let reducers: [Reducer<Ledger, Action>]
    if spec.isSplit {
      reducers = [
        Reducer("enter") { [tie = tie()] ledger, action in
          tie.use()
          ledger.enter(action)
        },
        Reducer("change") { [states] ledger, action in
          ledger.change(by: action)
          ledger.token = Token(states)
        },
      ]
    } else {
      reducers = [
        Reducer { [states, tie = tie()] ledger, action in
          tie.use()
          ledger.reduce(action)
          ledger.token = Token(states)
        }
      ]
    }
    return parent.childStore(
      initialState: freshLedger(store), reducers: reducers,
      stateMapping: { [tie = tie()] in
        tie.use()
        return $0.with($1)
      },
      middleware: spec.middleware.map { middleware($0, of: store) }, emits: emission(spec.emits),
      history: keptHistories.withLock { $0.children[store] })
  }

  private func emission(_ emits: Emits) -> Emission<Snapshot> {
    switch emits {
    case .always: .always
    case .whenDifferent: .whenDifferent
    case .whenNumberDiffers: .whenDifferent { $0.number }
    case .whenEven:
      .when { [tie = tie()] before, after in
        tie.use()
        return emits.publishes(before, after)
      }
    }
  }

  private func middleware(_ rule: MiddlewareRule, of store: Int) -> Middleware<Snapshot, Action> {
    switch rule {
    case .logging:
      return .logging { [self] log in
        check(log.after, of: store, in: "logging")
        if log.isCommitted == (log.before.at == log.after.at) {
          violate("G2 logging: \(log.before) -> \(log.after) where committed is \(log.isCommitted)")
        }
      }
    case .timing: return .timing { _, _ in }
    case .guarding:
      return .guarding { [self] action, state in
        check(state, of: store, in: "guarding")
        return rule(action).reason
      }
    default:
      return Middleware { [self, tie = tie()] action, context, next in
        tie.use()
        check(context.state, of: store, in: "middleware")
        if case .dispatching(let number) = rule, action.rule == number || action.echoes.contains(.middleware),
          action.given < 1_000_000
        {
          dispatchFurther(of: action, to: action.store) { context.dispatch($0) }
        }
        let (passed, reason) = rule(action)
        if let reason { context.reject(reason) }
        for action in passed { next(action) }
        check(context.state, of: store, in: "middleware after next")
      }
    }
  }

  /// On the tree's executor, the state is the one after all commits so far.
  private func check(_ state: Snapshot, of store: Int, in place: String) {
    if state.at != seen || state.ledgers.last?.store != store {
      violate("G3 \(place) of \(store) sees \(state) after \(seen) commits")
    }
  }

  func interceptor(_ spec: InterceptorSpec, generation: Int) -> Interceptor<Snapshot, Action> {
    let meant: @Sendable (Action) -> Bool = { [self, tie = tie()] action in
      tie.use()
      starts.add(Start(generation: generation, given: action.given, copy: action.copy))
      return action.rule % spec.divisor == 0
    }
    let run: @Sendable (Action, Dispatch<Action>) async -> Void = { [self] action, dispatch in
      let begin = stamp()
      for _ in 0..<spec.yields { await Task.yield() }
      if action.echoes.contains(.interceptor) {
        dispatchFurther(of: action, to: action.store) { dispatch($0) }
      }
      if action.echoes.contains(.shutdown) {
        holders.add()
        await shutDown(from: action)
        holders.subtract()
      }
      works.add(
        Work(store: action.store, given: action.given, copy: action.copy, begin: begin, end: stamp()))
    }
    if spec.isMatching { return Interceptor(matching: { meant($0) ? $0 : nil }, run) }
    return Interceptor(combining: [Interceptor(where: meant, run), Interceptor(where: { _ in false }, run)])
  }

  /// Shuts down a store from an interceptor, and no longer holds it on return.
  @inline(never)
  private func shutDown(from action: Action) async {
    let store = features.contains(.nestedShutdowns) ? action.given % program.stores.count : 0
    let place = places.withLock { $0[store] }
    let span = began()
    if let root = place.root {
      await root.shutdown()
    } else if let child = place.child {
      await child.shutdown()
    } else {
      return
    }
    closings.add(Closing(store: store, isShutdown: true, isByInterceptor: true, span: ended(span)))
  }

  func setInterceptor(_ spec: InterceptorSpec) {
    guard let root = places.withLock({ $0[0].root }) else { return }
    let generation = nextGeneration.add(1, ordering: .relaxed).oldValue
    let span = began()
    root.interceptActions(with: interceptor(spec, generation: generation))
    interceptions.add(Interception(generation: generation, spec: spec, span: ended(span)))
  }

  // MARK: Reaching stores

  func target(_ via: Via) -> (any StoreType<Snapshot, Action>)? {
    let place = places.withLock { $0[via.store] }
    if via.isDirect {
      if let root = place.root { return root }
      if let child = place.child { return child }
    }
    guard var proxy = place.proxy else { return nil }
    for view in via.views { proxy = view.of(proxy, store: via.store, in: self) }
    if features.contains(.heldProxies), !via.views.isEmpty { keptProxies.add(proxy) }
    return proxy
  }
}

struct WeakStore: Sendable {
  weak var store: (any Actor)?
  init(_ store: any Actor) { self.store = store }
}

extension View {
  private static let theSelector = StateSelector<Snapshot, Snapshot>("marked") { $0.marked(12) }
  private static let theMemoizing = StateSelector<Snapshot, Snapshot>("number", of: \.number) { memoized(number: $0) }

  func of(_ proxy: Run.Proxy, store: Int, in run: Run) -> Run.Proxy {
    let tie = run.tie()
    switch self {
    case .identity, .last, .numbers, .marked:
      return proxy.scope { [self, tie] in
        tie.use()
        return self($0) ?? $0
      }
    case .optional:
      return proxy.scope(toOptional: { [self, tie] in
        tie.use()
        return self($0)
      })
    case .keyed(let key):
      return proxy.scope(to: \.slots, at: key).scope { [tie] in
        tie.use()
        return Self.slot($0)
      }
    case .keyPath: return proxy.scope(to: \.lastOnly)
    case .selector: return proxy.scope(selecting: Self.theSelector)
    case .memoizing: return proxy.scope(selecting: Self.theMemoizing)
    case .projection:
      return proxy.projection { [self, tie] in
        tie.use()
        return mapped($0)
      } state: { [self] in
        self($0) ?? $0
      }
    case .dispatching:
      return proxy.scope { [self, run, tie] in
        tie.use()
        run.dispatchPerhaps(to: store)
        return self($0) ?? $0
      }
    }
  }
}

extension Filter {
  func equating(dispatching: Bool, to store: Int, in run: Run) -> Equating<Snapshot> {
    let act: @Sendable () -> Void = { [tie = run.tie(), run] in
      tie.use()
      if dispatching { run.dispatchPerhaps(to: store) }
    }
    switch self {
    case .none: return .neverEqual
    case .whole: return .equal
    case .always: return .alwaysEqual
    case .number:
      return .equal {
        act()
        return $0.number
      }
    case .halves:
      return Equating { [self] in
        act()
        return areEqual($0, $1)
      }
    case .both:
      return .equal {
        act()
        return $0.number
      } && .equal { $0.optional }
    }
  }
}

extension Buffering {
  var policy: AsyncStream<Snapshot>.Continuation.BufferingPolicy {
    switch self {
    case .unbounded: .unbounded
    case .newest(let limit): .bufferingNewest(limit)
    case .oldest(let limit): .bufferingOldest(limit)
    }
  }
}
