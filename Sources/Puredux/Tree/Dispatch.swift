/// What became of a dispatched action.
public enum DispatchResult: Sendable, Equatable {
  /// The action has its place in the order and will be committed, unless middleware stops it (G9), or it comes from an
  /// effect with an id that is cancelled before the action's turn (G8).
  case enqueued
  /// The store follows a log, and what waits for that has reached its bound: the action changes nothing. Try later, or
  /// `send`, which waits.
  case overloaded
  /// The store follows a log, and cannot go on: the action changes nothing. It can still be read; why, `send` throws
  /// and `statistics` says.
  case stopped
  /// The store is shut down or released, or the dispatching effect is cancelled: the action changes nothing.
  case terminated
  /// A projection maps the action to nothing: no store was given it.
  case unmapped
}

/// Dispatches actions to one store: passed to an effect, to respond to the store its action was given to (G8).
///
/// Synchronous and callable from anywhere, like the store's own `dispatch`. Does not keep the store alive. While the
/// store finishes (`InterceptorShutdown.finish`) an effect's dispatch returns `.enqueued` until the effect has ended.
public struct Dispatch<Action: Sendable>: Sendable {
  @usableFromInline enum Target: Sendable {
    /// There is no store to dispatch to any more.
    case none
    case store(StoreNode<Action>)
    /// By an effect, which may be cancelled by its id.
    case effect(StoreNode<Action>, RunningEffect, Revocation?)
    /// Maps the action to one of another type, which a store takes.
    case mapped(Mapped)
  }

  /// An object, so that a target, which is passed to interceptors with each action, is small.
  @usableFromInline final class Mapped: Sendable {
    @usableFromInline let give: @Sendable (Action) -> DispatchResult
    let node: (any AnyStoreNode)?

    @usableFromInline init(of node: (any AnyStoreNode)?, _ give: @escaping @Sendable (Action) -> DispatchResult) {
      self.give = give
      self.node = node
    }
  }

  @usableFromInline let target: Target

  @inlinable init(_ target: Target) { self.target = target }

  @inlinable init(node: StoreNode<Action>?) {
    target = node.map { .store($0) } ?? .none
  }

  @discardableResult @inlinable public func callAsFunction(_ action: Action) -> DispatchResult {
    switch target {
    case .none: .terminated
    case .store(let node): node.dispatch(action)
    case .effect(let node, let effect, let revocation): node.dispatch(action, by: effect, revocation)
    case .mapped(let mapped): mapped.give(action)
    }
  }

  /// The same for actions of another type, which are mapped to actions of the store: for the part of a feature that
  /// knows only its own actions.
  @inlinable public func map<Other: Sendable>(_ toAction: @escaping @Sendable (Other) -> Action) -> Dispatch<Other> {
    Dispatch<Other>(.mapped(Dispatch<Other>.Mapped(of: node) { [self] in self(toAction($0)) }))
  }

  @usableFromInline var node: (any AnyStoreNode)? {
    switch target {
    case .none: nil
    case .store(let node), .effect(let node, _, _): node
    case .mapped(let mapped): mapped.node
    }
  }
}

extension StoreNode {
  /// Gives an action of an effect its place in the order.
  @usableFromInline func dispatch(
    _ action: Action, by effect: RunningEffect, _ revocation: Revocation?
  ) -> DispatchResult {
    if revocation?.isRevoked == true { return .terminated }
    if let refusal, !refuses(effect) { return refusal }
    revocation?.noteDispatch()
    let isAccepted =
      if revocation == nil, !needsPlacing {
        tree.enqueue(for: self, by: effect) { $0.append(action, from: self) }
      } else {
        tree.enqueue(placed(action, revocation), for: self, by: effect)
      }
    return isAccepted ? .enqueued : .terminated
  }

  @usableFromInline func placed(_ action: Action, _ revocation: Revocation? = nil) -> Command {
    placed(revokedBy: revocation) { [self] _ throws(StoreError) in
      try tree.acceptHere(action, from: self, isPlaced: true)
    }
  }
}

extension AnyStoreNode {
  /// The commit of an action with what belongs to its place in the order: the dispatcher's task-local values, if the
  /// tree carries any, and the revocation of an effect that may be cancelled: an action revoked before its turn is not
  /// committed.
  func placed(
    revokedBy revocation: Revocation?,
    _ commit: @escaping @Sendable (isolated any TreeIsolation) throws(StoreError) -> Void
  ) -> Command {
    .closure { [context = carriedContext] tree in
      if revocation?.isRevoked == true { return }
      // If middleware stops the action, there is nobody to tell: `dispatch` has returned.
      guard let context else { return _ = try? commit(tree) }
      context.restore { try? commit(tree) }
    }
  }
}
