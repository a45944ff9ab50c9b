/// Figures of a running tree, for a server's operators: the value of `RootStore.statistics`.
public struct StoreStatistics: Sendable, Equatable {
  /// How many commits there have been.
  public var commits = 0
  /// How many actions and other requests wait for their turn.
  public var waiting = 0
  /// How many child stores there are, at any depth.
  public var childStores = 0
  /// How many state sequences and observers are subscribed.
  public var subscriptions = 0
  /// How many states wait for the subscriber that has the most to read, without up to 31 that its consumer has taken
  /// ahead.
  public var longestBacklog = 0
  /// How many tasks of effects and observers run.
  public var runningTasks = 0
  /// How many effects run or wait under each id, by its description, in all stores of the tree; for effects of the
  /// state, how many run.
  public var effects: [String: Int] = [:]
  /// The progress with the log that the store follows, if any.
  public var log: LogStatistics?

  /// Whether a store with these statistics is in use: it is followed, or has work to do.
  package var isNeeded: Bool {
    subscriptions > 0 || waiting > 0 || runningTasks > 0 || (log?.pendingActions ?? 0) > 0
  }

  /// For tests of code that reads statistics.
  public init(
    commits: Int = 0, waiting: Int = 0, childStores: Int = 0, subscriptions: Int = 0, longestBacklog: Int = 0,
    runningTasks: Int = 0, effects: [String: Int] = [:], log: LogStatistics? = nil
  ) {
    self.effects = effects
    self.log = log
    self.commits = commits
    self.waiting = waiting
    self.childStores = childStores
    self.subscriptions = subscriptions
    self.longestBacklog = longestBacklog
    self.runningTasks = runningTasks
  }
}

/// Identifies a store within its tree: the root store, and its child stores in the order of their creation. A proxy has
/// the identity of the store that its actions are given to. Identities are never reused in a tree.
public struct StoreID: Hashable, Sendable, CustomStringConvertible {
  @usableFromInline let number: Int

  @inlinable init(number: Int) {
    self.number = number
  }

  /// The root store, in any tree.
  @inlinable public static var root: StoreID { StoreID(number: 0) }

  public var description: String { number == 0 ? "root" : "child \(number)" }
}
