/// A middleware in the tree. Lives on the tree's executor.
@usableFromInline final class CommitHandler<Action: Sendable> {
  /// Handles an action, in place. Also gets this object, so that a closure that captures only the user's closure is
  /// compiled for it.
  @usableFromInline typealias Handle = (CommitHandler<Action>, inout Action, StoreNode<Action>, CommitStages<Action>) ->
    Void

  @usableFromInline let handle: Handle
  @usableFromInline let source: AnySource
  @usableFromInline let next: CommitHandler?
  @usableFromInline let isInstrument: Bool

  @usableFromInline init(
    _ handle: @escaping Handle, showing source: AnySource, before next: CommitHandler?, isInstrument: Bool = false
  ) {
    self.handle = handle
    self.source = source
    self.next = next
    self.isInstrument = isInstrument
  }

  /// Without reference counting. SAFETY: the caller holds it.
  @inlinable @inline(__always) func perform(
    _ action: inout Action, _ node: StoreNode<Action>, _ stages: CommitStages<Action>
  ) {
    unsafe Unmanaged.passUnretained(self)._withUnsafeGuaranteedRef { $0.handle($0, &action, node, stages) }
  }

  /// Passes an action on to the next handler, or commits it. Not inlined: the calling closure is then small enough to
  /// copy the action once, and not piece by piece.
  @inline(never) @inlinable func pass(_ action: inout Action, _ node: StoreNode<Action>, _ stages: CommitStages<Action>)
  {
    if let next { return next.perform(&action, node, stages) }
    stages.commit(&action, from: node)
  }
}
