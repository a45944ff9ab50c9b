/// How a root store and its tree run: what `RootStore`, `StoreFactory` and `withStore` take as `options:`. What depends
/// on the types of state and action (`emits:`, `history:`) are parameters beside it; where a store follows a log, they
/// are in its `FollowingOptions`, as it has more of them.
///
///     let root = RootStore(
///       initialState: Cart(), options: StoreOptions(executor: .mainActor, clock: clock), reducer: reduce)
public struct StoreOptions: Sendable {
  /// Where the tree runs; by default on an executor of its own.
  public var executor: StoreExecutor
  /// The priority of the tree's work.
  public var priority: TaskPriority?
  /// Measures the delays of effects, in the whole tree.
  public var clock: any Clock<Duration>
  /// Called for effects of the tree that failed, or were not begun: on the tree's executor, or in the task of the
  /// effect. Also called where a store, scope or projection is made below the 100th level.
  /// Without it, the reports are printed on standard error.
  public var reporting: (@Sendable (EffectReport) -> Void)?
  /// Task-local values of the dispatcher or sender of an action, for its commit and its effects.
  public var carrying: CarriedValues?
  /// In an object, as most stores have none, and each client copies the options.
  private var watch: Watch?

  /// What the store is called by its instrument; by default the key of the log that it follows, or the type of its
  /// state.
  public var name: String? {
    get { watch?.name }
    set { watch = Watch(name: newValue, instrument: instrument) }
  }
  /// Told of commits, effects and the log, for metrics, traces and logs.
  public var instrument: (any StoreInstrument)? {
    get { watch?.instrument }
    set { watch = Watch(name: name, instrument: newValue) }
  }

  /// The defaults are those of a store that is made without options.
  public init(
    executor: StoreExecutor = .own, priority: TaskPriority? = nil, clock: any Clock<Duration> = ContinuousClock(),
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    name: String? = nil, instrument: (any StoreInstrument)? = nil
  ) {
    self.executor = executor
    self.priority = priority
    self.clock = clock
    self.reporting = reporting
    self.carrying = carrying
    if name != nil || instrument != nil { watch = Watch(name: name, instrument: instrument) }
  }

  /// The options of a store that is made without any. Not the initializer, whose arguments each client would set.
  @usableFromInline static var none: StoreOptions { StoreOptions() }

  /// The task registry for a tree with these options; nil if it is the one that is made when it is first needed.
  @usableFromInline func taskRegistry(trunk: EffectRunner? = nil) -> TaskRegistry? {
    TreeEffects.custom(priority: priority, clock: clock, reporting: reporting, trunk: trunk)
  }

  /// The instrument for a tree with these options.
  @usableFromInline func treeInstrument<State>(of type: State.Type) -> TreeInstrument? {
    instrument.map { TreeInstrument($0, name: name ?? "\(type)", clock: clock) }
  }
}

extension StoreOptions {
  /// The instrument of a store, and what the store is called by it.
  fileprivate final class Watch: Sendable {
    let name: String?
    let instrument: (any StoreInstrument)?

    init(name: String?, instrument: (any StoreInstrument)?) {
      self.name = name
      self.instrument = instrument
    }
  }
}
