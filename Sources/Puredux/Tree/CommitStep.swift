/// What one store does in a commit. Lives on the tree's executor.
///
/// An action passes from store to store, up to the root (`StoreNode.commit`). Not copyable, so that its closures are
/// called in place: a copy would be reference-counted, at two atomic operations per commit.
@usableFromInline struct CommitStep<Action: Sendable>: ~Copyable {
  /// Changes the state that a store owns. It captures nothing but the reducer, so that a reducer that is known where
  /// the store is made becomes part of it. Given the action in place, so that it is not copied at each level. The
  /// action is never changed.
  @usableFromInline typealias Reduce = (AnyStateStorage, inout Action) -> Void
  /// Publishes the state that a store owns to the followers of its source.
  @usableFromInline typealias Publish = (AnyStateStorage, AnySource) -> Void

  @usableFromInline let own: AnyStateStorage
  @usableFromInline let reduce: Reduce
  /// The stages on the path from here to the root. Nil if there are only reducers.
  @usableFromInline let stages: CommitStages<Action>?
  /// The store's source: a root store publishes to it; through it the store's sequences are ended, and the state of a
  /// released store is dropped.
  @usableFromInline let source: AnySource
  /// The last part of a commit, at the root store. Other stores have none.
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

  /// Publishes the reduced state, if there may be followers: by a closure, so that the code that commits without
  /// followers does not contain it.
  @inlinable @inline(__always) borrowing func publishIfFollowed() {
    if source.hasChannel { publish?(own, source) }
  }
}

extension StoreNode {
  /// The turn of a child that follows only a part of this store's state.
  ///
  /// SAFETY: called from anywhere; nothing looks into confined values here: constants are read, and kept in the child's
  /// step and source, which will be confined themselves.
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
