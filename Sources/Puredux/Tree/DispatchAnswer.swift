@usableFromInline enum DispatchAnswer: Sendable {
  case dispatched(DispatchResult)
  case prepared(ActionCommit)
  case refused(StoreError)
}

@usableFromInline enum DispatchWay: Sendable { case dispatch, prepare }

/// Commits an action. Called on the tree's executor.
///
/// - Parameter isPlaced: Whether the action took its place in the order while the store was open.
@usableFromInline typealias ActionCommit =
  @Sendable (_ tree: isolated any TreeIsolation, _ isPlaced: Bool) throws(StoreError) -> Void
