extension Dispatch {
  /// Sleeps on the store's clock, for pauses within an effect: a test with its own clock need not wait. Does not sleep
  /// for a duration of zero or less.
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
    try await sleep { clock, effect in await clock.wait(duration, in: effect) }
  }

  /// Sleeps on the store's clock until a time of day and year; not at all if it has come. So it means the same in a
  /// process that is started later, and finds the time in its state:
  ///
  ///     .onChange(of: \.endsAt) { endsAt in
  ///       .run { dispatch in
  ///         try await dispatch.sleep(until: endsAt)
  ///         dispatch(.end)
  ///       }
  ///     }
  ///
  /// It sleeps for the time that is left, and then checks the clock again. If the clock is set back meanwhile, it
  /// sleeps on until the time has come. If the clock is set forward, it returns when the time that was left is over.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public func sleep(until time: WallTime) async throws {
    try await sleep { clock, effect in await clock.wait(until: time, in: effect) }
  }

  /// Like `sleep(for:)`, for work that lasts as long as its store. A store that finishes (`InterceptorShutdown.finish`)
  /// does not wait for this work, like work that waits for a state.
  package func pause(for duration: Duration) async throws {
    try await sleep { clock, effect in await clock.wait(duration, in: effect, for: .interval) }
  }

  /// The time of day and year by the store's clock, if it is a `WallClock`. With the continuous or suspending clock, it
  /// is the system's time. Any other clock goes on from the system's time when the store was made.
  public var now: WallTime { node?.wallTime ?? .now }

  private func sleep(_ wait: (ElapsedClock, RunningEffect?) async -> Void) async throws {
    if let node {
      await wait(node.effects.settings.clock, RunningEffect.current.flatMap { node.hosts($0) ? $0 : nil })
    } else {
      await wait(ElapsedClock(ContinuousClock()), nil)
    }
    try Task.checkCancellation()
  }
}

extension EffectContext {
  /// The time of day and year, like `Dispatch.now`.
  public var now: WallTime { dispatch.now }
}

extension AnyStoreNode {
  var wallTime: WallTime { existingEffects?.settings.clock.wallTime ?? .now }
}
