/// The result of dispatching an action.
public enum DispatchResult: Sendable, Equatable {
  /// The action has its place in the order. It will be committed, unless middleware stops it (G9), or its effect is
  /// cancelled by its id or the state before the action's turn (G8).
  case enqueued
  /// Too many actions wait for the store's log: the action changes nothing. Try later, or use `send`, which waits.
  case overloaded
  /// The store follows a log and cannot go on: the action changes nothing. `send` throws the reason; the state can be
  /// read.
  case stopped
  /// The store is shut down or released, or the dispatching effect is cancelled: the action changes nothing.
  case terminated
  /// A projection maps the action to nil: no store gets it.
  case unmapped
  /// Nested deeper than 100 levels: the action changes nothing.
  case tooDeep
}

/// Dispatches actions to one store, such as the responses of an effect (G8).
///
/// Callable from anywhere, like the store's own `dispatch`. Does not keep the store alive. While the store finishes
/// (`InterceptorShutdown.finish`), an effect's dispatch returns `.enqueued` until the effect has ended.
public struct Dispatch<Action: Sendable>: Sendable {
  @usableFromInline enum Target: Sendable {
    case none
    case store(StoreNode<Action>)
    case effect(StoreNode<Action>, RunningEffect, Revocation?)
    case mapped(Mapped)
  }

  /// An object keeps the target small: interceptors get one with each action.
  @usableFromInline final class Mapped: Sendable {
    /// One closure for both ways, made at each call of a lifted interceptor.
    @usableFromInline let give: @Sendable (Action, DispatchWay) -> DispatchAnswer
    let node: (any AnyStoreNode)?
    let effect: RunningEffect?

    @usableFromInline init(
      of node: (any AnyStoreNode)?, by effect: RunningEffect?,
      _ give: @escaping @Sendable (Action, DispatchWay) -> DispatchAnswer
    ) {
      self.give = give
      self.node = node
      self.effect = effect
    }

    @inlinable func dispatch(_ action: Action) -> DispatchResult {
      if case .dispatched(let result) = give(action, .dispatch) { result } else { .terminated }
    }
  }

  @usableFromInline let target: Target

  @inlinable init(_ target: Target) { self.target = target }

  @inlinable init(node: StoreNode<Action>?) {
    target = node.map { .store($0) } ?? .none
  }

  /// Submits an action and returns at once; the action then has its place in the order (G1).
  ///
  /// - Returns: The result of the store's own `dispatch`; `.terminated` also if the effect is cancelled by its id or
  ///   the state, or has ended while its store finishes (G8).
  @discardableResult @inlinable public func callAsFunction(_ action: Action) -> DispatchResult {
    switch target {
    case .none: .terminated
    case .store(let node): node.dispatch(action)
    case .effect(let node, let effect, let revocation): node.dispatch(action, by: effect, revocation)
    case .mapped(let mapped): mapped.dispatch(action)
    }
  }

  /// Submits an action and returns after its commit, like the store's own `send`, and after everything that the effect
  /// dispatched before (G1, G8).
  ///
  ///     .run { dispatch in
  ///       for page in try await service.pages() { try await dispatch.send(.add(page)) }
  ///       dispatch(.loaded)
  ///     }
  ///
  /// To read the state as well, use `EffectContext.run`.
  ///
  /// - Throws: `StoreError.terminated` if the store is shut down or released, or if the effect is cancelled by its id
  ///   or the state before the action's turn: the action changes nothing. Otherwise the errors of a store's `send`.
  @inlinable public func send(
    _ action: Action, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    if case .store(let node) = target { return try await node.tree.send(action, from: node, isolation: isolation) }
    try await sendPrepared(action, isolation)
  }

  @usableFromInline func sendPrepared(
    _ action: Action, _ isolation: isolated (any Actor)?
  ) async throws(StoreError) {
    guard let node else { throw .terminated }
    let commit = try prepare(action)
    try await node.run(isolation: isolation, by: effect) { tree throws(StoreError) in
      try commit(tree, false)
    } pending: {
      PendingRequest(isSend: true) { tree throws(StoreError) in try commit(tree, true) }
    }
  }

  @usableFromInline func prepare(_ action: Action) throws(StoreError) -> ActionCommit {
    switch target {
    case .none: throw .terminated
    case .store(let node): return node.commit(of: action)
    case .effect(let node, let effect, let revocation):
      return try node.prepared(by: effect, revocation, node.commit(of: action))
    case .mapped(let mapped):
      switch mapped.give(action, .prepare) {
      case .prepared(let commit): return commit
      case .refused(let error): throw error
      case .dispatched: throw .terminated
      }
    }
  }

  @usableFromInline func give(_ action: Action, _ way: DispatchWay) -> DispatchAnswer {
    switch way {
    case .dispatch: return .dispatched(self(action))
    case .prepare:
      do throws(StoreError) { return .prepared(try prepare(action)) } catch { return .refused(error) }
    }
  }

  /// Maps actions of another type to the store's actions: for a feature that knows only its own.
  @inlinable public func map<Other: Sendable>(_ toAction: @escaping @Sendable (Other) -> Action) -> Dispatch<Other> {
    Dispatch<Other>(
      .mapped(
        Dispatch<Other>.Mapped(of: node, by: effect) { [self] action, way in give(toAction(action), way) }))
  }

  @usableFromInline var node: (any AnyStoreNode)? {
    switch target {
    case .none: nil
    case .store(let node), .effect(let node, _, _): node
    case .mapped(let mapped): mapped.node
    }
  }

  var recipient: StoreNode<Action>? {
    switch target {
    case .none, .mapped: nil
    case .store(let node), .effect(let node, _, _): node
    }
  }

  @usableFromInline var effect: RunningEffect? {
    switch target {
    case .none, .store: nil
    case .effect(_, let effect, _): effect
    case .mapped(let mapped): mapped.effect
    }
  }
}

extension StoreNode {
  @usableFromInline func dispatch(
    _ action: Action, by effect: RunningEffect, _ revocation: Revocation?
  ) -> DispatchResult {
    if revocation?.isRevoked == true { return .terminated }
    if let refusal = refusal(of: effect) { return refusal }
    revocation?.noteDispatch()
    let isAccepted =
      if revocation == nil, !needsPlacing {
        tree.enqueue(for: self, by: effect) { $0.append(action, from: self) }
      } else {
        tree.enqueue(placed(action, revocation), for: self, by: effect)
      }
    return isAccepted ? .enqueued : resultWhenClosed
  }

  @usableFromInline func commit(of action: Action) -> ActionCommit {
    { [self] _, isPlaced throws(StoreError) in try tree.acceptHere(action, from: self, isPlaced: isPlaced) }
  }

  @usableFromInline func placed(_ action: Action, _ revocation: Revocation? = nil) -> Command {
    placed(revokedBy: revocation) { [self] _ throws(StoreError) in
      try tree.acceptHere(action, from: self, isPlaced: true)
    }
  }
}

extension AnyStoreNode {
  /// The commit of an effect's `send`, refused if the effect is cancelled before the action's turn, unless an external
  /// order has taken it by then.
  func prepared(
    by effect: RunningEffect, _ revocation: Revocation?, _ commit: @escaping ActionCommit
  ) throws(StoreError) -> ActionCommit {
    if revocation?.isRevoked == true { throw .terminated }
    revocation?.noteDispatch()
    return { [self] tree, isPlaced throws(StoreError) in
      if revocation?.isRevoked == true, !commitsSubmitted { throw .terminated }
      if !isPlaced, refuses(effect) { throw errorWhenClosed }
      try committing(of: revocation?.awaitedWork, on: tree) { () throws(StoreError) in try commit(tree, true) }
    }
  }

  /// Skipped if the action is revoked before its turn.
  func placed(
    revokedBy revocation: Revocation?,
    _ commit: @escaping @Sendable (isolated any TreeIsolation) throws(StoreError) -> Void
  ) -> Command {
    .closure { [self, context = carriedContext, part = revocation?.awaitedWork?.enter()] tree in
      if revocation?.isRevoked == true { return }
      committing(of: part?.awaitedWork, on: tree) {
        // `dispatch` has returned, so a rejection reaches no caller.
        guard let context else { return _ = try? commit(tree) }
        context.restore { try? commit(tree) }
      }
      part?.end()
    }
  }
}

@usableFromInline enum DispatchAnswer: Sendable {
  case dispatched(DispatchResult)
  case prepared(ActionCommit)
  case refused(StoreError)
}

@usableFromInline enum DispatchWay: Sendable { case dispatch, prepare }

/// - Parameter isPlaced: Whether the action took its place in the order while the store was open.
@usableFromInline typealias ActionCommit =
  @Sendable (_ tree: isolated any TreeIsolation, _ isPlaced: Bool) throws(StoreError) -> Void

/// An object, so that a `send` without a limit stays small.
@usableFromInline final class SendLimit: Sendable {
  let clock: ElapsedClock
  let time: Duration

  init(_ limit: Duration, by clock: ElapsedClock) {
    self.clock = clock
    time = clock.now + limit.clamped
  }

  var isOver: Bool { clock.now >= time }
}
