/// One store's part of a commit. Lives on the tree's executor.
///
/// Not copyable, so that its closures are called in place: a copy would be reference-counted, at two atomic operations
/// per commit.
@usableFromInline struct CommitStep<Action: Sendable>: ~Copyable {
  /// Changes the state that a store owns. Captures only the reducer, so that a reducer that is known where the store is
  /// made becomes part of it. Takes the action in place, so that it is not copied at each level; never changes it.
  @usableFromInline typealias Reduce = (AnyStateStorage, inout Action) -> Void
  @usableFromInline typealias Publish = (AnyStateStorage, AnySource) -> Void

  @usableFromInline let own: AnyStateStorage
  @usableFromInline let reduce: Reduce
  @usableFromInline let stages: CommitStages<Action>?
  /// The store's source. A root store publishes to it. Through it the store's sequences end, and a released store's
  /// state is dropped.
  @usableFromInline let source: AnySource
  @usableFromInline let publish: Publish?

  @usableFromInline init(
    _ own: AnyStateStorage, reduce: @escaping Reduce, stages: CommitStages<Action>?, source: AnySource,
    publish: Publish?
  ) {
    self.own = own
    self.reduce = reduce
    self.stages = stages
    self.source = source
    self.publish = publish
  }

  @inlinable @inline(__always) borrowing func reduce(_ action: inout Action) { reduce(own, &action) }

  /// Publishes the reduced state, if there may be followers. A closure, so that the code of commits without followers
  /// does not contain it.
  @inlinable @inline(__always) borrowing func publishIfFollowed() {
    if source.hasChannel { publish?(own, source) }
  }
}

extension StoreNode {
  /// The turn of a child that follows only a part of this store's state.
  ///
  /// SAFETY: called from anywhere; nothing looks into confined values here: constants are read, and stored in the
  /// child's step and source, which will be confined themselves.
  @usableFromInline func makeTurn() -> PartTurn {
    let top = tree.madeExtras.top {
      var top = self
      climb { node in
        top = node
        return true
      }
      return unsafe Tree.Extras.Top(top.step.unconfined.source)
    }
    return unsafe PartTurn(under: top.source.unconfined)
  }
}
