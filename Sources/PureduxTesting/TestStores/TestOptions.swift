public import Puredux

/// How a `TestStore` and its tree run: `StoreOptions`, with a clock that is advanced by hand, and what a test needs
/// besides.
///
///     let store = TestStore(initialState: Search(), options: TestOptions(clock: clock), reducer: reduce)
public struct TestOptions<State: Sendable, Action: Sendable>: Sendable {
  /// Where the tree runs; by default on an executor of its own.
  public var executor: StoreExecutor
  /// The priority of the tree's work.
  public var priority: TaskPriority?
  /// Measures the delays of effects.
  public var clock: ManualClock
  /// Called for effects that failed, or were not begun. Without it, each is an issue.
  public var reporting: (@Sendable (EffectReport) -> Void)?
  /// Task-local values of the dispatcher or sender of an action, for its commit and its effects.
  public var carrying: CarriedValues?
  /// Which commits the store publishes.
  public var emits: Emission<State>
  /// Where the store keeps what each of its reducers did.
  public var history: History<State, Action>?
  /// How long the store may take to settle, by the continuous clock.
  public var limit: Duration

  /// The defaults are those of a `TestStore` that is made without options.
  public init(
    executor: StoreExecutor = .own, priority: TaskPriority? = nil, clock: ManualClock = ManualClock(),
    reporting: (@Sendable (EffectReport) -> Void)? = nil, carrying: CarriedValues? = nil,
    emits: Emission<State> = .always, history: History<State, Action>? = nil, limit: Duration = defaultWaitingLimit
  ) {
    self.executor = executor
    self.priority = priority
    self.clock = clock
    self.reporting = reporting
    self.carrying = carrying
    self.emits = emits
    self.history = history
    self.limit = limit
  }
}
