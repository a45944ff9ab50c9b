import Synchronization

/// The stages that an action of a store passes besides the reducers of its path: the handlers before its commit, and the
/// records. One object for all actions of the store, as only one of them is on its way at a time.
@usableFromInline final class CommitStages<Action: Sendable> {
  /// `commit`, specialized for the actions; given the store that the action was given to.
  @usableFromInline typealias Commit = (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void
  /// Reduces as the store's step does, and records the action, with the store that it was given to.
  @usableFromInline typealias Record = (inout Action, StoreNode<Action>) -> Void

  // Of this store alone.
  @usableFromInline let record: Record?
  /// The action that the store is given at its end: once, even if it is both shut down and released.
  @usableFromInline var last: Action?

  // Of this store or one above it.
  @usableFromInline let handler: CommitHandler<Action>?
  /// Whether records are kept.
  @usableFromInline let records: Bool

  @usableFromInline let committing: Commit
  /// Nil unless the order comes from elsewhere.
  @usableFromInline let ordered: Ordered?
  /// The middleware of a root store whose order comes from elsewhere, in front of a commit by itself alone, and without
  /// effects.
  @usableFromInline let quiet: CommitHandler<Action>?

  // Of the action that passes them now, or did last. Atomics as they have no run-time checks for overlapping accesses.
  /// Goes up when an action begins to pass, and when it has passed: odd in between.
  @usableFromInline let passages = Atomic(0)
  @usableFromInline let hasCommitted = Atomic(false)
  // SAFETY: reached only from the tree's isolation, where the reentrancy guard admits one caller at a time
  // (`Tree.enter`); an access copies a value out or sets it.
  @usableFromInline @exclusivity(unchecked) var rejection: RejectionReason?

  /// - Parameter committing: `Self.committing`, specialized for the actions.
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

  /// Whether actions of the stores below pass any of these stages, too: the last action is the store's own.
  var reachesDown: Bool { handler != nil || records }

  @inlinable static var committing: @Sendable (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void {
    { action, node, stages in stages.commit(&action, from: node) }
  }

  /// Takes an action through all stages. Returns why there was no commit.
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

  /// Returns why the action was not committed, if it was not.
  @inlinable func end() -> StoreError? {
    passages.store((passage + 1) & ~1, ordering: .relaxed)
    return unsafe isCommitted ? nil : .rejected(reason: rejection)
  }

  /// Commits the action that the handlers have passed on. SAFETY: here and below, stages belong to a step, and so are
  /// reached only on the executor of the tree that the node belongs to.
  @inlinable func commit(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.commit(&action, recording: records)
  }

  /// Commits an action about which no interceptor is asked.
  @inlinable func commitQuietly(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.reduce(&action, recording: records)
  }

  /// Tells the action that passes now from those before and after it.
  @inlinable var passage: Int { passages.load(ordering: .relaxed) }
  @inlinable var isCommitted: Bool { hasCommitted.load(ordering: .relaxed) }
  @usableFromInline var isReplay: Bool { ordered?.order.isReplaying ?? false }

  /// The reason that middleware has given.
  var reasonGiven: RejectionReason? { unsafe rejection }

  @inlinable func reject(_ reason: RejectionReason) { unsafe rejection = reason }
}
