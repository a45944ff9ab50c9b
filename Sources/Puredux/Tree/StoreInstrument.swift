import Synchronization

/// Watches stores at work, for metrics, traces and logs: given to a store, a factory, a directory or a store that
/// follows a log (`StoreOptions.instrument`, `StoreDirectory.init`). Every requirement has a default that does nothing.
///
///     final class Commits: StoreInstrument {
///       let counter = Atomic(0)
///       func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
///         counter.add(commit.count, ordering: .relaxed)
///       }
///     }
///
/// It is told, and decides nothing. A store without an instrument costs nothing more for there being instruments; one
/// with an instrument costs the calls: some 15 ns a commit, and 1.5 µs an effect, which is told of twice and timed.
/// What is called on the tree's executor holds up the tree while it runs, and has to be short; it may dispatch (G10).
/// Numbers that are only worth a look now and then, such as backlogs and followers, are not told, but read:
/// `InstrumentedStore.statistics`.
public protocol StoreInstrument: Sendable {
  /// Whether commits are timed (`CommitEvent.waited`, `.reduced`). Then each costs some 700 ns more, as the time of its
  /// dispatch is carried along. Asked once for each store. False by default.
  var timesCommits: Bool { get }

  /// A store has been made. Where it follows a log, its log has not been replayed yet.
  func opened(_ store: InstrumentedStore)

  /// The store has ended, after its last commit. What is cancelled by that, and what is on its way to the log, may be
  /// told of afterwards.
  func closed(_ store: InstrumentedStore)

  /// An action has been committed: on the tree's executor, in commit order, after its states have been published and
  /// its effects have been started. The action is the one that was given to the store; `name(of:)` tells its name.
  /// What is replayed is told as well, and says so (`CommitEvent.isReplay`), here and in `rejected`.
  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore)

  /// Middleware has stopped an action, or it cannot be given to the log: on the tree's executor. There is no commit,
  /// and the position is that of the one before. What the log itself refuses is only counted
  /// (`LogStatistics.rejected`).
  func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore)

  /// An effect has begun, is tried again, has ended, or was not begun: in its task, and, but for its beginning, within
  /// `run`; or, where it is not begun, on the tree's executor. Observers are no effects.
  func effect(_ event: EffectEvent, in store: InstrumentedStore)

  /// Runs the work of an effect, all attempts of it: a place to set task-local values for it, such as a span's. It has
  /// to call `work` once, and return when that has returned. The event says that the effect has begun; how it has ended
  /// is told before `work` returns.
  func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async

  /// Something has happened between a store and the log that it follows: from any thread.
  func log(_ event: StoreLogEvent, in store: InstrumentedStore)

  /// Something has happened to a store of a directory: on the directory's executor.
  func directory(_ event: DirectoryEvent)
}

extension StoreInstrument {
  public var timesCommits: Bool { false }
  public func opened(_ store: InstrumentedStore) {}
  public func closed(_ store: InstrumentedStore) {}
  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {}
  public func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {}
  public func effect(_ event: EffectEvent, in store: InstrumentedStore) {}
  public func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async {
    await work()
  }
  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) {}
  public func directory(_ event: DirectoryEvent) {}

  /// The name of an action without what it carries, fit for a metric's dimension: the case of an enumeration, and else
  /// the type. By reflection, at about a microsecond.
  public static func name<Action>(of action: Action) -> String {
    // An action in an existential is what it contains.
    let mirror = Mirror(reflecting: action)
    guard mirror.displayStyle == .enum else { return "\(type(of: action as Any))" }
    // A case without associated values has no children, and is described by its name, unless the type says otherwise.
    return mirror.children.first?.label ?? "\(action)"
  }
}

/// A store that an instrument watches: a root store, with the stores below it.
public final class InstrumentedStore: Sendable {
  /// `StoreOptions.name`; without it, the key of the log that the store follows, or the type of its state.
  public let name: String
  /// Tells it from all other stores of the process.
  public let number: Int
  private let reading: LockedValue<(@Sendable () async -> StoreStatistics?)?>

  private static let lastNumber = Atomic(0)

  init(name: String) {
    self.name = name
    number = Self.lastNumber.wrappingAdd(1, ordering: .relaxed).newValue
    reading = LockedValue(nil)
  }

  /// `RootStore.statistics`, without keeping the store alive; nil once it has ended.
  public var statistics: StoreStatistics? {
    get async { await reading.withLock { $0 }?() }
  }

  func begin(_ read: @escaping @Sendable () async -> StoreStatistics?) { reading.withLock { $0 = read } }
  func end() { reading.releasingOutside { $0.take() } }
}

extension InstrumentedStore: Hashable {
  public static func == (lhs: InstrumentedStore, rhs: InstrumentedStore) -> Bool { lhs === rhs }
  public func hash(into hasher: inout Hasher) { hasher.combine(number) }
}

/// Several instruments in place of one, each told in turn.
public struct CombinedInstrument: StoreInstrument {
  private let instruments: [any StoreInstrument]

  /// - Parameter instruments: Told in this order; the first one's `run` is around those of the others.
  public init(_ instruments: any StoreInstrument...) { self.instruments = instruments }

  public var timesCommits: Bool { instruments.contains { $0.timesCommits } }

  public func opened(_ store: InstrumentedStore) { for instrument in instruments { instrument.opened(store) } }
  public func closed(_ store: InstrumentedStore) { for instrument in instruments { instrument.closed(store) } }

  public func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
    for instrument in instruments { instrument.committed(action, commit, in: store) }
  }

  public func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore
  ) {
    for instrument in instruments { instrument.rejected(action, reason, commit, in: store) }
  }

  public func effect(_ event: EffectEvent, in store: InstrumentedStore) {
    for instrument in instruments { instrument.effect(event, in: store) }
  }

  public func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async {
    await run(event, in: store, instruments[...], work)
  }

  private func run(
    _ event: EffectEvent, in store: InstrumentedStore, _ instruments: ArraySlice<any StoreInstrument>,
    _ work: @Sendable () async -> Void
  ) async {
    guard let first = instruments.first else { return await work() }
    await first.run(event, in: store) { await run(event, in: store, instruments.dropFirst(), work) }
  }

  public func log(_ event: StoreLogEvent, in store: InstrumentedStore) {
    for instrument in instruments { instrument.log(event, in: store) }
  }

  public func directory(_ event: DirectoryEvent) { for instrument in instruments { instrument.directory(event) } }
}
