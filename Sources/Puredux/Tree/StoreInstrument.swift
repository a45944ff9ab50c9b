import Synchronization

/// Observes stores at work, for metrics, traces and logs. Given to a store, a factory, a directory or a store that
/// follows a log (`StoreOptions.instrument`, `StoreDirectory.init`). Every requirement has a default that does nothing.
///
///     final class Commits: StoreInstrument {
///       let counter = Atomic(0)
///       func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore) {
///         counter.add(commit.count, ordering: .relaxed)
///       }
///     }
///
/// Cost: a store without an instrument pays nothing. With one, a commit takes some 15 ns more, and an effect 1.5 µs,
/// for two timed events. A method that is called on the tree's executor holds up the tree, and must be short; it may
/// dispatch (G10).
///
/// Figures such as backlogs and followers are not reported, but read: `InstrumentedStore.statistics`.
public protocol StoreInstrument: Sendable {
  /// Whether commits are timed (`CommitEvent.waited`, `.reduced`). A timed commit costs some 700 ns more, because the
  /// time of its dispatch is carried along. Read once for each store. False by default.
  var timesCommits: Bool { get }

  /// A store has been made. If it follows a log, its log has not been replayed yet.
  func opened(_ store: InstrumentedStore)

  /// The store has ended, after its last commit. Events of cancelled effects, and of actions on their way to the log,
  /// may follow.
  func closed(_ store: InstrumentedStore)

  /// An action has been committed: called on the tree's executor, in commit order, after the states are published and
  /// the effects started. The action is the one that the store was given; `name(of:)` returns its name. Replayed
  /// actions are reported, too, with `CommitEvent.isReplay`, here and in `rejected`.
  func committed<Action: Sendable>(_ action: Action, _ commit: CommitEvent, in store: InstrumentedStore)

  /// Middleware has stopped an action, or it cannot be given to the log: called on the tree's executor. There is no
  /// commit, and the position is that of the one before. Actions that the log itself refuses are only counted
  /// (`LogStatistics.rejected`).
  func rejected<Action: Sendable>(
    _ action: Action, _ reason: RejectionReason?, _ commit: CommitEvent, in store: InstrumentedStore)

  /// An effect has begun, is tried again, or has ended: called in its task, within `run` except for its beginning. If
  /// it was not begun, called on the tree's executor. Observers are no effects.
  func effect(_ event: EffectEvent, in store: InstrumentedStore)

  /// Runs the work of an effect, with all its attempts: a place to set task-local values for it, such as a span's. It
  /// must call `work` once, and return after it. The event says that the effect has begun; its end is reported before
  /// `work` returns.
  func run(_ event: EffectEvent, in store: InstrumentedStore, _ work: @Sendable () async -> Void) async

  /// An event between a store and the log that it follows: called from any thread.
  func log(_ event: StoreLogEvent, in store: InstrumentedStore)

  /// An event of a store of a directory: called on the directory's executor.
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

  /// The name of an action without its payload, fit for a metric's dimension: the case of an enumeration, and otherwise
  /// the type. By reflection, at about a microsecond.
  public static func name<Action>(of action: Action) -> String {
    let mirror = Mirror(reflecting: action)
    guard mirror.displayStyle == .enum else { return "\(type(of: action as Any))" }
    // A case without associated values has no children, and its description is its name, unless the type says
    // otherwise.
    return mirror.children.first?.label ?? "\(action)"
  }
}

/// A store that an instrument observes: a root store, with the stores below it.
public final class InstrumentedStore: Sendable {
  /// `StoreOptions.name`; without it, the key of the log that the store follows, or the type of its state.
  public let name: String
  /// Unique among all stores of the process.
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

  /// - Parameter instruments: Called in this order; the first one's `run` encloses those of the others.
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

/// An instrument's event for an action that was committed or rejected.
public struct CommitEvent: Sendable {
  /// The store that the action was given to: the instrument's own, or one below it.
  public let store: StoreID
  /// The place of the commit in the tree's order, counted from one; for a rejected action, that of the commit before
  /// it.
  public let position: Int
  /// The number of commits: more than one if middleware passed the action on repeatedly, zero if it was rejected.
  public let count: Int
  /// How long the action waited for its turn, from `dispatch` or `send` on, and for the log that the store follows, if
  /// any. Nil if commits are not timed, or if the action is replayed or was given to another replica.
  public let waited: Duration?
  /// How long middleware, reducers, publishing and starting the effects took. Nil if commits are not timed.
  public let reduced: Duration?
  /// Whether the action was in the log when the store was opened (`MiddlewareContext.isReplay`).
  public let isReplay: Bool
}

/// An instrument's event for an effect.
public struct EffectEvent: Sendable {
  /// The kind of an effect's event.
  public enum Kind: Sendable {
    /// Its task has begun. With a delay, its first attempt comes after that.
    case began
    /// It has failed, and begins again after that time.
    case retried((any Error), after: Duration)
    /// It has ended, after that time with all its attempts and delays.
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
    /// It took longer than its limit.
    case timedOut
    /// It was cancelled: by its id, by the state, or because its store has ended.
    case cancelled
  }

  /// The kind of the event.
  public let kind: Kind
  /// Identifies the effect within its tree: all its events have the same number. Zero if it was not begun.
  public let number: Int
  /// Its id's description; nil if it has none.
  public let id: String?
  /// The store that it belongs to.
  public let store: StoreID
}

/// An instrument's event for a store and its log.
public enum StoreLogEvent: Sendable {
  /// The store has entered another phase.
  case entered(LogStatistics.Phase)
  /// The store has applied the log's entries from the snapshot on.
  case replayed(positions: UInt64, after: Duration)
  /// The log has taken an entry of actions, or failed to.
  case appended(actions: Int, bytes: Int, after: Duration, (any Error)?)
  /// A snapshot has been saved, or could not be.
  case savedSnapshot(position: UInt64, bytes: Int, after: Duration, (any Error)?)
}

/// An instrument's event for a store of a `StoreDirectory`.
public struct DirectoryEvent: Sendable {
  /// The kind of a directory's event.
  public enum Kind: Sendable {
    /// The store is being made.
    case opening
    /// The store has been made, which took that long.
    case opened(after: Duration)
    /// The store could not be made: callers that asked for it get the error.
    case failed(any Error, after: Duration)
    /// The directory has released the store. A store that ended by itself is noticed when it is next asked for, or
    /// idle.
    case closed
  }

  /// The kind of the event.
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
