import Synchronization

/// Observes stores, for metrics, traces and logs: given to a store, a factory or a directory
/// (`StoreOptions.instrument`, `StoreDirectory.init`). Every requirement has a default that does nothing.
///
///     final class Commits: StoreInstrument {
///       let counter = Atomic(0)
///       func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
///         counter.add(commit.count, ordering: .relaxed)
///       }
///     }
///
/// Cost: nothing without an instrument. With one, a commit takes some 15 ns more, and an effect 1.5 µs. Methods called
/// on the tree's executor hold up the tree and must be short; they may dispatch (G10).
///
/// Figures such as backlogs are read, not reported: `InstrumentedStore.statistics`.
public protocol StoreInstrument: Sendable {
  /// Whether commits are timed (`CommitEvent.waited`, `.reduced`), at some 700 ns each. Read once for each store. False
  /// by default.
  var timesCommits: Bool { get }

  /// A store has been made. A log's replay is still to come.
  func opened(_ store: InstrumentedStore)

  /// The store has ended. Events of cancelled effects, and of actions on their way to the log, may follow.
  func closed(_ store: InstrumentedStore)

  /// An action was committed: called on the tree's executor, in commit order, after the publication and the start of
  /// the effects. The action is the one given to the store (`name(of:)`). Replayed actions are reported, too
  /// (`CommitEvent.isReplay`), here and in `rejected`.
  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore)

  /// Middleware stopped an action, or it cannot be given to the log: called on the tree's executor, with the position
  /// of the commit before. Actions refused by the log itself are only counted (`LogStatistics.rejected`).
  func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore)

  /// An effect began, is tried again, or ended: called in its task, and within `run` except for its beginning. If the
  /// effect was not begun, called on the tree's executor. Observers are not effects.
  func effect(_ event: EffectEvent, in store: InstrumentedStore)

  /// Runs an effect's work, with all attempts: a place to set task-local values, such as a span's. It must call `work`
  /// once, and return after it. The event is that of the beginning; the end is reported before `work` returns.
  func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async

  /// An event of a store's log: called from any thread.
  func log(_ event: StoreLogEvent, in store: InstrumentedStore)

  /// An event of a directory's store: called on the directory's executor.
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

  /// The name of an action without its payload, fit for a metric's dimension: the case of an enumeration, otherwise the
  /// type. Takes about a microsecond.
  public static func name<Action>(of action: Action) -> String {
    let mirror = Mirror(reflecting: action)
    guard mirror.displayStyle == .enum else { return "\(type(of: action as Any))" }
    // A case without associated values has no children.
    return mirror.children.first?.label ?? "\(action)"
  }
}

/// The store that an instrument observes: a root store, with the stores below it.
public final class InstrumentedStore: Sendable {
  /// `StoreOptions.name`; by default the key of the store's log, or the type of its state.
  public let name: String
  /// Unique within the process.
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

/// Combines several instruments.
public struct CombinedInstrument: StoreInstrument {
  private let instruments: [any StoreInstrument]

  /// - Parameter instruments: Called in this order; each `run` encloses the next.
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

/// An action that was committed or rejected.
public struct CommitEvent: Sendable {
  /// The store that the action was given to.
  public let store: StoreID
  /// The commit's place in the tree's order, counted from one; for a rejected action, that of the commit before.
  public let position: Int
  /// The number of commits: several if middleware passed the action on repeatedly, zero if it was rejected.
  public let count: Int
  /// The wait for the action's turn, and for the log, if any. Nil if commits are not timed, or the action is replayed
  /// or was given to another replica.
  public let waited: Duration?
  /// The time of middleware, reducers, publishing and starting the effects. Nil if commits are not timed.
  public let reduced: Duration?
  /// Whether the action was in the log when the store was opened.
  public let isReplay: Bool
}

/// An event of an effect.
public struct EffectEvent: Sendable {
  /// The kind of an effect's event.
  public enum Kind: Sendable {
    /// Its task has begun, before any delay.
    case began
    /// It failed, and begins again after that time.
    case retried((any Error), after: Duration)
    /// It ended, after that time with all attempts and delays.
    case ended(Outcome, after: Duration)
    /// It was not begun, because too many wait (`EffectPolicy.inTurn`).
    case turnedAway
  }

  /// How an effect has ended.
  public enum Outcome: Sendable {
    /// Its work has returned.
    case finished
    /// Its error became an action (`Effect.catching`).
    case caught(any Error)
    /// Its error was reported (`EffectReport`).
    case failed(any Error)
    /// Its time limit was over.
    case timedOut
    /// Cancelled by its id, by the state, or by the end of its store.
    case cancelled
  }

  /// What happened.
  public let kind: Kind
  /// The same for all events of the effect, unique within the tree; zero if it was not begun.
  public let number: Int
  /// The description of its id, if any.
  public let id: String?
  /// The store that it belongs to.
  public let store: StoreID
}

/// An event of a store and its log.
public enum StoreLogEvent: Sendable {
  /// The store has entered another phase.
  case entered(LogStatistics.Phase)
  /// The store has applied the entries after the snapshot.
  case replayed(positions: UInt64, after: Duration)
  /// The log took an entry of actions, or failed to.
  case appended(actions: Int, bytes: Int, after: Duration, (any Error)?)
  /// A snapshot was saved, or could not be.
  case savedSnapshot(position: UInt64, bytes: Int, after: Duration, (any Error)?)
}

/// An event of a store of a `StoreDirectory`.
public struct DirectoryEvent: Sendable {
  /// The kind of a directory's event.
  public enum Kind: Sendable {
    /// The store is being made.
    case opening
    /// The store has been made, in that time.
    case opened(after: Duration)
    /// The store could not be made: callers get the error.
    case failed(any Error, after: Duration)
    /// The directory has released the store. The end of a store by itself is noticed when it is next requested, or
    /// idle.
    case closed
  }

  /// What happened.
  public let kind: Kind
  /// The directory's name.
  public let directory: String
  /// The description of the store's key.
  public let key: String

  package init(kind: Kind, directory: String, key: String) {
    self.kind = kind
    self.directory = directory
    self.key = key
  }
}
