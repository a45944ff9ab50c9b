extension StoreType {
  /// Gives the store an action, and returns after its commit, like `send(_:)`, but gives up after a time limit.
  ///
  ///     do {
  ///       try await board.send(.rename("Plans"), within: .seconds(2))
  ///     } catch StoreError.withdrawn {
  ///       // Nothing has happened: it can be sent again.
  ///     } catch StoreError.outcomeUnknown {
  ///       // It may be committed, maybe later.
  ///     }
  ///
  /// Without a log, the action is committed in its turn, so the limit covers only the wait for that turn. A reducer
  /// that is running is always awaited.
  ///
  /// - Parameters:
  ///   - action: The action to commit.
  ///   - limit: Measured by the store's clock. With zero or less, the action is committed if nothing is before it and
  ///     the store follows no log, and withdrawn otherwise. More than a hundred years counts as a hundred years.
  ///   - isolation: The caller's actor.
  /// - Throws: `StoreError.withdrawn` if the limit was over before the action's turn, or before the store's log
  ///   received it: the action changes nothing. `.outcomeUnknown` if the log received it: the action may be committed.
  ///   Otherwise the errors of `send(_:)`.
  public func send(
    _ action: Action, within limit: Duration, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    try await store().route.send(action, within: limit, isolation: isolation) { _ in }
  }

  /// Like `send(_:within:)`, and reads the state right after that commit, like `send(_:reading:)`. The closure is not
  /// called if the action was given up.
  public func send<Result: Sendable>(
    _ action: Action, within limit: Duration, isolation: isolated (any Actor)? = #isolation,
    reading: @escaping @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    let proxy = store()
    let source = proxy.source
    let result = try await proxy.route.send(action, within: limit, isolation: isolation) { tree in
      source.read(on: tree, reading)
    }
    guard let result else { throw .stateUnavailable }
    return result
  }
}

extension Route {
  fileprivate func send<Result: Sendable>(
    _ action: Action, within limit: Duration, isolation: isolated (any Actor)?,
    reading: @escaping @Sendable (isolated any TreeIsolation) -> Result
  ) async throws(StoreError) -> Result {
    let node = node
    let (commit, effect) = try prepared(action)
    let limit = SendLimit(limit, by: node.effects.settings.clock)
    return try await node.run(isolation: isolation, by: effect) { tree throws(StoreError) in
      try commit(tree, false)
      return reading(tree)
    } pending: {
      PendingRequest(isSend: true, limit: limit) { tree throws(StoreError) in
        try commit(tree, true)
        return reading(tree)
      }
    }
  }
}
