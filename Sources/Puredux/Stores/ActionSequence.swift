extension StoreType {
  /// Sends the actions of a sequence one after the other, each after the commit of the one before it, until the
  /// sequence ends.
  ///
  ///     try await store.send(contentsOf: socket.messages.map(RoomAction.received))
  ///
  /// A child task of the caller's reads the sequence. When the caller is cancelled or the store ends, it is cancelled,
  /// and no more actions are sent. A sequence that neither yields an action nor checks for cancellation is still
  /// awaited.
  ///
  /// - Throws: The sequence's own error; `CancellationError` if the caller is cancelled; `StoreError.terminated` when
  ///   the store ends, even while the sequence yields nothing; and the errors of `send`, such as `.unmapped` and
  ///   `.rejected`. If the store follows a log, a cancelled caller gets the error of the action that waits for the log.
  ///   Actions sent before are committed.
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
