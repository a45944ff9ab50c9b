import Synchronization

/// Figures of a running tree, for those who operate a server: what `RootStore.statistics` answers.
public struct StoreStatistics: Sendable, Equatable {
  /// How many commits there have been.
  public var commits = 0
  /// How many actions and other requests wait for their turn.
  public var waiting = 0
  /// How many child stores there are, at any depth.
  public var childStores = 0
  /// How many state sequences and observers are subscribed.
  public var subscriptions = 0
  /// How many states wait for the subscriber that has most to read, but for those, 31 at most, that its consumer has taken ahead.
  public var longestBacklog = 0
  /// How many tasks of interceptors and observers run.
  public var runningTasks = 0

  public init(
    commits: Int = 0, waiting: Int = 0, childStores: Int = 0, subscriptions: Int = 0, longestBacklog: Int = 0,
    runningTasks: Int = 0
  ) {
    self.commits = commits
    self.waiting = waiting
    self.childStores = childStores
    self.subscriptions = subscriptions
    self.longestBacklog = longestBacklog
    self.runningTasks = runningTasks
  }
}

extension RootStore {
  /// Figures of the tree: a snapshot, taken between two commits, without doing first what waits.
  ///
  /// Nothing is counted for it that is not there anyway: who does not ask pays nothing. It looks at every source that is followed and at every
  /// subscription once. After the end, the figures of the end.
  @inlinable
  public nonisolated var statistics: StoreStatistics {
    get async { await core.origin.tree.statistics(of: core.source) }
  }
}

extension Tree {
  @inlinable
  func statistics<State>(
    of source: Confined<Source<State>>, isolation: isolated (any Actor)? = #isolation
  ) async -> StoreStatistics {
    announceVisit()
    while true {
      if let statistics = await take(of: source) { return statistics }
      await untilTurn()
    }
  }

  @inlinable
  func take<State>(of source: Confined<Source<State>>) -> StoreStatistics? {
    guard enterOnVisit() else { return nil }
    defer { leaveFromVisit() }
    var statistics = StoreStatistics(
      commits: commitCount.load(ordering: .relaxed),
      waiting: batch.count - batchPosition + inbox.withLock { $0.entries.count },
      childStores: storeCount.load(ordering: .relaxed) - 1 - releasedChildren,
      runningTasks: existingEffects?.runningCount ?? 0)
    var below: ContiguousArray<AnySource> = [source(on: self)]
    while let source = below.popLast() { source.surveyHere(&statistics, &below) }
    settle()
    return statistics
  }
}

extension Channel {
  @usableFromInline
  func survey(_ statistics: inout StoreStatistics) {
    let (subscribers, backlog) = log.withLock { ($0.subscriberCount, $0.longestBacklog) }
    statistics.subscriptions += subscribers
    statistics.longestBacklog = max(statistics.longestBacklog, backlog)
  }
}

extension Log {
  /// How many states wait for the cursor that has most to read.
  var longestBacklog: Int {
    cursors.lazy.filter { $0.phase == .live }.map { cursor in
      let behind = backlog.end - cursor.position
      return switch cursor.policy {
      case .unbounded: cursor.own.count + behind
      case .newest(let limit): min(Int(limit), cursor.own.count + behind)
      case .oldest: cursor.own.count
      }
    }.max() ?? 0
  }
}
