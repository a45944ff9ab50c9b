public import Metrics
public import Puredux
public import ServiceLifecycle
import Synchronization

/// Metrics of stores for swift-metrics. Names and units follow the conventions of OpenTelemetry.
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
/// | `puredux.effect.duration` | s | `store`, `outcome` | timer |
/// | `puredux.effect.retries`, `puredux.effects.turned_away` | | `store` | counters |
/// | `puredux.log.append.duration`, `puredux.log.append.failures` | s | `store` | timer, counter |
/// | `puredux.log.append.size` | By | `store` | counter |
/// | `puredux.log.replay.duration`, `puredux.log.snapshot.duration` | s | `store` | timers |
/// | `puredux.log.snapshot.failures` | | `store` | counter |
/// | `puredux.directory.open.duration`, `puredux.directory.failures` | s | `directory` | timer, counter |
/// | `puredux.stores` | | `store` | gauge, as all below: read by `sample()` |
/// | `puredux.stores.silent` | | `store` | stores whose trees have not answered within the interval |
/// | `puredux.effects.active` | | `store` | effects that run |
/// | `puredux.requests.waiting`, `puredux.subscriptions`, `puredux.tasks` | | `store` | sums |
/// | `puredux.backlog.longest` | | `store` | the largest |
/// | `puredux.log.behind`, `puredux.log.pending` | | `store` | the largest, the sum |
/// | `puredux.log.waiting`, `puredux.log.stopped` | | `store` | stores whose log takes nothing; that have stopped |
///
/// Dimensions must have few values, so `store` is not the name of a store but its group. By default the group is the
/// name up to the first slash: `rooms/17` counts for `rooms`.
///
/// A commit costs some 2 µs, nearly all of it for the name of its action. Without names (`namesActions`) it costs some
/// 150 ns. An effect costs some 2 µs, of which any instrument costs 1.5 µs. The cost of the factory's metrics is extra.
public final class StoreMetrics: StoreInstrument, Service {
  public let timesCommits: Bool
  private let namesActions: Bool
  private let factory: (any MetricsFactory)?
  private let group: @Sendable (InstrumentedStore) -> String
  private let interval: Duration
  private let groups = Made<String, Group>()
  private let directories = Made<String, Group>()
  /// The open stores, sharded to reduce lock contention between stores.
  private let parts = (0..<64).map { _ in Made<InstrumentedStore, Watched>() }

  /// - Parameters:
  ///   - factory: The default is the process's factory.
  ///   - timesCommits: Whether commits are timed, which costs some 700 ns each.
  ///   - namesActions: Whether commits and rejections have the dimension `action`. The name is found by reflection.
  ///   - interval: The interval of `run()`, and the time limit for a tree's answer.
  ///   - group: Returns the dimension `store` of a store. Called when the store is made.
  public init(
    factory: (any MetricsFactory)? = nil, timesCommits: Bool = false, namesActions: Bool = true,
    every interval: Duration = .seconds(10),
    group: @escaping @Sendable (InstrumentedStore) -> String = { String($0.name.prefix { $0 != "/" }) }
  ) {
    self.factory = factory
    self.timesCommits = timesCommits
    self.namesActions = namesActions
    self.interval = interval
    self.group = group
  }

  /// Values that are created on first use.
  private final class Made<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private let values = Mutex<[Key: Value]>([:])

    var all: [Key: Value] { values.withLock { $0 } }

    subscript(key: Key) -> Value? { values.withLock { $0[key] } }

    func value(of key: Key, _ make: () -> Value) -> Value {
      values.withLock { values in
        if let value = values[key] { return value }
        let made = make()
        values[key] = made
        return made
      }
    }

    func remove(_ key: Key) { _ = values.withLock { $0.removeValue(forKey: key) } }
  }

  private final class Group: Sendable {
    let dimension: (String, String)
    let chosen: (any MetricsFactory)?
    let active = Atomic(0)
    private let counters = Made<Label, Counter>()
    private let timers = Made<Label, Timer>()
    private let gauges = Made<Label, Gauge>()

    private struct Label: Hashable { let name: String, more: String? }

    init(_ dimension: (String, String), _ factory: (any MetricsFactory)?) {
      self.dimension = dimension
      chosen = factory
    }

    private var factory: any MetricsFactory { chosen ?? MetricsSystem.factory }

    func counter(_ name: String, _ more: (String, String)? = nil) -> Counter {
      counters.value(of: Label(name: name, more: more?.1)) {
        Counter(label: name, dimensions: [dimension] + (more.map { [$0] } ?? []), factory: factory)
      }
    }

    func timer(_ name: String, _ more: (String, String)? = nil) -> Timer {
      timers.value(of: Label(name: name, more: more?.1)) {
        Timer(
          label: name, dimensions: [dimension] + (more.map { [$0] } ?? []), preferredDisplayUnit: .seconds,
          factory: factory)
      }
    }

    func gauge(_ name: String) -> Gauge {
      gauges.value(of: Label(name: name, more: nil)) { Gauge(label: name, dimensions: [dimension], factory: factory) }
    }
  }

  /// An open store, with the counters of its actions.
  private final class Watched: Sendable {
    let group: Group
    let commits = Made<String?, Counter>()
    private let reading = Mutex(Reading())

    private struct Reading {
      var statistics: StoreStatistics?
      /// Whether a request to the tree is unanswered.
      var isAsked = false
      /// Whether the tree missed the time limit of a sample.
      var isSilent = false
      /// The samples that wait for the answer.
      var waiting: [ObjectIdentifier: Sample] = [:]
    }

    init(_ group: Group) { self.group = group }

    /// The last answer.
    var statistics: StoreStatistics? { reading.withLock { $0.statistics } }
    var isSilent: Bool { reading.withLock { $0.isSilent } }

    /// Makes a sample wait for the tree's answer, unless the tree is silent. A tree with an unanswered request gets no
    /// second one.
    func ask(for sample: Sample) -> (isNew: Bool, isAwaited: Bool) {
      reading.withLock { reading in
        defer { reading.isAsked = true }
        if !reading.isSilent { reading.waiting[ObjectIdentifier(sample)] = sample }
        return (!reading.isAsked, !reading.isSilent)
      }
    }

    func answer(_ statistics: StoreStatistics?) {
      let waiting = reading.withLock { reading in
        defer { reading = Reading(statistics: statistics) }
        return reading.waiting.values
      }
      for sample in waiting { sample.answered.yield() }
    }

    /// Called when a sample stops waiting.
    ///
    /// - Parameter isOverdue: Whether the sample has waited for the whole interval.
    func leave(_ sample: Sample, isOverdue: Bool) {
      reading.withLock { reading in
        if reading.waiting.removeValue(forKey: ObjectIdentifier(sample)) != nil, isOverdue { reading.isSilent = true }
      }
    }
  }

  /// One call of `sample()`.
  private final class Sample: Sendable {
    let (answers, answered) = AsyncStream.makeStream(of: Void.self)
  }

  private func part(of store: InstrumentedStore) -> Made<InstrumentedStore, Watched> {
    parts[store.number % parts.count]
  }

  private func watched(_ store: InstrumentedStore) -> Watched {
    // Events may arrive after the end of a store.
    part(of: store)[store] ?? Watched(metrics(of: group(store)))
  }

  private func metrics(of name: String) -> Group { groups.value(of: name) { Group(("store", name), factory) } }

  // MARK: Events

  public func opened(_ store: InstrumentedStore) {
    _ = part(of: store).value(of: store) { Watched(metrics(of: group(store))) }
  }

  public func closed(_ store: InstrumentedStore) { part(of: store).remove(store) }

  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    if commit.isReplay { return }
    let watched = watched(store)
    let named = dimension(action)
    let counter = watched.commits.value(of: named?.1) { watched.group.counter("puredux.commits", named) }
    counter.increment(by: commit.count)
    if let waited = commit.waited { watched.group.timer("puredux.commit.wait.duration").record(duration: waited) }
    if let reduced = commit.reduced { watched.group.timer("puredux.commit.duration").record(duration: reduced) }
  }

  public func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    if commit.isReplay { return }
    watched(store).group.counter("puredux.rejections", dimension(action)).increment()
  }

  private func dimension<Action>(_ action: Action) -> (String, String)? {
    namesActions ? ("action", Self.name(of: action)) : nil
  }

  public func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    let metrics = watched(store).group
    switch event.kind {
    // Effects begin and end on several threads at once. If each recorded the gauge, an older value could overwrite a
    // newer one, so `sample()` records it.
    case .began: metrics.active.add(1, ordering: .relaxed)
    case .retried: metrics.counter("puredux.effect.retries").increment()
    case .turnedAway: metrics.counter("puredux.effects.turned_away").increment()
    case .ended(let outcome, let taken):
      metrics.active.subtract(1, ordering: .relaxed)
      metrics.timer("puredux.effect.duration", ("outcome", outcome.name)).record(duration: taken)
    }
  }

  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) {
    let metrics = watched(store).group
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
    let metrics = directories.value(of: event.directory) { Group(("directory", event.directory), factory) }
    switch event.kind {
    case .opening, .closed: break
    case .opened(let taken): metrics.timer("puredux.directory.open.duration").record(duration: taken)
    case .failed(_, let taken):
      metrics.timer("puredux.directory.open.duration").record(duration: taken)
      metrics.counter("puredux.directory.failures").increment()
    }
  }

  // MARK: Samples

  /// Samples all open stores and records the gauges. It reads all trees concurrently, with a task for each, so sample
  /// rarely if there are many trees. It waits at most for the interval of `run()`. A tree that has not answered by then
  /// counts as silent, and its last answer is used. Overlapping calls share the answers of trees. A cancelled call
  /// stops waiting and counts no store as silent.
  public func sample() async {
    await read(parts.flatMap(\.all))
    let open = Dictionary(grouping: parts.flatMap(\.all)) { $0.value.group.dimension.1 }
    // Groups without open stores are recorded as zero, so that old values disappear.
    for (name, metrics) in groups.all {
      let stores = open[name]?.map(\.value) ?? []
      var sum = StoreStatistics()
      var behind: UInt64 = 0
      var (pending, waiting, stopped) = (0, 0, 0)
      for store in stores {
        guard let statistics = store.statistics else { continue }
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
      metrics.gauge("puredux.effects.active").record(metrics.active.load(ordering: .relaxed))
      metrics.gauge("puredux.stores").record(stores.count)
      metrics.gauge("puredux.stores.silent").record(stores.count(where: \.isSilent))
      metrics.gauge("puredux.requests.waiting").record(sum.waiting)
      metrics.gauge("puredux.subscriptions").record(sum.subscriptions)
      metrics.gauge("puredux.tasks").record(sum.runningTasks)
      metrics.gauge("puredux.backlog.longest").record(sum.longestBacklog)
      metrics.gauge("puredux.log.behind").record(Double(behind))
      metrics.gauge("puredux.log.pending").record(pending)
      metrics.gauge("puredux.log.waiting").record(waiting)
      metrics.gauge("puredux.log.stopped").record(stopped)
    }
  }

  /// Requests the statistics of the stores. Returns when all trees have answered, or after the interval.
  private func read(_ stores: [(key: InstrumentedStore, value: Watched)]) async {
    let sample = Sample()
    var left = 0
    for (store, watched) in stores {
      let (isNew, isAwaited) = watched.ask(for: sample)
      if isAwaited { left += 1 }
      if isNew { Task { watched.answer(await store.statistics) } }
    }
    let isOverdue = await withTaskGroup { [left, interval] tasks in
      tasks.addTask {
        for await _ in sample.answers.prefix(left) {}
        return false
      }
      tasks.addTask { (try? await Task.sleep(for: interval)) != nil }
      defer { tasks.cancelAll() }
      return await tasks.next() == true
    }
    for (_, watched) in stores { watched.leave(sample, isOverdue: isOverdue) }
  }

  /// Samples repeatedly until graceful shutdown.
  public func run() async throws {
    try? await cancelWhenGracefulShutdown {
      while !Task.isCancelled {
        await self.sample()
        try await Task.sleep(for: self.interval)
      }
    }
  }
}

extension EffectEvent.Outcome {
  fileprivate var name: String {
    switch self {
    case .finished: "finished"
    case .caught: "caught"
    case .failed: "failed"
    case .timedOut: "timedOut"
    case .cancelled: "cancelled"
    }
  }
}
