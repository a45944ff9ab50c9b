/// How the actions of a proxy reach its tree: unchanged, or through a projection.
///
/// Not an enumeration with two payloads: the optimizer sees through the cast to the node, so sending counts no
/// references. SAFETY: `isDirect` is set together with the object, by the two initializers, and neither changes.
@usableFromInline @safe struct Route<Action: Sendable>: Sendable {
  @usableFromInline enum Target {
    case direct(StoreNode<Action>)
    case mapped(Route<Action>.Mapped)
  }

  @usableFromInline let isDirect: Bool
  @usableFromInline let object: any AnyObject & Sendable

  @inlinable init(_ node: StoreNode<Action>) {
    object = node
    isDirect = true
  }

  @inlinable init(_ actions: Route<Action>.Mapped) {
    object = actions
    isDirect = false
  }

  @inlinable var target: Target {
    if isDirect { return unsafe .direct(unsafeDowncast(object, to: StoreNode<Action>.self)) }
    return unsafe .mapped(unsafeDowncast(object, to: Route<Action>.Mapped.self))
  }

  @inlinable var node: any AnyStoreNode {
    switch target {
    case .direct(let node): node
    case .mapped(let actions): actions.node
    }
  }
}

extension Route {
  /// The place in the tree's order is taken when this returns.
  @inline(never) @inlinable func subscribe(to source: Confined<AnySource>, _ buffering: Buffering) -> Subscriber {
    let isEnqueued: Bool
    let subscriber = Subscriber(madeFor: source, buffering, through: node)
    // Specialized only on the node itself.
    switch target {
    case .direct(let node): isEnqueued = node.enqueue(subscriber)
    case .mapped(let actions): isEnqueued = actions.node.enqueue(subscriber)
    }
    if !isEnqueued { subscriber.refuse() }
    return subscriber
  }

  @inlinable func map<Projected: Sendable>(_ transform: @escaping @Sendable (Projected) -> Action?)
    -> Route<Projected>.Mapped
  {
    switch target {
    case .direct(let node):
      Route<Projected>.Mapped(node: node, effect: nil) { action in
        guard let action = transform(action) else { return .unmapped }
        return node.dispatch(action)
      } send: { action, isolation throws(StoreError) in
        guard let action = transform(action) else { throw .unmapped }
        try await node.tree.send(action, from: node, isolation: isolation)
      } prepare: { action throws(StoreError) in
        guard let action = transform(action) else { throw .unmapped }
        return node.commit(of: action)
      }
    case .mapped(let actions):
      Route<Projected>.Mapped(node: actions.node, effect: actions.effect) { action in
        guard let action = transform(action) else { return .unmapped }
        return actions.dispatch(action)
      } send: { action, isolation throws(StoreError) in
        guard let action = transform(action) else { throw .unmapped }
        try await actions.send(action, isolation)
      } prepare: { action throws(StoreError) in
        guard let action = transform(action) else { throw .unmapped }
        return try actions.prepare(action)
      }
    }
  }
}

extension Route {
  @usableFromInline func tooDeep<Other: Sendable>() -> Route<Other> {
    Route<Other>(
      Route<Other>.Mapped(node: node.isTooDeep ? node : node.makeTooDeepView(), effect: nil) { _ in
        .tooDeep
      } send: { _, _ throws(StoreError) in
        throw .tooDeep
      } prepare: { _ throws(StoreError) in
        throw .tooDeep
      })
  }

  @usableFromInline func commit(of action: Action) -> ActionCommit? { try? prepared(action).0 }

  var commitWatch: CommitWatch<Action>? {
    switch target {
    case .direct(let node): CommitWatch(of: node)
    case .mapped(let actions): actions.commitWatch ?? actions.recipient.map { CommitWatch(of: $0) }
    }
  }

  @usableFromInline func dispatch(by effect: RunningEffect, _ revocation: Revocation) -> Dispatch<Action> {
    switch target {
    case .direct(let node): Dispatch(.effect(node, effect, revocation))
    case .mapped(let actions):
      Dispatch(
        .mapped(
          Dispatch.Mapped(of: actions.node, by: effect) { action, way in
            switch way {
            case .dispatch: .dispatched(actions.dispatch(action, by: effect, revocation))
            case .prepare: actions.prepare(action, by: effect, revocation)
            }
          }))
    }
  }

  @usableFromInline init?(of dispatch: Dispatch<Action>) {
    guard let node = dispatch.node else { return nil }
    self.init(
      Mapped(node: node, effect: dispatch.effect, recipient: dispatch.recipient) { action in
        dispatch(action)
      } send: { action, isolation throws(StoreError) in
        try await dispatch.send(action, isolation: isolation)
      } prepare: { action throws(StoreError) in
        try dispatch.prepare(action)
      })
  }
}

extension Route.Mapped {
  fileprivate func dispatch(_ action: Action, by effect: RunningEffect, _ revocation: Revocation) -> DispatchResult {
    if revocation.isRevoked { return .terminated }
    let commit: ActionCommit
    do throws(StoreError) { commit = try prepare(action) } catch { return error.dispatchResult }
    if let refusal = node.refusal(of: effect) { return refusal }
    revocation.noteDispatch()
    let command = node.placed(revokedBy: revocation) { tree throws(StoreError) in try commit(tree, true) }
    return node.enqueue(command, by: effect) ? .enqueued : node.resultWhenClosed
  }

  fileprivate func prepare(_ action: Action, by effect: RunningEffect, _ revocation: Revocation) -> DispatchAnswer {
    do throws(StoreError) {
      return .prepared(try node.prepared(by: effect, revocation, prepare(action)))
    } catch {
      return .refused(error)
    }
  }
}

extension Route {
  @usableFromInline final class Mapped: Sendable {
    @usableFromInline let node: any AnyStoreNode
    @usableFromInline let effect: RunningEffect?
    let recipient: StoreNode<Action>?
    let commitWatch: CommitWatch<Action>?
    @usableFromInline let dispatch: @Sendable (Action) -> DispatchResult
    @usableFromInline let send: @Sendable (Action, isolated (any Actor)?) async throws(StoreError) -> Void
    @usableFromInline let prepare: @Sendable (Action) throws(StoreError) -> ActionCommit

    /// Not inlined: inlined code would write the action to memory even for a direct dispatch.
    @inline(never) @inlinable func dispatchMapped(_ action: Action) -> DispatchResult { dispatch(action) }

    @usableFromInline init(
      node: any AnyStoreNode, effect: RunningEffect?, recipient: StoreNode<Action>? = nil,
      commitWatch: CommitWatch<Action>? = nil,
      dispatch: @escaping @Sendable (Action) -> DispatchResult,
      send: @escaping @Sendable (Action, isolated (any Actor)?) async throws(StoreError) -> Void,
      prepare: @escaping @Sendable (Action) throws(StoreError) -> ActionCommit
    ) {
      self.node = node
      self.effect = effect
      self.recipient = recipient
      self.commitWatch = commitWatch
      self.dispatch = dispatch
      self.send = send
      self.prepare = prepare
    }
  }
}

@usableFromInline struct CommitWatch<Action: Sendable>: Sendable {
  let begin: @Sendable (_ number: ObjectIdentifier, _ isOver: @escaping @Sendable (Action) -> Bool) -> Bool
  let end: @Sendable (_ number: ObjectIdentifier) -> Void

  init(of node: StoreNode<Action>) {
    begin = { node.tree.watch(node, as: $0, $1) }
    end = { node.tree.stopWatching(as: $0) }
  }

  init<Other: Sendable>(_ other: CommitWatch<Other>, _ transform: @escaping @Sendable (Other) -> Action?) {
    begin = { number, isOver in other.begin(number) { transform($0).map(isOver) ?? false } }
    end = other.end
  }
}

extension Store {
  /// A projection whose actions callers can also wait for, and that refuses every action while `refusal` returns an
  /// error.
  package func scripted<ScriptedState: Sendable, ScriptedAction: Sendable>(
    action toAction: @escaping @Sendable (ScriptedAction) -> Action,
    from fromAction: @escaping @Sendable (Action) -> ScriptedAction?,
    state toState: @escaping @Sendable (State) -> ScriptedState, refusing refusal: @escaping @Sendable () -> StoreError?
  ) -> Store<ScriptedState, ScriptedAction> {
    let plain = projection(action: toAction, state: toState)
    guard case .mapped(let actions) = plain.route.target else { return plain }
    let mapped = Route<ScriptedAction>.Mapped(
      node: actions.node, effect: actions.effect, commitWatch: route.commitWatch.map { CommitWatch($0, fromAction) }
    ) { action in
      refusal()?.dispatchResult ?? actions.dispatch(action)
    } send: { action, isolation throws(StoreError) in
      if let error = refusal() { throw error }
      try await actions.send(action, isolation)
    } prepare: { action throws(StoreError) in
      if let error = refusal() { throw error }
      return try actions.prepare(action)
    }
    return Store<ScriptedState, ScriptedAction>(route: Route(mapped), source: plain.source)
  }
}

extension StoreError {
  fileprivate var dispatchResult: DispatchResult {
    switch self {
    case .unmapped: .unmapped
    case .tooDeep: .tooDeep
    case .stopped: .stopped
    case .terminated: .terminated
    // `send` throws these errors after `dispatch` would have returned.
    case .stateUnavailable, .rejected, .outcomeUnknown, .withdrawn: .enqueued
    }
  }
}
