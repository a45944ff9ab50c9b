public import Metrics
public import Puredux
public import ServiceLifecycle
import Synchronization

/// Figures of stores for swift-metrics, by OpenTelemetry's conventions for names and units.
///
///     let metrics = StoreMetrics()
///     let rooms = StoreDirectory<Int, Room, RoomAction>(name: "rooms", instrument: metrics) { id in
///       let options = StoreOptions(name: "rooms/\(id)", instrument: metrics)
///       return RootStore(initialState: Room(), options: options, reducer: reduce)
///     }
///     try await ServiceGroup(services: [server, metrics], logger: logger).run()
///
/// | metric | unit | dimensions | |
/// |---|---|---|---|
/// | `puredux.commits` | | `store`, `action` | counter |
/// | `puredux.rejections` | | `store`, `action` | counter |
/// | `puredux.commit.wait.duration`, `puredux.commit.duration` | s | `store` | timers, if commits are timed |
/// | `puredux.effects.active` | | `store` | gauge: effects that run |
/// | `puredux.effect.duration` | s | `store`, `outcome` | timer |
/// | `puredux.effect.retries`, `puredux.effects.turned_away` | | `store` | counters |
/// | `puredux.log.append.duration`, `puredux.log.append.failures` | s | `store` | timer, counter |
/// | `puredux.log.append.size` | By | `store` | counter |
/// | `puredux.log.replay.duration`, `puredux.log.snapshot.duration` | s | `store` | timers |
/// | `puredux.log.snapshot.failures` | | `store` | counter |
/// | `puredux.directory.open.duration`, `puredux.directory.failures` | s | `directory` | timer, counter |
/// | `puredux.stores` | | `store` | gauge, as all below: read by `sample()` |
/// | `puredux.requests.waiting`, `puredux.subscriptions`, `puredux.tasks` | | `store` | sums |
/// | `puredux.backlog.longest` | | `store` | the largest |
/// | `puredux.log.behind`, `puredux.log.pending` | | `store` | the largest, the sum |
/// | `puredux.log.waiting`, `puredux.log.stopped` | | `store` | stores whose log takes nothing; that have stopped |
///
/// A metric's dimensions have to be few: `store` is not a store's name but its group, by default what comes before the
/// first slash, so that `rooms/17` counts for `rooms`.
public final class StoreMetrics: StoreInstrument, Service {
  public let timesCommits: Bool
  private let factory: (any MetricsFactory)?
  private let group: @Sendable (InstrumentedStore) -> String
  private let interval: Duration
  private let groups = Mutex<[String: Group]>([:])
  private let stores = Mutex<[InstrumentedStore: String]>([:])

  /// - Parameters:
  ///   - factory: By default the one that the process has been given.
  ///   - timesCommits: Whether commits are timed, which costs some 700 ns each.
  ///   - interval: How often `run()` reads the figures that nobody tells.
  ///   - group: The dimension `store` of a store.
  public init(
    factory: (any MetricsFactory)? = nil, timesCommits: Bool = false, every interval: Duration = .seconds(10),
    group: @escaping @Sendable (InstrumentedStore) -> String = { String($0.name.prefix { $0 != "/" }) }
  ) {
    self.factory = factory
    self.timesCommits = timesCommits
    self.interval = interval
    self.group = group
  }

  /// The metrics of one group, each made when it is first needed.
  private final class Group: Sendable {
    let dimensions: [(String, String)]
    let factory: (any MetricsFactory)?
    let active = Atomic(0)
    private let counters = Mutex<[String: Counter]>([:])
    private let timers = Mutex<[String: Timer]>([:])
    private let gauges = Mutex<[String: Gauge]>([:])

    init(_ dimension: String, _ name: String, _ factory: (any MetricsFactory)?) {
      dimensions = [(dimension, name)]
      self.factory = factory
    }

    func counter(_ label: String, _ more: (String, String)? = nil) -> Counter {
      counters.withLock { counters in
        let key = more.map { "\(label) \($0.1)" } ?? label
        if let counter = counters[key] { return counter }
        let made = Counter(
          label: label, dimensions: dimensions + (more.map { [$0] } ?? []), factory: factory ?? MetricsSystem.factory)
        counters[key] = made
        return made
      }
    }

    func timer(_ label: String, _ more: (String, String)? = nil) -> Timer {
      timers.withLock { timers in
        let key = more.map { "\(label) \($0.1)" } ?? label
        if let timer = timers[key] { return timer }
        let made = Timer(
          label: label, dimensions: dimensions + (more.map { [$0] } ?? []), preferredDisplayUnit: .seconds,
          factory: factory ?? MetricsSystem.factory)
        timers[key] = made
        return made
      }
    }

    func gauge(_ label: String) -> Gauge {
      gauges.withLock { gauges in
        if let gauge = gauges[label] { return gauge }
        let made = Gauge(label: label, dimensions: dimensions, factory: factory ?? MetricsSystem.factory)
        gauges[label] = made
        return made
      }
    }
  }

  private func metrics(of name: String, _ dimension: String = "store") -> Group {
    groups.withLock { groups in
      if let group = groups["\(dimension) \(name)"] { return group }
      let made = Group(dimension, name, factory)
      groups["\(dimension) \(name)"] = made
      return made
    }
  }

  private func metrics(of store: InstrumentedStore) -> Group { metrics(of: group(store)) }

  // MARK: Told

  public func opened(_ store: InstrumentedStore) {
    let group = group(store)
    stores.withLock { $0[store] = group }
  }

  public func closed(_ store: InstrumentedStore) {
    _ = stores.withLock { $0.removeValue(forKey: store) }
  }

  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    if commit.isReplay { return }
    let metrics = metrics(of: store)
    metrics.counter("puredux.commits", ("action", Self.name(of: action))).increment(by: commit.count)
    if let waited = commit.waited { metrics.timer("puredux.commit.wait.duration").record(duration: waited) }
    if let reduced = commit.reduced { metrics.timer("puredux.commit.duration").record(duration: reduced) }
  }

  public func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    if commit.isReplay { return }
    metrics(of: store).counter("puredux.rejections", ("action", Self.name(of: action))).increment()
  }

  public func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    let metrics = metrics(of: store)
    switch event.kind {
    case .began:
      metrics.gauge("puredux.effects.active").record(metrics.active.wrappingAdd(1, ordering: .relaxed).newValue)
    case .retried: metrics.counter("puredux.effect.retries").increment()
    case .turnedAway: metrics.counter("puredux.effects.turned_away").increment()
    case .ended(let outcome, let taken):
      metrics.gauge("puredux.effects.active").record(metrics.active.wrappingAdd(-1, ordering: .relaxed).newValue)
      metrics.timer("puredux.effect.duration", ("outcome", Self.name(of: outcome))).record(duration: taken)
    }
  }

  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) {
    let metrics = metrics(of: store)
    switch event {
    case .entered: break
    case .replayed(_, let taken): metrics.timer("puredux.log.replay.duration").record(duration: taken)
    case .appended(_, let bytes, let taken, let error):
      metrics.timer("puredux.log.append.duration").record(duration: taken)
      if error != nil {
        metrics.counter("puredux.log.append.failures").increment()
      } else {
        metrics.counter("puredux.log.append.size").increment(by: bytes)
      }
    case .savedSnapshot(_, _, let taken, let error):
      metrics.timer("puredux.log.snapshot.duration").record(duration: taken)
      if error != nil { metrics.counter("puredux.log.snapshot.failures").increment() }
    }
  }

  public func directory(_ event: DirectoryEvent) {
    let metrics = metrics(of: event.directory, "directory")
    switch event.kind {
    case .opening, .closed: break
    case .opened(let taken): metrics.timer("puredux.directory.open.duration").record(duration: taken)
    case .failed(_, let taken):
      metrics.timer("puredux.directory.open.duration").record(duration: taken)
      metrics.counter("puredux.directory.failures").increment()
    }
  }

  // MARK: Read

  /// Reads the figures of all open stores, and records them. It visits each tree, one after the other: with many, read
  /// them seldom.
  public func sample() async {
    let open = stores.withLock { $0 }
    var groups = Dictionary(grouping: open.keys) { open[$0] ?? "" }
    // A group whose last store has ended shows nothing, rather than what it showed last.
    for known in known where groups[known] == nil { groups[known] = [] }
    for (name, stores) in groups {
      var sum = StoreStatistics()
      var behind: UInt64 = 0
      var (pending, waiting, stopped) = (0, 0, 0)
      for store in stores {
        guard let statistics = await store.statistics else { continue }
        sum.waiting += statistics.waiting
        sum.subscriptions += statistics.subscriptions
        sum.runningTasks += statistics.runningTasks
        sum.longestBacklog = max(sum.longestBacklog, statistics.longestBacklog)
        guard let log = statistics.log else { continue }
        behind = max(behind, log.behind)
        pending += log.pendingActions
        switch log.phase {
        case .waiting: waiting += 1
        case .stopped: stopped += 1
        case .recovering, .following, .ended: break
        }
      }
      let metrics = metrics(of: name)
      metrics.gauge("puredux.stores").record(stores.count)
      metrics.gauge("puredux.requests.waiting").record(sum.waiting)
      metrics.gauge("puredux.subscriptions").record(sum.subscriptions)
      metrics.gauge("puredux.tasks").record(sum.runningTasks)
      metrics.gauge("puredux.backlog.longest").record(sum.longestBacklog)
      metrics.gauge("puredux.log.behind").record(Double(behind))
      metrics.gauge("puredux.log.pending").record(pending)
      metrics.gauge("puredux.log.waiting").record(waiting)
      metrics.gauge("puredux.log.stopped").record(stopped)
    }
    sampled.withLock { $0.formUnion(groups.keys) }
  }

  private let sampled = Mutex<Set<String>>([])
  private var known: Set<String> { sampled.withLock { $0 } }

  /// Reads the figures again and again, until the process is asked to terminate.
  public func run() async throws {
    try? await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        await self.sample()
        try await Task.sleep(for: self.interval)
      }
    }
  }
}
