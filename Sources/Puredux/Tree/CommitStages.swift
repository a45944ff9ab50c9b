import Synchronization

/// The stages of a store's actions besides the reducers of the path. One object for all actions of the store, because
/// only one of them passes at a time.
@usableFromInline final class CommitStages<Action: Sendable> {
  @usableFromInline typealias Commit = (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void
  @usableFromInline typealias Record = (inout Action, StoreNode<Action>) -> Void

  // Of this store alone.
  @usableFromInline let record: Record?
  /// The action that the store is given at its end: once, even if it is both shut down and released.
  @usableFromInline var last: Action?

  // Of this store or one above it.
  @usableFromInline let handler: CommitHandler<Action>?
  @usableFromInline let records: Bool

  @usableFromInline let committing: Commit
  /// Nil without an external order.
  @usableFromInline let ordered: Ordered?
  /// The root's middleware for commits of the root store alone, without effects, in an external order.
  @usableFromInline let quiet: CommitHandler<Action>?

  // Of the current or last action. Atomics: they have no run-time checks for overlapping accesses.
  /// Incremented when an action begins to pass, and when it has passed: odd in between.
  @usableFromInline let passages = Atomic(0)
  @usableFromInline let hasCommitted = Atomic(false)
  // SAFETY: reached only from the tree's isolation, where the reentrancy guard admits one caller at a time
  // (`Tree.enter`); an access copies a value out or sets it.
  @usableFromInline @exclusivity(unchecked) var rejection: RejectionReason?

  @usableFromInline init(
    _ handler: CommitHandler<Action>?, committing: @escaping Commit, record: Record?,
    last: Action? = nil, ordered: Ordered? = nil, quiet: CommitHandler<Action>? = nil, above: CommitStages? = nil
  ) {
    self.handler = handler
    self.committing = committing
    self.record = record
    self.last = last
    self.ordered = ordered ?? above?.ordered
    self.quiet = quiet
    records = record != nil || above?.records == true
  }

  var reachesDown: Bool { handler != nil || records }

  @inlinable static var committing: @Sendable (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void {
    { action, node, stages in stages.commit(&action, from: node) }
  }

  /// Takes an action through all stages. Returns the reason if there was no commit.
  @inlinable func process(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    begin()
    if ordered != nil { return processInOrder(&action, from: node) }
    if handler == nil { committing(&action, node, self) } else { handler?.perform(&action, node, self) }
    return end()
  }

  @inlinable func begin() {
    passages.store((passage + 1) | 1, ordering: .relaxed)
    hasCommitted.store(false, ordering: .relaxed)
    unsafe rejection = nil
  }

  @inlinable func end() -> StoreError? {
    passages.store((passage + 1) & ~1, ordering: .relaxed)
    return unsafe isCommitted ? nil : .rejected(reason: rejection)
  }

  /// Commits the action that the handlers passed on. SAFETY: here and below, stages belong to a step, and so are
  /// reached only on the executor of the tree that the node belongs to.
  @inlinable func commit(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.commit(&action, recording: records)
  }

  @inlinable func commitQuietly(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.reduce(&action, recording: records)
  }

  /// Distinguishes the action that passes now from those before and after it.
  @inlinable var passage: Int { passages.load(ordering: .relaxed) }
  @inlinable var isCommitted: Bool { hasCommitted.load(ordering: .relaxed) }
  @usableFromInline var isReplay: Bool { ordered?.order.isReplaying ?? false }

  var reasonGiven: RejectionReason? { unsafe rejection }

  @inlinable func reject(_ reason: RejectionReason) { unsafe rejection = reason }
}

extension CommitStages {
  /// The further stages of a tree whose order comes from elsewhere.
  @usableFromInline final class Ordered {
    let order: any Order<Action>
    /// The middleware of the root store, but for its admission: it decides when the action has come back.
    let middleware: CommitHandler<Action>?

    init(_ order: any Order<Action>, _ middleware: CommitHandler<Action>?) {
      self.order = order
      self.middleware = middleware
    }
  }

  @usableFromInline func processInOrder(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    guard let order = ordered?.order else { return nil }
    let isCommitting = order.isCommitting
    let failure = order.process(&action, Passage(node: node, stages: self))
    // Before the log; at the commit the instrument's handler is in front of the middleware.
    if !isCommitting, case .rejected(let reason)? = failure, let instrument = node.tree.instrument {
      let event = instrument.event(instrument.begins(at: node.commitCount), at: node.commitCount, of: node.id)
      instrument.instrument.rejected(action, reason, event, in: instrument.store)
    }
    return failure
  }
}
