extension StoreType {
  /// Gives the store an action, and returns when its effects have ended: those that interceptors have for it, those of
  /// the actions that they dispatch or send through what they are given, and so on (G8). Where there are none, it does
  /// what `send` does.
  ///
  ///     .refreshable { try? await store.perform(.refresh) }
  ///
  /// When it returns, the effects have left their ids: an effect of the next action meets none of them.
  ///
  /// If the calling task is cancelled, these effects are cancelled, as of that place in the order, and none begins any
  /// more; it returns when they have ended, or at once if the action still waits for a log. Effects of the state, and
  /// what interceptors themselves dispatch, belong to nobody's action, and are neither waited for nor cancelled. An
  /// effect may perform an action in its turn, and then waits for the effects of that one alone; it waits for ever if
  /// one of these waits, in turn under one id, for the performing one.
  ///
  /// The actions and effects that belong to it cost what those with an id do. For any other effect, the tree only looks
  /// whether the commit that it results from belongs to a call of this.
  ///
  /// - Throws: As `send`.
  public func perform(
    _ action: Action, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    try await store().route.perform(action, isolation: isolation)
  }
}

extension Route {
  fileprivate func perform(_ action: Action, isolation: isolated (any Actor)?) async throws(StoreError) {
    let owner = EffectOwner()
    let awaitedWork = AwaitedWork(owner: owner)
    let node = node
    let (commit, effect) = try prepared(action)
    let outcome: Result<Void, StoreError> = await withTaskCancellationHandler {
      let outcome = await Self.commit(by: commit, of: awaitedWork, on: node, by: effect, isolation: isolation)
      awaitedWork.leave()
      // The action may be committed when the log is back, or has been withdrawn: there is nothing to wait for.
      switch outcome {
      case .failure(.outcomeUnknown), .failure(.withdrawn): return outcome
      case .failure, .success: break
      }
      // The effects of another tree are not looked at where this one's are.
      await awaitedWork.untilOver(of: RunningEffect.ofThisTask.flatMap { node.hosts($0) ? $0 : nil })
      return outcome
    } onCancel: {
      // In its place in the order: a commit that cancels the caller still has all of its own effects.
      node.place(
        .closure { _ in
          awaitedWork.cancel()
          EffectOwner.cancel([owner])
        })
    }
    try outcome.get()
  }

  /// A closure that commits an action in its turn, and the effect that gives the action, if one does.
  func prepared(_ action: Action) throws(StoreError) -> (ActionCommit, by: RunningEffect?) {
    switch target {
    case .direct(let node): (node.commit(of: action), nil)
    case .mapped(let actions): (try actions.prepare(action), actions.effect)
    }
  }

  private static func commit(
    by commit: @escaping ActionCommit, of awaitedWork: AwaitedWork, on node: any AnyStoreNode,
    by effect: RunningEffect?,
    isolation: isolated (any Actor)?
  ) async -> Result<Void, StoreError> {
    do throws(StoreError) {
      try await node.run(isolation: isolation, by: effect) { tree throws(StoreError) in
        try node.committing(of: awaitedWork, on: tree) { () throws(StoreError) in try commit(tree, false) }
      } pending: {
        PendingRequest(isSend: true) { tree throws(StoreError) in
          try node.committing(of: awaitedWork, on: tree) { () throws(StoreError) in try commit(tree, true) }
        }
      }
      return .success(())
    } catch {
      return .failure(error)
    }
  }
}
