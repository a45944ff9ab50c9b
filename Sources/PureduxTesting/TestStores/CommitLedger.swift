import Puredux

/// The commits of a test store's tree that are not accounted for.
final class CommitLedger<State: Sendable, Action: Sendable>: Sendable {
  struct Commit: Sendable {
    let action: Action
    let position: Int
    let before: State
    let after: State
    var isReported = false
  }

  private struct Pages: Sendable {
    var position = 0
    /// The position before the commits of the last sent action.
    var positionBefore = 0
    var missingCount = 0
    var commits: ArraySlice<Commit> = []
    var reports: [EffectReport] = []
    var unseen: [Commit] = []
    var isOver = false

    mutating func add(_ action: Action, at position: Int, before: State, after: State) {
      missingCount += position - self.position - 1
      self.position = position
      commits.append(Commit(action: action, position: position, before: before, after: after))
    }
  }

  private let pages = LockedValue(Pages())
  private let history: History<State, Action>?

  /// - Parameter history: The source of later commits, instead of `middleware`.
  init(history: History<State, Action>? = nil) {
    self.history = history
    let position = history?.entries.last?.position ?? 0
    pages.withLock { $0.position = position }
  }

  /// The given middleware may make several commits of one action.
  func middleware(around others: [Middleware<State, Action>]) -> [Middleware<State, Action>] {
    let first = Middleware<State, Action> { [self] action, _, next in
      pages.withLock { $0.positionBefore = $0.position }
      next(action)
    }
    let last = Middleware<State, Action> { [self] action, context, next in
      let before = context.state
      next(action)
      let after = context.state
      pages.withLock { if !$0.isOver { $0.add(action, at: $0.position + 1, before: before, after: after) } }
    }
    return [first] + others + [last]
  }

  func enter(_ report: EffectReport) { pages.withLock { $0.reports.append(report) } }

  func enter() {
    guard let history else { return }
    let entries = history.entries
    pages.withLock { pages in
      if pages.isOver { return }
      for entry in entries where entry.position > pages.position {
        pages.add(entry.action, at: entry.position, before: entry.stateBefore, after: entry.state)
      }
    }
  }

  // MARK: Taking

  /// Returns the commits of the last sent action as one. Only on the tree's executor, right after the commit.
  func takeSent(_ action: Action) -> Commit? {
    enter()
    let made = pages.withLock { pages in
      let start =
        history == nil
        ? pages.commits.firstIndex { $0.position > pages.positionBefore } ?? pages.commits.endIndex
        : max(pages.commits.endIndex - 1, pages.commits.startIndex)
      defer { pages.commits.removeSubrange(start...) }
      return pages.commits[start...]
    }
    guard let first = made.first, let last = made.last else { return nil }
    return Commit(action: action, position: first.position, before: first.before, after: last.after)
  }

  /// Only on the tree's executor, while no action is in flight.
  func takeFirst() -> Commit? {
    enter()
    return pages.withLock { $0.commits.popFirst() }
  }

  /// Only on the tree's executor, if it still exists.
  func takeAll() -> [Commit] {
    enter()
    return pages.withLock { pages in
      defer { pages.commits = [] }
      return Array(pages.commits)
    }
  }

  var position: Int {
    enter()
    return pages.withLock { $0.position }
  }

  func actions(after position: Int) -> [Action] {
    enter()
    return pages.withLock { $0.commits.filter { $0.position > position }.map(\.action) }
  }

  func takeMissingCount() -> Int {
    pages.withLock { pages in
      defer { pages.missingCount = 0 }
      return pages.missingCount
    }
  }

  func report(before position: Int) -> [Commit] {
    pages.withLock { pages in
      var reported: [Commit] = []
      for index in pages.commits.indices where pages.commits[index].position < position {
        if !pages.commits[index].isReported { reported.append(pages.commits[index]) }
        pages.commits[index].isReported = true
      }
      return reported
    }
  }

  func takeReports() -> [EffectReport] {
    pages.withLock { pages in
      defer { pages.reports = [] }
      return pages.reports
    }
  }

  func leaveUnseen(_ commit: Commit) { pages.withLock { $0.unseen.append(commit) } }

  func takeUnseen() -> [Commit] {
    pages.withLock { pages in
      defer { pages.unseen = [] }
      return pages.unseen
    }
  }

  /// Returns false if the ledger was closed before.
  func close() -> Bool {
    enter()
    return pages.withLock { pages in
      defer { pages.isOver = true }
      return !pages.isOver
    }
  }
}
