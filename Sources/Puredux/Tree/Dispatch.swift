/// What became of an action that was dispatched.
public enum DispatchResult: Sendable, Equatable {
  /// It has its place in the order and will be committed, unless middleware stops it (G9).
  case enqueued
  /// The store is shut down or released: the action changes nothing.
  case terminated
  /// A projection maps the action to nothing: it was given to no store.
  case unmapped
}

/// Gives actions to one store: what an interceptor is handed, to answer the store that an action came from (G8).
///
/// Synchronous and callable from anywhere, like the store's own `dispatch`. Does not keep the store alive.
public struct Dispatch<Action: Sendable>: Sendable {
  /// None where there is no store to give them to any more.
  @usableFromInline let node: StoreNode<Action>?

  @inlinable init(node: StoreNode<Action>?) {
    self.node = node
  }

  @discardableResult @inlinable public func callAsFunction(_ action: Action) -> DispatchResult {
    node?.dispatch(action) ?? .terminated
  }
}
