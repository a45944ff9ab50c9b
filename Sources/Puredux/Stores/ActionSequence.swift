extension StoreType {
  /// Sends the actions of a sequence, each after the commit of the one before it.
  ///
  ///     try await store.send(contentsOf: socket.messages.map(RoomAction.received))
  ///
  /// A child task reads the sequence. It is cancelled, and no more actions are sent, when the caller is cancelled or
  /// the store ends. A sequence that neither yields an action nor checks for cancellation is still awaited.
  ///
  /// - Throws: The sequence's own error; `CancellationError` if the caller is cancelled; `StoreError.terminated` when
  ///   the store ends, even while the sequence yields nothing; and the errors of `send`. If the store follows a log, a
  ///   cancelled caller gets the error of the action that waits for the log. Actions sent before are committed.
  @inlinable public func send<Actions: AsyncSequence & Sendable>(
    contentsOf actions: Actions, isolation: isolated (any Actor)? = #isolation
  ) async throws where Actions.Element == Action {
    let proxy = store()
    try await proxy.route.node.whileAlive {
      for try await action in actions {
        try Task.checkCancellation()
        try await proxy.send(action)
      }
    }
  }
}

extension EffectContext {
  /// Work that reads and writes through a proxy of the interceptor's store. Its actions belong to the effect, like
  /// those of a `Dispatch` (G8).
  ///
  ///     .effects { action, context in
  ///       guard case .checkOut = action else { return nil }
  ///       return context.run { store in
  ///         let total = try await store.send(.freeze) { $0.total }
  ///         try await service.charge(total)
  ///         store.dispatch(.paid)
  ///       }.id("checkout", .first)
  ///     }
  ///
  /// Actions go to the store that the effect's action was given to. In a lifted interceptor, the state is the part's,
  /// and actions are mapped; reading an absent part throws `StoreError.stateUnavailable`.
  ///
  /// `send` throws `StoreError.terminated` once the effect is cancelled by its id or the state, or its store has ended.
  public func run(_ work: @escaping @Sendable (Store<State, Action>) async throws -> Void) -> Effect<Action> {
    let states = commit.publishing()
    return .run { dispatch in
      guard let route = Route(of: dispatch) else { return }
      try await work(Store(route: route, source: states))
    }
  }
}
