extension AnyStoreNode {
  @usableFromInline func whileAlive(
    isolation: isolated (any Actor)? = #isolation, _ body: @escaping @Sendable () async throws -> Void
  ) async throws {
    if refuses(nil) { throw errorWhenClosed }
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
