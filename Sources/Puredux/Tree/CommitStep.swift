/// What one store does in a commit. Lives on the tree's executor.
///
/// An action passes from store to store, up to the root (`StoreNode.commit`). Not copyable, so that its closures are
/// called in place: a copy would be reference-counted, at two atomic operations per commit.
@usableFromInline struct CommitStep<Action: Sendable>: ~Copyable {
  /// Changes the state that a store owns. It captures nothing but the reducer, so that a reducer that is known where
  /// the store is made becomes part of it. Given the action in place, so that it is not copied at each level. The action
  /// is never changed.
  @usableFromInline typealias Reduce = (AnyOwnState, inout Action) -> Void
  /// Publishes the state that a store owns to the followers of its source.
  @usableFromInline typealias Publish = (AnyOwnState, AnySource) -> Void

  /// What is called for every commit. A structure, because generic code wraps a bare closure once more, in two objects,
  /// each time it passes it on.
  @usableFromInline struct OnCommit {
    /// Given `about`, so that a closure that captures nothing else but constants is compiled for these.
    @usableFromInline typealias Tell = (AnyObject, inout Action, StoreNode<Action>) -> Void

    /// Called before the commit, with the action in place.
    @usableFromInline let prepare: ((inout Action) -> Void)?
    /// Called after the commit, also with the store that the action was given to.
    @usableFromInline let tell: Tell
    @usableFromInline let about: AnyObject

    @usableFromInline init(_ about: AnyObject, prepare: ((inout Action) -> Void)?, tell: @escaping Tell) {
      self.about = about
      self.prepare = prepare
      self.tell = tell
    }

    @inlinable @inline(__always) func tell(_ action: inout Action, _ node: StoreNode<Action>) {
      tell(about, &action, node)
    }
  }

  @usableFromInline let own: AnyOwnState
  @usableFromInline let reduce: Reduce
  /// What else is done with an action on the path from here to the root. Nil if there are only reducers.
  @usableFromInline let stages: AnyCommitStages<Action>?
  /// The store's source: to end its sequences, and to drop the state of a released store.
  @usableFromInline let source: AnySource
  /// The last step of a commit, at the root store. Other stores have none.
  @usableFromInline let publish: Publish?

  @usableFromInline init(
    _ own: AnyOwnState, reduce: @escaping Reduce, stages: AnyCommitStages<Action>?, source: AnySource,
    publish: Publish?
  ) {
    self.own = own
    self.reduce = reduce
    self.stages = stages
    self.source = source
    self.publish = publish
  }

  @inlinable @inline(__always) borrowing func reduce(_ action: inout Action) { reduce(own, &action) }

  /// Publishes what has been reduced. Kept out of the code that commits without followers.
  @inlinable @inline(__always) borrowing func publishIfFollowed() {
    if source.hasChannel { publish?(own, source) }
  }
}

extension StoreNode {
  /// Takes an action through the reducers of the path, from this store's up to the root's, and publishes the result.
  ///
  /// SAFETY: called only on the tree's executor, to which the steps of all its stores are confined. As for `climb`.
  @inlinable @inline(__always) func commit(_ action: inout Action) {
    var last = unsafe Unmanaged.passUnretained(self)
    var next = unsafe Optional(last)
    while let node = unsafe next {
      unsafe node._withUnsafeGuaranteedRef { unsafe $0.step.unconfined.reduce(&action) }
      unsafe last = node
      unsafe next = node._withUnsafeGuaranteedRef { unsafe $0.above }
    }
    unsafe last._withUnsafeGuaranteedRef { unsafe $0.step.unconfined.publishIfFollowed() }
  }
}

/// Middleware of a store, and what an action passes behind it. Lives on the tree's executor.
@usableFromInline final class MiddlewareLink<Action: Sendable> {
  /// Handles an action, which is passed in place, as to `CommitStep.Reduce`; given this link, so that a closure that
  /// captures nothing but the middleware is compiled for that, and the stages that the action passes.
  @usableFromInline typealias Handle = (MiddlewareLink<Action>, inout Action, AnyCommitStages<Action>) -> Void

  @usableFromInline let handle: Handle
  /// The source of the store that it belongs to.
  @usableFromInline let source: AnySource
  private let depth: Int
  // SAFETY: changed only by the deinitializer, so there are no accesses to check.
  @usableFromInline @exclusivity(unchecked) var next: MiddlewareLink?

  @usableFromInline init(_ handle: @escaping Handle, showing source: AnySource, before next: MiddlewareLink?) {
    self.handle = handle
    self.source = source
    depth = (next?.depth ?? 0) + 1
    unsafe self.next = next
  }

  /// Without reference counting. SAFETY: the caller holds it.
  @inlinable @inline(__always) func perform(_ action: inout Action, _ stages: AnyCommitStages<Action>) {
    unsafe Unmanaged.passUnretained(self)._withUnsafeGuaranteedRef { $0.handle($0, &action, stages) }
  }

  deinit {
    if Depth.isBreak(depth) { ReleaseQueue.deep.release { unsafe Confined(storing: next.take()) } }
  }
}

/// What is done with the actions of a store besides reducing them and publishing the result. One object for all of
/// them, as only one is on its way at a time.
@usableFromInline @safe class AnyCommitStages<Action: Sendable> {
  /// Commits an action. A closure, as an overridden method is not specialized.
  @usableFromInline typealias Commit = (inout Action, AnyCommitStages<Action>) -> Void
  /// What is done where the order comes from elsewhere. Returns why there was no commit.
  @usableFromInline typealias Process = (inout Action, StoreNode<Action>, AnyCommitStages<Action>) -> StoreError?

  /// The first middleware, if there is any: of this store or one above it.
  @usableFromInline final let middleware: MiddlewareLink<Action>?
  @usableFromInline final let commit: Commit
  @usableFromInline final let process: Process?
  /// The action that the store is given at its end: once, even if it is both shut down and released.
  @usableFromInline final var last: Action?

  // Without the run-time checks for overlapping accesses.
  //
  // SAFETY: reached only from the tree's isolation, where one section is entered at a time (`Tree.enter`); an access
  // copies a value out or sets it.

  /// The store that the action was given to. SAFETY: set only while the tree processes an action of that store, and so
  /// holds the store.
  @usableFromInline @exclusivity(unchecked) final var current: Unmanaged<StoreNode<Action>>?
  @usableFromInline @exclusivity(unchecked) final var hasCommitted = false
  @usableFromInline @exclusivity(unchecked) final var rejection: RejectionReason?

  @usableFromInline init(
    middleware: MiddlewareLink<Action>?, last: Action?, process: Process?, commit: @escaping Commit
  ) {
    self.middleware = middleware
    self.last = last
    self.process = process
    self.commit = commit
  }

  /// Returns why there was no commit.
  @inlinable final func process(_ action: inout Action, from node: StoreNode<Action>) -> StoreError? {
    if process != nil { return process?(&action, node, self) }
    begin(at: node)
    if middleware == nil { commit(&action, self) } else { middleware?.perform(&action, self) }
    return end()
  }

  @inlinable final func begin(at node: StoreNode<Action>) {
    unsafe current = Unmanaged.passUnretained(node)
    unsafe hasCommitted = false
    unsafe rejection = nil
  }

  /// Returns why the action was not committed, if it was not.
  @inlinable final func end() -> StoreError? {
    unsafe current = nil
    return unsafe hasCommitted ? nil : .rejected(reason: rejection)
  }

  /// Nil while no action is on its way.
  @inlinable final var node: StoreNode<Action>? { unsafe current?.takeUnretainedValue() }
  @inlinable final var storeID: StoreID { node?.id ?? .root }
  @inlinable final var isCommitted: Bool { unsafe hasCommitted }

  @inlinable final func reject(_ reason: RejectionReason) { unsafe rejection = reason }
}
