import Synchronization

/// The stages that an action of a store passes besides the reducers of its path: the handlers before its commit, the
/// records, and the commit callbacks. One object for all actions of the store, as only one of them is on its way at a
/// time.
@usableFromInline final class CommitStages<Action: Sendable> {
  /// `commit`, specialized for the actions; given the store that the action was given to.
  @usableFromInline typealias Commit = (inout Action, StoreNode<Action>, CommitStages<Action>) -> Void
  /// Reduces as the store's step does, and records the action, with the store that it was given to.
  @usableFromInline typealias Record = (inout Action, StoreNode<Action>) -> Void

  // Of this store alone.
  @usableFromInline let record: Record?
  @usableFromInline let onCommit: CommitStep<Action>.OnCommit?
  /// The action that the store is given at its end: once, even if it is both shut down and released.
  @usableFromInline var last: Action?

  // Of this store or one above it.
  @usableFromInline let handler: CommitHandler<Action>?
  /// Whether there are callbacks before commits and after them, and whether records are kept.
  @usableFromInline let prepares: Bool
  @usableFromInline let tells: Bool
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
    onCommit: CommitStep<Action>.OnCommit? = nil, last: Action? = nil,
    ordered: Ordered? = nil, quiet: CommitHandler<Action>? = nil, above: CommitStages? = nil
  ) {
    self.handler = handler
    self.committing = committing
    self.record = record
    self.onCommit = onCommit
    self.last = last
    self.ordered = ordered ?? above?.ordered
    self.quiet = quiet
    prepares = onCommit?.prepare != nil || above?.prepares == true
    tells = onCommit != nil || above?.tells == true
    records = record != nil || above?.records == true
  }

  /// Whether actions of the stores below pass any of these stages, too: the last action is the store's own.
  var reachesDown: Bool { handler != nil || tells || records }

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
    unsafe node.commit(&action, passing: self)
  }

  /// Commits an action without calling the commit callbacks.
  @inlinable func commitQuietly(_ action: inout Action, from node: StoreNode<Action>) {
    hasCommitted.store(true, ordering: .relaxed)
    unsafe node.reduce(&action, passing: self)
  }

  /// Tells the action that passes now from those before and after it.
  @inlinable var passage: Int { passages.load(ordering: .relaxed) }
  @inlinable var isCommitted: Bool { hasCommitted.load(ordering: .relaxed) }
  @usableFromInline var isReplay: Bool { ordered?.order.isReplaying ?? false }

  /// The reason that middleware has given.
  var reasonGiven: RejectionReason? { unsafe rejection }

  @inlinable func reject(_ reason: RejectionReason) { unsafe rejection = reason }
}

/// The way of an action that passes stages, from node to node.
///
/// SAFETY: to be called on the tree's executor, to which all steps of the tree are confined.
extension StoreNode {
  /// Passes the store's own stages to a closure, without reference counting. SAFETY: this node holds them.
  @unsafe @inlinable @inline(__always) func withStages(_ body: (CommitStages<Action>) -> Void) {
    guard let stages = unsafe step.unconfined.stages else { return }
    unsafe Unmanaged.passUnretained(stages)._withUnsafeGuaranteedRef { body($0) }
  }

  /// Commits an action that has passed the handlers.
  @unsafe @inlinable @inline(__always) func commit(_ action: inout Action, passing stages: CommitStages<Action>) {
    stages.hasCommitted.store(true, ordering: .relaxed)
    if tree.expectsOnCommit.load(ordering: .relaxed) {
      let onCommit = unsafe tree.onCommitOfExecutor
      let coversPath = onCommit?.coversPath == true
      if stages.prepares, !coversPath { unsafe prepare(&action) }
      onCommit?.prepare?(&action, self)
      unsafe reduce(&action, passing: stages)
      if stages.tells, !coversPath { unsafe tell(&action) }
      onCommit?.tell(&action, self)
    } else {
      if stages.prepares { unsafe prepare(&action) }
      unsafe reduce(&action, passing: stages)
      if stages.tells { unsafe tell(&action) }
    }
    tree.startOwed()
  }

  /// Takes an action through the reducers of the path, publishes the result, and counts it.
  @unsafe @inlinable @inline(__always) func reduce(_ action: inout Action, passing stages: CommitStages<Action>) {
    if stages.records { unsafe reduceAndRecord(&action) } else { unsafe commit(&action) }
    tree.countCommit()
  }

  /// Like `reduce`, where records are kept.
  @unsafe @inline(never) @inlinable func reduceAndRecord(_ action: inout Action) {
    climb { node in
      var isRecorded = false
      unsafe node.withStages { stages in
        guard stages.record != nil else { return }
        isRecorded = true
        stages.record?(&action, self)
      }
      if !isRecorded { unsafe node.step.unconfined.reduce(&action) }
      if node.parent == nil { unsafe node.step.unconfined.publishIfFollowed() }
      return true
    }
  }

  /// Calls the callbacks of the path's stores before a commit.
  @unsafe @inline(never) @inlinable func prepare(_ action: inout Action) {
    climb { node in
      unsafe node.withStages { if $0.onCommit != nil { $0.onCommit?.prepare?(&action, self) } }
      return true
    }
  }

  /// Calls the callbacks of the path's stores after a commit.
  @unsafe @inline(never) @inlinable func tell(_ action: inout Action) {
    climb { node in
      unsafe node.withStages { stages in
        if stages.onCommit != nil { stages.onCommit?.tell(&action, self) }
      }
      return true
    }
  }
}
