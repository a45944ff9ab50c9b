/// What a tree does with the actions of one of its stores. Lives on the tree's executor.
///
/// Closures that are made where the user's types are known, one within the other from the store up to the root: calling
/// one costs no more than the reducers in it. Not copyable, so that they are called where they lie: a copy would be
/// counted, at two atomic operations a commit.
@usableFromInline struct CommitPath<Action: Sendable>: ~Copyable {
  /// Given the action in its place, so that it is not copied at each level. Nobody changes it.
  @usableFromInline typealias Commit = (inout Action) -> Void
  /// Who is told of every commit. A structure, as a bare closure is wrapped once more, in two objects, each time that
  /// generic code hands it over.
  @usableFromInline struct OnCommit {
    /// Called before the commit, with the action in its place.
    @usableFromInline let prepare: ((inout Action) -> Void)?
    /// Given the store that the action was given to, too.
    @usableFromInline let tell: (inout Action, StoreNode<Action>) -> Void

    @inlinable init(
      prepare: ((inout Action) -> Void)? = nil, tell: @escaping (inout Action, StoreNode<Action>) -> Void
    ) {
      self.prepare = prepare
      self.tell = tell
    }
  }

  /// Takes an action through every reducer, from this store's up to the root's, and publishes what came of it.
  @usableFromInline let commit: Commit
  /// What else is to be done with an action. None where there are only reducers.
  @usableFromInline let stages: AnyCommitStages<Action>?
  /// The store's source: to end its sequences, and to drop the state of a store that is gone.
  @usableFromInline let source: AnySource

  @inlinable init(commit: @escaping Commit, stages: AnyCommitStages<Action>?, source: AnySource) {
    self.commit = commit
    self.stages = stages
    self.source = source
  }
}

/// What is done with an action beside reducing it and publishing what came of it.
@usableFromInline class AnyCommitStages<Action: Sendable> {
  /// Does all that is to be done with an action, and counts and tells the commits that it makes. Given the store that
  /// the action was given to; returns why there was none. A closure, as an overridden method is not specialized.
  @usableFromInline typealias Process = (Action, StoreNode<Action>) -> StoreError?

  @usableFromInline final let process: Process
  /// The action that the store is given at its end: once, though it may be shut down and released.
  @usableFromInline final var last: Action?

  @inlinable init(last: Action?, process: @escaping Process) {
    self.last = last
    self.process = process
  }
}
