/// A store's interceptor in the tree. Lives on the tree's executor, in the store's node.
@usableFromInline final class CommitHook<Action: Sendable> {
  /// Gets `context`, so that a closure that otherwise captures only constants is compiled for them.
  @usableFromInline typealias Tell = (AnyObject, inout Action, StoreNode<Action>) -> Void

  @usableFromInline let prepare: ((inout Action, StoreNode<Action>) -> Void)?
  @usableFromInline let tell: Tell
  @usableFromInline let context: AnyObject

  @usableFromInline init(
    _ context: AnyObject, prepare: ((inout Action, StoreNode<Action>) -> Void)?, tell: @escaping Tell
  ) {
    self.context = context
    self.prepare = prepare
    self.tell = tell
  }
}

struct ActionWatch<Action: Sendable>: Sendable {
  let store: StoreNode<Action>
  /// Called with each action that passes the store, until it returns true.
  let isOver: @Sendable (Action) -> Bool
}
