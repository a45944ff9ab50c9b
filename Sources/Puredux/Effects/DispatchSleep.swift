extension Dispatch {
  /// Sleeps on the clock that the store is made with, for what an effect does between two dispatches: a test that
  /// provides its own clock need not wait. A duration of zero or less is none.
  ///
  ///     .while(\.isPolling) {
  ///       .run { dispatch in
  ///         while true {
  ///           dispatch(.loaded(try await service.load()))
  ///           try await dispatch.sleep(for: .seconds(5))
  ///         }
  ///       }.retried(.constant(.seconds(30)))
  ///     }
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public func sleep(for duration: Duration) async throws {
    if let node {
      let effect = RunningEffect.current.flatMap { node.hosts($0) ? $0 : nil }
      await node.effects.settings.clock.wait(duration, in: effect)
    } else {
      await ContinuousClock().wait(duration)
    }
    try Task.checkCancellation()
  }
}
