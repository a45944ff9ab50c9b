/// The outcome of giving a mapped action in one of the ways of `DispatchWay`.
@usableFromInline enum DispatchAnswer: Sendable {
  case dispatched(DispatchResult)
  case prepared(ActionCommit)
  case refused(StoreError)
}

/// The two ways to give a mapped action: to dispatch it, or to prepare it for a caller that waits for its commit.
@usableFromInline enum DispatchWay: Sendable { case dispatch, prepare }

/// Commits an action. Called on the tree's executor.
///
/// - Parameter isPlaced: Whether the action took its place in the order while the store was open.
@usableFromInline typealias ActionCommit =
  @Sendable (_ tree: isolated any TreeIsolation, _ isPlaced: Bool) throws(StoreError) -> Void
