/// Lives on the tree's executor. Not copyable: a copy of its closures would cost two atomic operations per commit.
@usableFromInline struct CommitStep<Action: Sendable>: ~Copyable {
  /// Captures only the reducer, so that a known reducer is inlined into it. The action is `inout` to save a copy per
  /// level, and is never changed.
  @usableFromInline typealias Reduce = (AnyStateStorage, inout Action) -> Void
  @usableFromInline typealias Publish = (AnyStateStorage, AnySource) -> Void

  @usableFromInline let own: AnyStateStorage
  @usableFromInline let reduce: Reduce
  @usableFromInline let stages: CommitStages<Action>?
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

  /// A closure keeps this code out of commits without followers.
  @inlinable @inline(__always) borrowing func publishIfFollowed() {
    if source.hasChannel { publish?(own, source) }
  }
}

extension StoreNode {
  /// The turn of a child store of a part.
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
