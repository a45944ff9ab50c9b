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
    try await sleep { clock, effect in await clock.wait(duration, in: effect) }
  }

  /// Sleeps on that clock until a time of day and year has come; not at all if it has. So it means the same in a
  /// process that is started later, and finds the time in its state:
  ///
  ///     .onChange(of: \.endsAt) { endsAt in
  ///       .run { dispatch in
  ///         try await dispatch.sleep(until: endsAt)
  ///         dispatch(.end)
  ///       }
  ///     }
  ///
  /// It sleeps for as long as is left, and looks at the time again. So where the machine's clock is set back meanwhile,
  /// it goes on until the time has come; where that is set forward, it returns when what was left is over.
  ///
  /// - Throws: `CancellationError` if the task is cancelled.
  public func sleep(until time: WallTime) async throws {
    try await sleep { clock, effect in await clock.wait(until: time, in: effect) }
  }

  /// As `sleep(for:)`, for work that goes on for as long as its store does: a store that finishes
  /// (`InterceptorShutdown.finish`) waits neither for this work nor for work that waits for a state.
  package func pause(for duration: Duration) async throws {
    try await sleep { clock, effect in await clock.wait(duration, in: effect, for: .interval) }
  }

  /// The time of day and year, by the clock that the store is made with; by the system's, unless that is a `WallClock`
  /// or of some kind of its own, which goes on from the system's time when the store was made.
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
  /// The time of day and year, as `Dispatch.now`.
  public var now: WallTime { dispatch.now }
}

extension AnyStoreNode {
  /// A tree without settings of its own has the continuous clock.
  var wallTime: WallTime { existingEffects?.settings.clock.wallTime ?? .now }
}
