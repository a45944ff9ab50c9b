/// How a root store and its tree run.
///
///     let root = RootStore(
///       initialState: Cart(), options: StoreOptions(executor: .mainActor, clock: clock), reducer: reduce)
public struct StoreOptions: Sendable {
  /// The tree's executor; by default one of its own.
  public var executor: StoreExecutor
  /// The priority of the tree's work.
  public var priority: TaskPriority?
  /// Measures the delays of effects. A clock that never ticks delays no shutdown if cancellation ends its sleep. If it
  /// throws otherwise, a `ContinuousClock` replaces it.
  public var clock: any Clock<Duration>
  /// Called for effects that failed or were not begun, on the tree's executor or in the effect's task, and for a store,
  /// scope or projection made below the 100th level. By default, reports are printed on standard error.
  public var reporting: (@Sendable (EffectReport) -> Void)?
  /// The task-local values that an action's commit and effects take over from the dispatching or sending task.
  public var carrying: CarriedValues?
  /// An object, because most stores have none, and each client copies the options.
  private var watch: Watch?

  /// The name for its instrument; by default the key of the store's log, or the type of its state.
  public var name: String? {
    get { watch?.name }
    set { watch = Watch(name: newValue, instrument: instrument) }
  }
  /// Receives commits, effects and the log's events.
  public var instrument: (any StoreInstrument)? {
    get { watch?.instrument }
    set { watch = Watch(name: name, instrument: newValue) }
  }

  /// The defaults are those of a store without options.
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

  @usableFromInline static var none: StoreOptions { StoreOptions() }

  @usableFromInline func taskRegistry(trunk: EffectRunner? = nil) -> TaskRegistry? {
    TreeEffects.custom(priority: priority, clock: clock, reporting: reporting, trunk: trunk)
  }

  @usableFromInline func treeInstrument<State>(of type: State.Type) -> TreeInstrument? {
    instrument.map { TreeInstrument($0, name: name ?? "\(type)", clock: clock) }
  }
}

extension StoreOptions {
  fileprivate final class Watch: Sendable {
    let name: String?
    let instrument: (any StoreInstrument)?

    init(name: String?, instrument: (any StoreInstrument)?) {
      self.name = name
      self.instrument = instrument
    }
  }
}
