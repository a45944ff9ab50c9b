import Synchronization

/// What an action passes through besides the reducers of its path, from a store up to the root: middleware and
/// histories; and what the child stores on the path call for the commit.
@usableFromInline final class CommitStages<Action: Sendable>: AnyCommitStages<Action> {
  /// Lets the middleware handle an action, from the store's up to the root's; what that passes on is committed. The
  /// action is passed in place, and never changed.
  @usableFromInline typealias Handle = (inout Action, CommitStages<Action>.Context) -> Void
  /// Commits as `CommitPath.commit` does, and keeps history.
  @usableFromInline typealias Record = (inout Action, CommitStages<Action>.Context) -> Void

  @usableFromInline let handle: Handle?
  @usableFromInline let record: Record?
  @usableFromInline let onCommit: CommitPath<Action>.OnCommit?
  @usableFromInline let sequencer: Sequencer<Action>?

  /// Nil if there are only reducers. Not a failable initializer: that of a class allocates even when it fails.
  @inlinable static func made(
    handle: Handle?, record: Record?, onCommit: CommitPath<Action>.OnCommit? = nil, last: Action? = nil,
    sequencer: Sequencer<Action>? = nil, commit: @escaping CommitPath<Action>.Commit
  ) -> CommitStages? {
    guard handle != nil || record != nil || onCommit != nil || last != nil || sequencer != nil else { return nil }
    return CommitStages(
      handle: handle, record: record, onCommit: onCommit, last: last, sequencer: sequencer, commit: commit)
  }

  @inlinable init(
    handle: Handle?, record: Record?, onCommit: CommitPath<Action>.OnCommit?, last: Action?,
    sequencer: Sequencer<Action>?, commit: @escaping CommitPath<Action>.Commit
  ) {
    self.handle = handle
    self.record = record
    self.onCommit = onCommit
    self.sequencer = sequencer
    let context = Context(commit: commit, record: record, onCommit: onCommit)
    // Not one closure that checks: calling a closure that is known to exist counts no references.
    if let sequencer {
      super.init(last: last, process: sequencer.process(handle, context))
    } else if let handle {
      super.init(last: last) { action, node in
        context.begin(at: node)
        handle(&action, context)
        return context.end()
      }
    } else {
      super.init(last: last) { action, node in
        context.begin(at: node)
        context.commit(&action)
        return context.end()
      }
    }
  }

  /// The stages of a store's path. SAFETY: there are no others.
  @inlinable static func known(_ stages: AnyCommitStages<Action>?) -> CommitStages? {
    guard let stages else { return nil }
    return unsafe unsafeDowncast(stages, to: CommitStages.self)
  }
}

extension CommitStages {
  /// An action on its way through middleware and histories. One object for all actions of a store, as only one of them
  /// is on its way at a time.
  @usableFromInline @safe final class Context {
    @usableFromInline let reduce: CommitPath<Action>.Commit
    @usableFromInline let record: CommitStages<Action>.Record?
    @usableFromInline let onCommit: CommitPath<Action>.OnCommit?

    // Without the run-time checks for overlapping accesses.
    //
    // SAFETY: reached only from the tree's isolation, where one section is entered at a time (`Tree.enter`); an access
    // copies a value out or sets it.

    /// The store that the action was given to. SAFETY: set only while the tree processes an action of that store, and
    /// so holds the store.
    @usableFromInline @exclusivity(unchecked) var current: Unmanaged<StoreNode<Action>>?
    /// Its identity.
    @usableFromInline @exclusivity(unchecked) var currentID = StoreID.root
    @usableFromInline @exclusivity(unchecked) var hasCommitted = false
    @usableFromInline @exclusivity(unchecked) var rejection: RejectionReason?
    /// What happens in place of a commit, where the order comes from elsewhere.
    @usableFromInline @exclusivity(unchecked) var divert: ((Action, Context) -> Void)?

    @inlinable init(
      commit: @escaping CommitPath<Action>.Commit, record: CommitStages<Action>.Record?,
      onCommit: CommitPath<Action>.OnCommit?
    ) {
      reduce = commit
      self.record = record
      self.onCommit = onCommit
    }

    @inlinable func begin(at node: StoreNode<Action>) {
      unsafe current = Unmanaged.passUnretained(node)
      unsafe currentID = node.id
      unsafe hasCommitted = false
      unsafe rejection = nil
    }

    /// Returns why the action was not committed, if it was not.
    @inlinable func end() -> StoreError? {
      unsafe current = nil
      return unsafe hasCommitted ? nil : .rejected(reason: rejection)
    }

    /// Commits the action that the middleware has passed on.
    @inline(__always) @inlinable func commit(_ action: inout Action) {
      guard let node = unsafe current else { return }
      if let divert = unsafe divert { return divert(action, self) }
      unsafe hasCommitted = true
      unsafe node._withUnsafeGuaranteedRef { node in
        node.tree.commit(&action, from: node, onCommit) { action in
          if record != nil { record?(&action, self) } else { reduce(&action) }
        }
      }
    }

    /// Commits an action without telling anybody who is told of commits.
    @inlinable func commitQuietly(_ action: Action) {
      guard let node = unsafe current else { return }
      unsafe hasCommitted = true
      var action = action
      if record != nil { record?(&action, self) } else { reduce(&action) }
      unsafe node._withUnsafeGuaranteedRef { $0.tree.countCommit() }
    }

    /// The store that the action was given to, or the last such store, if no action is on its way.
    @inlinable var storeID: StoreID { unsafe currentID }
    @inlinable var isCommitted: Bool { unsafe hasCommitted }

    @inlinable func reject(_ reason: RejectionReason) { unsafe rejection = reason }

    /// Nil while no action is on its way.
    @inlinable var node: StoreNode<Action>? { unsafe current?.takeUnretainedValue() }
  }
}

/// What a store does with an action. In a child store, the state that it owns and the state that it shows differ.
@usableFromInline struct StoreFeatures<Owned: Sendable, State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline let reducer: Reducer<Owned, Action>
  @usableFromInline let middleware: [Middleware<State, Action>]
  /// Leaves out what the store does not publish. Made where it is known whether there is such a rule.
  @usableFromInline let emitting: (@Sendable (Source<State>) -> Source<State>)?
  @usableFromInline let history: History<Owned, Action>?
  /// The action that a child store is given at its end.
  @usableFromInline let last: Action?

  @inlinable init(
    reducer: Reducer<Owned, Action>, middleware: [Middleware<State, Action>], emission: Emission<State>,
    history: History<Owned, Action>?, last: Action? = nil
  ) {
    self.last = last
    self.reducer = reducer
    self.middleware = middleware
    if let unchanged = emission.unchanged {
      emitting = { .emitting(from: $0, except: unchanged) }
    } else {
      emitting = nil
    }
    self.history = history
  }

  /// A root store's stages. Not specialized, while what the middleware and the history do is, where they are made. The
  /// step around them takes and returns nothing whose layout would have to be looked up.
  @usableFromInline func stages(
    ofRoot own: OwnState<Owned>, shownBy source: Source<State>, _ commit: @escaping CommitPath<Action>.Commit,
    publish: @escaping () -> Void
  ) -> CommitStages<Action>? {
    var record: CommitStages<Action>.Record?
    if let history {
      record = { [steps = reducer.steps] action, context in
        history.record(action, context, by: steps, in: own)
        publish()
      }
    }
    return .made(handle: handle(showing: source, above: nil), record: record, commit: commit)
  }

  /// A child store's stages, specialized; nil if there are none.
  ///
  /// - Parameters:
  ///   - reduce: Applies the store's own reducers.
  ///   - commitAbove: Commits what the store has reduced in the stores above.
  @inlinable func stages(
    ofChild own: OwnState<Owned>, shownBy source: Source<State>, _ commit: @escaping CommitPath<Action>.Commit,
    reduce: @escaping CommitPath<Action>.Commit, onCommit: CommitPath<Action>.OnCommit?,
    above: CommitStages<Action>?, commitAbove: @escaping CommitPath<Action>.Commit
  ) -> CommitStages<Action>? {
    let recordAbove = above?.record
    var record: CommitStages<Action>.Record?
    if let history {
      record = { [steps = reducer.steps] action, context in
        history.record(action, context, by: steps, in: own)
        if let recordAbove { recordAbove(&action, context) } else { commitAbove(&action) }
      }
    } else if let recordAbove {
      record = { action, context in
        reduce(&action)
        recordAbove(&action, context)
      }
    }
    return .made(
      handle: handle(showing: source, above: above?.handle), record: record,
      onCommit: onCommit?.before(above?.onCommit) ?? above?.onCommit, last: last, sequencer: above?.sequencer,
      commit: commit)
  }

  /// Whether there are only reducers.
  @inlinable var isPlain: Bool { middleware.isEmpty && history == nil && last == nil }

  /// What the store's middleware does with an action; without any, what that of the store above does.
  @inlinable func handle(
    showing source: Source<State>, above: CommitStages<Action>.Handle?
  ) -> CommitStages<Action>.Handle? {
    middleware.isEmpty ? above : Middleware.handling(middleware, showing: source, above: above)
  }
}

extension Source {
  /// Publishes the state of a root store, if it has followers. Kept out of the code that commits without followers:
  /// that is then small enough to be one function with the closure around it, which saves a copy of the action.
  @inline(never) @inlinable func publish(_ own: OwnState<State>) {
    guard hasSubscribers, let state = own.value else { return }
    var propagation = AnySource.Propagation()
    publish(state, &propagation)
    propagation.finish()
  }
}

extension CommitPath {
  @usableFromInline typealias Stages = CommitStages<Action>

  // These are functions because an initializer would be given a copy of the features.

  /// A root store's path.
  @inline(__always) @inlinable static func root<State: Sendable>(
    _ own: OwnState<State>, shownBy source: Source<State>, features: StoreFeatures<State, State, Action>
  ) -> CommitPath {
    let reduce = features.reducer.change
    let commit: Commit = { action in
      own.change { reduce(&$0, &action) }
      if source.hasChannel { source.publish(own) }
    }
    let stages =
      features.isPlain
      ? nil
      : features.stages(ofRoot: own, shownBy: source, commit) {
        if source.hasChannel { source.publish(own) }
      }
    return CommitPath(commit: commit, stages: stages, source: source)
  }

  /// A root store's path, whose order comes from elsewhere: its middleware decides when the action has come back.
  @inlinable init(sequencing path: consuming CommitPath, by sequencer: Sequencer<Action>) {
    let stages = Stages.known(path.stages)
    sequencer.handleAtCommit = stages?.handle
    self.init(
      commit: path.commit,
      stages: Stages.made(handle: nil, record: stages?.record, sequencer: sequencer, commit: path.commit),
      source: path.source)
  }

  /// A child store's path, which continues with its parent's. What is called for a root store's commits can be changed,
  /// and so belongs to the tree.
  @inlinable static func child<Local: Sendable, State: Sendable>(
    _ own: OwnState<Local>, shownBy source: Source<State>, features: StoreFeatures<Local, State, Action>,
    onCommit: OnCommit?, turn: CommitTurn?, under parent: borrowing CommitPath, depth: Int
  ) -> CommitPath {
    let (commitAbove, above) = parent.above(at: depth, turn)
    let reduce = features.reducer.change
    let commit: Commit = { action in
      own.change { reduce(&$0, &action) }
      commitAbove(&action)
    }
    let stages =
      features.isPlain && onCommit == nil && above == nil
      ? nil
      : features.stages(
        ofChild: own, shownBy: source, commit, reduce: { action in own.change { reduce(&$0, &action) } },
        onCommit: onCommit, above: above, commitAbove: commitAbove)
    return CommitPath(commit: commit, stages: stages, source: source)
  }

  /// The closures of a store, for one below it.
  ///
  /// - Parameter turn: Where the one below follows only a part of the state.
  @usableFromInline borrowing func above(at depth: Int, _ turn: CommitTurn?) -> (Commit, Stages?) {
    let (commit, above) = Depth.isBreak(depth) ? chained() : (commit, Stages.known(stages))
    guard let turn else { return (commit, above) }
    let commitInTurn: Commit = { action in
      turn.begin()
      commit(&action)
      turn.end()
    }
    let recordInTurn = above?.record.map { record -> Stages.Record in
      { action, context in
        turn.begin()
        record(&action, context)
        turn.end()
      }
    }
    return (
      commitInTurn,
      above.flatMap {
        .made(
          handle: $0.handle, record: recordInTurn, onCommit: $0.onCommit, sequencer: $0.sequencer,
          commit: commitInTurn)
      }
    )
  }

  /// The closures of a store, for one below it whose release must not recursively release all of those above.
  @usableFromInline borrowing func chained() -> (Commit, Stages?) {
    let commit = Chained(commit)
    let above = Stages.known(stages)
    let handle = above?.handle.map(Chained.init)
    let record = above?.record.map(Chained.init)
    let tell = above?.onCommit.map { Chained($0.tell) }
    let prepare = above?.onCommit?.prepare.map(Chained.init)
    let commitAbove: Commit = { action in unsafe commit.next?(&action) }
    return (
      commitAbove,
      .made(
        handle: handle.map { handle in { unsafe handle.next?(&$0, $1) } },
        record: record.map { record in { unsafe record.next?(&$0, $1) } },
        onCommit: tell.map { tell in
          OnCommit(
            prepare: prepare.map { prepare in { unsafe prepare.next?(&$0) } }, tell: { unsafe tell.next?(&$0, $1) })
        }, sequencer: above?.sequencer, commit: commitAbove)
    )
  }
}

extension CommitPath.OnCommit {
  /// This one, and then that of the stores above.
  @usableFromInline func before(_ above: CommitPath.OnCommit?) -> CommitPath.OnCommit {
    guard let above else { return self }
    var both = prepare ?? above.prepare
    if let prepare, let other = above.prepare {
      both = { action in
        prepare(&action)
        other(&action)
      }
    }
    return CommitPath.OnCommit(prepare: both) { [tell] action, node in
      tell(&action, node)
      above.tell(&action, node)
    }
  }
}
