public import Puredux

/// The options of a `TestStore` and its tree: `StoreOptions`, with a clock that the test advances, and a limit for
/// settling.
///
///     let store = TestStore(initialState: Search(), options: TestOptions(clock: clock), reducer: reduce)
public struct TestOptions<State: Sendable, Action: Sendable>: Sendable {
  /// The executor of the tree; by default one of its own.
  public var executor: StoreExecutor
  /// The priority of the tree's work.
  public var priority: TaskPriority?
  /// The clock of the effects.
  public var clock: ManualClock
  /// Called for an effect that failed or was not begun. Without it, each is an issue.
  public var reporting: (@Sendable (EffectReport) -> Void)?
  /// Task-local values of an action's caller that are set in its commit and its effects.
  public var carrying: CarriedValues?
  /// The commits that the store publishes.
  public var emits: Emission<State>
  /// The store's history, which records each reducer's work.
  public var history: History<State, Action>?
  /// The time that the store may take to settle, by the continuous clock.
  public var limit: Duration

  /// Makes options, by default those of a `TestStore` made without options.
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
