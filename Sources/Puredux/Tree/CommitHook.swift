/// A store's interceptor, as the tree sees it: asked about each commit that passes the store. Lives on the tree's
/// executor, in the store's node.
@usableFromInline final class CommitHook<Action: Sendable> {
  /// Given `context`, so that a closure that otherwise captures only constants is compiled for them.
  @usableFromInline typealias Tell = (AnyObject, inout Action, StoreNode<Action>) -> Void

  /// Called before the commit, with the action in place, and the store that it was given to.
  @usableFromInline let prepare: ((inout Action, StoreNode<Action>) -> Void)?
  /// Called after the commit, also with the store that the action was given to.
  @usableFromInline let tell: Tell
  /// The interceptor's `CommitContext`.
  @usableFromInline let context: AnyObject

  @usableFromInline init(
    _ context: AnyObject, prepare: ((inout Action, StoreNode<Action>) -> Void)?, tell: @escaping Tell
  ) {
    self.context = context
    self.prepare = prepare
    self.tell = tell
  }
}

/// A caller that waits for an action that passes a store.
struct ActionWatch<Action: Sendable>: Sendable {
  let store: StoreNode<Action>
  /// Given each action that passes the store, until it returns true.
  let isOver: @Sendable (Action) -> Bool
}
