/// What handles an action before its commit, in one store, and what comes behind it: a middleware, as the tree sees it.
/// Lives on the tree's executor.
@usableFromInline final class CommitHandler<Action: Sendable> {
  /// Handles an action, which is passed in place, as to `CommitStep.Reduce`; given this object, so that a closure that
  /// captures nothing but the user's is compiled for that, the store that the action was given to, and the stages that
  /// the action passes.
  @usableFromInline typealias Handle = (CommitHandler<Action>, inout Action, StoreNode<Action>, CommitStages<Action>) ->
    Void

  @usableFromInline let handle: Handle
  /// The source of the store that it belongs to.
  @usableFromInline let source: AnySource
  @usableFromInline let next: CommitHandler?

  @usableFromInline init(_ handle: @escaping Handle, showing source: AnySource, before next: CommitHandler?) {
    self.handle = handle
    self.source = source
    self.next = next
  }

  /// Without reference counting. SAFETY: the caller holds it.
  @inlinable @inline(__always) func perform(
    _ action: inout Action, _ node: StoreNode<Action>, _ stages: CommitStages<Action>
  ) {
    unsafe Unmanaged.passUnretained(self)._withUnsafeGuaranteedRef { $0.handle($0, &action, node, stages) }
  }

  /// What happens to an action that is passed on. Not inlined: the closure that calls it is then small enough to copy
  /// the action once, and not piece by piece.
  @inline(never) @inlinable func pass(_ action: inout Action, _ node: StoreNode<Action>, _ stages: CommitStages<Action>)
  {
    if let next { return next.perform(&action, node, stages) }
    stages.commit(&action, from: node)
  }
}
