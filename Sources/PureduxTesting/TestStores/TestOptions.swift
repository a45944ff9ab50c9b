public import Puredux

/// `StoreOptions` for the tree of a `TestStore`, with a manual clock and a limit for settling.
///
///     let store = TestStore(initialState: Search(), options: TestOptions(clock: clock), reducer: reduce)
public struct TestOptions<State: Sendable, Action: Sendable>: Sendable {
  /// The executor of the tree.
  public var executor: StoreExecutor
  /// The priority of the tree's work.
  public var priority: TaskPriority?
  /// The clock of the effects.
  public var clock: ManualClock
  /// Called for an effect that failed or was not begun. If nil, each is an issue.
  public var reporting: (@Sendable (EffectReport) -> Void)?
  /// Task-local values of an action's caller, set in its commit and effects.
  public var carrying: CarriedValues?
  /// The commits that the store publishes.
  public var emits: Emission<State>
  /// The history, which records each reducer's work.
  public var history: History<State, Action>?
  /// The time to settle, by the continuous clock.
  public var limit: Duration

  /// Makes options.
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
