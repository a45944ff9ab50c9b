extension StoreType {
  /// Sends the actions of a sequence, one after the other, until it ends: the next one is asked for when the last is committed.
  ///
  ///     try await store.send(contentsOf: socket.messages.map(RoomAction.received))
  ///
  /// The sequence is read in a child task of the caller's, which is cancelled with the caller, and when the store ends. After that no action is sent; but a sequence
  /// that neither gives an action nor looks at its cancellation is waited for.
  ///
  /// - Throws: What the sequence throws; `CancellationError` when the caller is cancelled; `StoreError.terminated` when the store ends, also while the sequence has nothing; what `send` throws for an
  ///   action that a projection or middleware does not take. What was sent before is committed.
  @inlinable
  public func send<Actions: AsyncSequence & Sendable>(
    contentsOf actions: Actions, isolation: isolated (any Actor)? = #isolation
  ) async throws where Actions.Element == Action {
    let proxy = store()
    try await proxy.route.place.whileAlive {
      for try await action in actions {
        try Task.checkCancellation()
        try await proxy.send(action)
      }
    }
  }
}

extension StorePlace {
  /// Runs something in a child task that is cancelled when the store ends.
  @usableFromInline
  func whileAlive(
    isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () async throws -> Void
  ) async throws {
    if isClosed { throw StoreError.terminated }
    let (end, continuation) = AsyncStream<Never>.makeStream()
    let ending = effects.atEnd(of: self) { continuation.finish() }
    defer { effects.forget(ending) }
    try await withThrowingTaskGroup { group in
      group.addTask {
        try await body()
        return true
      }
      group.addTask {
        for await _ in end {}
        return false
      }
      // The first to end ends the other.
      let isFinished = try await group.next() == true
      group.cancelAll()
      try Task.checkCancellation()
      if isFinished { return }
      _ = try? await group.next()
      throw StoreError.terminated
    }
  }
}
