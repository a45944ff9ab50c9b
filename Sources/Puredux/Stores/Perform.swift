extension StoreType {
  /// Submits an action, and returns when its effects have ended (G8): those that interceptors have for it, those of the
  /// actions that they dispatch or send, and so on. Without effects, it is `send`.
  ///
  ///     .refreshable { try? await store.perform(.refresh) }
  ///
  /// These effects have then left their ids: an effect of the next action meets none of them.
  ///
  /// If the calling task is cancelled, these effects are cancelled at that place in the order, and no more begin. The
  /// call returns when they have ended, or at once if the action still waits for a log. Effects of the state, and
  /// actions that an interceptor itself dispatches, are neither awaited nor cancelled.
  ///
  /// An effect may perform an action:
  ///
  /// - It waits for the effects of that action alone, forever if one of these waits, in turn under one id, for the
  ///   performing effect.
  /// - If it is cancelled, these effects are cancelled from the next place in the order on. A commit that cancels the
  ///   caller of its own action still has all of its effects until then.
  /// - If the action was given to a store of its own tree, the performing effect is at rest (`settled`) while these
  ///   effects are.
  ///
  /// `settled` does not wait for the effects of an action performed on a store above.
  ///
  /// Cost: that of an effect with an id, for each action or effect of the call; otherwise one check per effect.
  ///
  /// - Throws: The errors of `send`.
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
      // Not awaited: the action may be withdrawn, or committed when the log is back.
      switch outcome {
      case .failure(.outcomeUnknown), .failure(.withdrawn): return outcome
      case .failure, .success: break
      }
      await awaitedWork.untilOver(of: RunningEffect.ofThisTask.flatMap { node.hosts($0) ? $0 : nil })
      return outcome
    } onCancel: {
      // At its place in the order, after the commit in progress has begun its effects.
      node.place(
        .closure { _ in
          awaitedWork.cancel()
          EffectOwner.cancel([owner])
        })
    }
    try outcome.get()
  }

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
