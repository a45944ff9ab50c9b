import Synchronization

/// What an action passes through besides the reducers of its path, from a store up to the root: middleware and
/// histories; and what the child stores on the path call for the commit.
@usableFromInline final class CommitStages<Action: Sendable>: AnyCommitStages<Action> {
  /// Reduces as the store's step does, and keeps history.
  @usableFromInline typealias Record = (inout Action, CommitStages<Action>) -> Void

  // Of this store alone.
  @usableFromInline let record: Record?
  @usableFromInline let onCommit: CommitStep<Action>.OnCommit?
  /// If the store follows only a part of its parent's state.
  @usableFromInline let turn: CommitTurn?

  // Of this store or one above it.
  /// Whether there is something to call for commits, before and after.
  @usableFromInline let prepares: Bool
  @usableFromInline let tells: Bool
  /// Whether a history is kept, or only a part of a parent's state is followed.
  @usableFromInline let isBent: Bool
  @usableFromInline let sequencer: Sequencer<Action>?

  /// What happens in place of a commit, where the order comes from elsewhere. SAFETY: as for the variables inherited.
  @usableFromInline @exclusivity(unchecked) var divert: ((Action) -> Void)?

  /// - Parameter commit: `committing`, specialized for the actions.
  @usableFromInline init(
    _ middleware: MiddlewareLink<Action>?, commit: @escaping Commit, record: Record?,
    onCommit: CommitStep<Action>.OnCommit? = nil, turn: CommitTurn? = nil, last: Action? = nil,
    sequencer: Sequencer<Action>? = nil, above: CommitStages? = nil
  ) {
    self.record = record
    self.onCommit = onCommit
    self.turn = turn
    self.sequencer = sequencer
    prepares = onCommit?.prepare != nil || above?.prepares == true
    tells = onCommit != nil || above?.tells == true
    isBent = record != nil || turn != nil || above?.isBent == true
    super.init(middleware: middleware, last: last, process: sequencer?.process(middleware), commit: commit)
  }

  /// SAFETY: there are no other stages.
  @inlinable @inline(__always) static func known(_ stages: AnyCommitStages<Action>) -> CommitStages {
    unsafe unsafeDowncast(stages, to: CommitStages.self)
  }

  @inlinable static var committing: @Sendable (inout Action, AnyCommitStages<Action>) -> Void {
    { action, stages in known(stages).commit(&action) }
  }

  /// Commits the action that the middleware has passed on.
  @inlinable func commit(_ action: inout Action) {
    unsafe current?._withUnsafeGuaranteedRef { $0.commit(&action, passing: self) }
  }

  /// Commits an action without telling anybody who is told of commits.
  @inlinable func commitQuietly(_ action: Action) {
    unsafe hasCommitted = true
    var action = action
    unsafe current?._withUnsafeGuaranteedRef { $0.reduce(&action, passing: self) }
  }

  /// Reduces an action in the store that these are the stages of; if that follows a part, in those above it, too.
  ///
  /// SAFETY: as for `StoreNode.commit`.
  @inlinable func reduce(_ action: inout Action, at node: StoreNode<Action>, _ given: CommitStages) {
    if record != nil { record?(&action, given) } else { unsafe node.step.unconfined.reduce(&action) }
    if turn == nil { return }
    turn?.begin()
    unsafe node.parent?.climb(with: &action, given)
    turn?.end()
  }
}

/// The way of an action that passes stages, from node to node.
///
/// SAFETY: called by closures that the tree calls on its executor, to which all steps of the tree are confined.
extension StoreNode {
  @usableFromInline typealias Stages = CommitStages<Action>

  /// Passes the store's own stages to a closure, without reference counting. SAFETY: this node holds them.
  @inlinable @inline(__always) func withStages(_ body: (Stages) -> Void) {
    guard let stages = unsafe step.unconfined.stages else { return }
    unsafe Unmanaged.passUnretained(stages)._withUnsafeGuaranteedRef { body(Stages.known($0)) }
  }

  /// Commits an action that has passed the middleware.
  @inlinable @inline(__always) func commit(_ action: inout Action, passing stages: Stages) {
    if let divert = unsafe stages.divert { return divert(action) }
    unsafe stages.hasCommitted = true
    if stages.prepares { prepare(&action) }
    let onCommit = tree.onCommitOfExecutor
    onCommit?.prepare?(&action)
    reduce(&action, passing: stages)
    if stages.tells { tell(&action) }
    onCommit?.tell(&action, self)
  }

  /// Takes an action through the reducers and histories of the path, publishes the result, and counts it.
  @inlinable @inline(__always) func reduce(_ action: inout Action, passing stages: Stages) {
    if stages.isBent { climb(with: &action, stages) } else { commit(&action) }
    tree.countCommit()
  }

  /// The same, if there are histories, or children of a part.
  @inline(never) @inlinable func climb(with action: inout Action, _ given: Stages) {
    climb { node in
      if unsafe node.step.unconfined.stages == nil {
        unsafe node.step.unconfined.reduce(&action)
      } else {
        node.withStages { $0.reduce(&action, at: node, given) }
      }
      if unsafe node.parent == nil { unsafe node.step.unconfined.publishIfFollowed() }
      return unsafe node.above != nil
    }
  }

  /// Calls what the stores of the path have called before their commits.
  @inline(never) @inlinable func prepare(_ action: inout Action) {
    climb { node in
      node.withStages { if $0.onCommit != nil { $0.onCommit?.prepare?(&action) } }
      return true
    }
  }

  /// Calls what the stores of the path have called for their commits.
  @inline(never) @inlinable func tell(_ action: inout Action) {
    climb { node in
      node.withStages { stages in
        if stages.onCommit != nil { stages.onCommit?.tell(&action, self) }
      }
      return true
    }
  }
}
