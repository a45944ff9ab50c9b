/// What has become of an action that a `Dispatch` was given in one of two ways.
@usableFromInline enum DispatchAnswer: Sendable {
  case dispatched(DispatchResult)
  case prepared(ActionCommit)
  case refused(StoreError)
}

/// What is done with an action that is mapped: it is dispatched, or prepared for a caller that waits for its commit.
@usableFromInline enum DispatchWay: Sendable { case dispatch, prepare }

/// Commits an action on the tree's executor, which is known to run it.
///
/// - Parameter isPlaced: Whether the action took its place in the order while the store was open.
@usableFromInline typealias ActionCommit =
  @Sendable (_ tree: isolated any TreeIsolation, _ isPlaced: Bool) throws(StoreError) -> Void
