extension StoreType {
  /// Sends the actions of a sequence, one after the other, until it ends: the next one is requested when the previous
  /// one has been committed.
  ///
  ///     try await store.send(contentsOf: socket.messages.map(RoomAction.received))
  ///
  /// The sequence is read in a child task of the caller's, which is cancelled with the caller, and when the store ends.
  /// After that no action is sent; but a sequence that neither yields one nor checks for cancellation is still awaited.
  ///
  /// - Throws: What the sequence throws; `CancellationError` when the caller is cancelled; `StoreError.terminated` when
  ///   the store ends, even while the sequence yields nothing; what `send` throws for an action that a projection or
  ///   middleware does not accept, and, where the store follows a log, for the one that waits for that when the caller
  ///   is cancelled. What was sent before is committed.
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
