extension StoreType {
  /// Gives the store an action, and returns after its commit, as `send(_:)`, unless that takes longer than a limit.
  ///
  ///     do {
  ///       try await board.send(.rename("Plans"), within: .seconds(2))
  ///     } catch StoreError.withdrawn {
  ///       // Nothing has happened: it can be sent again.
  ///     } catch StoreError.outcomeUnknown {
  ///       // It may be committed, maybe later.
  ///     }
  ///
  /// A store that follows no log commits the action in its turn, and so only the wait for that counts. What the tree
  /// does at the moment, such as a reducer that takes its time, is waited for in any case.
  ///
  /// - Parameters:
  ///   - action: What the store is given.
  ///   - limit: Measured by the clock that the store is made with. With zero or less the action is committed if nothing
  ///     is before it and the store follows no log, and withdrawn otherwise. More than a hundred years count as a
  ///     hundred years.
  ///   - isolation: The caller's actor.
  /// - Throws: `StoreError.withdrawn` if the time was over before the action's turn, or before the log that the store
  ///   follows has been given it: it changes nothing. `.outcomeUnknown` if the log has: it may be committed. Everything
  ///   else as `send(_:)`.
  public func send(
    _ action: Action, within limit: Duration, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    try await store().route.send(action, within: limit, isolation: isolation) { _ in }
  }

  /// As `send(_:within:)`, and reads the state right after that very commit, as `send(_:reading:)`. The closure is not
  /// called where the action was given up.
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
