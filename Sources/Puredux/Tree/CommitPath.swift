/// What a tree does with the actions of one of its stores. Lives on the tree's executor.
///
/// Closures that are made where the user's types are known, nested from the store up to the root: calling one costs no
/// more than the reducers in it. Not copyable, so that they are called in place: a copy would be reference-counted, at
/// two atomic operations per commit.
@usableFromInline struct CommitPath<Action: Sendable>: ~Copyable {
  /// Given the action in place, so that it is not copied at each level. The action is never changed.
  @usableFromInline typealias Commit = (inout Action) -> Void
  /// What is called for every commit. A structure, because generic code wraps a bare closure once more, in two objects,
  /// each time it passes it on.
  @usableFromInline struct OnCommit {
    /// Called before the commit, with the action in place.
    @usableFromInline let prepare: ((inout Action) -> Void)?
    /// Called after the commit, also with the store that the action was given to.
    @usableFromInline let tell: (inout Action, StoreNode<Action>) -> Void

    @inlinable init(
      prepare: ((inout Action) -> Void)? = nil, tell: @escaping (inout Action, StoreNode<Action>) -> Void
    ) {
      self.prepare = prepare
      self.tell = tell
    }
  }

  /// Takes an action through every reducer, from this store's up to the root's, and publishes the result.
  @usableFromInline let commit: Commit
  /// What else is done with an action. Nil if there are only reducers.
  @usableFromInline let stages: AnyCommitStages<Action>?
  /// The store's source: to end its sequences, and to drop the state of a released store.
  @usableFromInline let source: AnySource

  @inlinable init(commit: @escaping Commit, stages: AnyCommitStages<Action>?, source: AnySource) {
    self.commit = commit
    self.stages = stages
    self.source = source
  }
}

/// What is done with an action besides reducing it and publishing the result.
@usableFromInline class AnyCommitStages<Action: Sendable> {
  /// Does all that is to be done with an action, counting and reporting the commits it makes. Given the store that the
  /// action was given to; returns why there was none. A closure, as an overridden method is not specialized. The action
  /// is passed in place, as to `CommitPath.Commit`.
  @usableFromInline typealias Process = (inout Action, StoreNode<Action>) -> StoreError?

  @usableFromInline final let process: Process
  /// The action that the store is given at its end: once, even if it is both shut down and released.
  @usableFromInline final var last: Action?

  @inlinable init(last: Action?, process: @escaping Process) {
    self.last = last
    self.process = process
  }
}
