/// The time that a wait was given is over.
public struct TimedOut: Error, Sendable, Equatable {
  /// For closures that wait in their own way, and for tests.
  public init() {}
}

extension StoreType {
  /// The time of day and year, by the clock that the store is made with, as `Dispatch.now`. What is dispatched takes it
  /// from here, as a reducer must not look at a clock; a test provides another (`ManualClock`).
  public var now: WallTime { store().route.node.wallTime }

  /// Returns the first state for which a condition holds: the present one, or one of those that the store publishes
  /// later.
  ///
  ///     try await store.first(where: \.isReady, within: .seconds(5))
  ///
  /// It takes its place in the order when it is called (G5): nothing is lost in between. The condition is evaluated on
  /// the tree's executor, for each commit that the store publishes, until it holds: it should be cheap. No state is
  /// kept. An effect of this or another tree that waits in its own task is at rest, as one that follows states (G8).
  ///
  /// - Parameters:
  ///   - condition: Whether a state is what is waited for.
  ///   - limit: Measured by the clock that the store is made with. Without it, the wait lasts until the end of the
  ///     store. With zero or less only the present state counts.
  ///   - isolation: The caller's actor.
  /// - Throws: `TimedOut` when the time is over; `StoreError.terminated` when the store ends; `CancellationError` when
  ///   the task is cancelled.
  @discardableResult public func first(
    where condition: @escaping @Sendable (State) -> Bool, within limit: Duration? = nil,
    isolation: isolated (any Actor)? = #isolation
  ) async throws -> State {
    let proxy = store()
    let node = proxy.route.node
    let outcome = FirstOutcome<State>()
    let follower = proxy.source.map { states in
      Follower(
        of: states,
        StateFollowing(
          tell: { if outcome.isOpen, condition($0) { outcome.end(with: .success($0)) } }, vanish: {})
      ) {
        outcome.end(with: .failure(StoreError.terminated))
      }
    }
    guard node.enqueue({ tree in follower(on: tree).begin() }) else { throw node.errorWhenClosed }
    defer { _ = node.enqueue { tree in follower(on: tree).detachIfIdle() } }
    return try await node.untilEnded(outcome, within: limit, isolation: isolation)
  }

  /// Returns the first action for which a condition holds, of those that are committed from now on: given to this store
  /// or one below it. Otherwise as `firstAction(matching:within:)`.
  @discardableResult public func firstAction(
    where condition: @escaping @Sendable (Action) -> Bool, within limit: Duration? = nil,
    isolation: isolated (any Actor)? = #isolation
  ) async throws -> Action {
    try await firstAction(matching: { condition($0) ? $0 : nil }, within: limit, isolation: isolation)
  }

  /// Returns what a pattern finds in the first action that matches it, of those that are committed from now on: given
  /// to this store or one below it. A condition is not a pattern, as its answer would be what is found: there is
  /// `firstAction(where:within:)` for that.
  ///
  ///     let user = try await store.firstAction(
  ///       matching: { if case .loggedIn(let user) = $0 { user } else { nil } }, within: .seconds(30))
  ///
  /// It takes its place in the order when it is called (G1): what brings the action about has to come after that. In an
  /// effect, one that is dispatched before may be committed by then: wait for the state that it leads to, by
  /// `first(where:within:)`, or `perform` it. The pattern is called on the tree's executor, after the interceptors have
  /// been asked about the action, until it matches. Where the store follows a log, only actions that were given here
  /// count (G13).
  ///
  /// - Parameters:
  ///   - pattern: What there is to be found in an action; nil if it is another one.
  ///   - limit: As for `first(where:within:)`. With zero or less there is no such action.
  ///   - isolation: The caller's actor.
  /// - Throws: As `first(where:within:)`; `StoreError.unmapped` if this is a projection, whose actions the tree does
  ///   not have.
  @discardableResult public func firstAction<Found: Sendable>(
    matching pattern: @escaping @Sendable (Action) -> Found?, within limit: Duration? = nil,
    isolation: isolated (any Actor)? = #isolation
  ) async throws -> Found {
    let route = store().route
    let node = route.node
    guard let watch = route.commitWatch else { throw node.isTooDeep ? StoreError.tooDeep : StoreError.unmapped }
    let outcome = FirstOutcome<Found>()
    let number = ObjectIdentifier(outcome)
    let isPlaced = watch.begin(number) { action in
      guard outcome.isOpen else { return true }
      guard let found = pattern(action) else { return false }
      outcome.end(with: .success(found))
      return true
    }
    guard isPlaced else { throw node.errorWhenClosed }
    let ending = node.effects.atEnd(of: node) { outcome.end(with: .failure(StoreError.terminated)) }
    defer {
      node.effects.forget(ending)
      // Held, so that no other object has its number until this command has its place in the order.
      withExtendedLifetime(outcome) { watch.end(number) }
    }
    return try await node.untilEnded(outcome, within: limit, isolation: isolation)
  }
}

extension AnyStoreNode {
  /// Returns when there is an outcome, the time is over, or the caller is cancelled.
  fileprivate func untilEnded<Value: Sendable>(
    _ outcome: FirstOutcome<Value>, within limit: Duration?, isolation: isolated (any Actor)?
  ) async throws -> Value {
    let effect = RunningEffect.ofThisTask
    let isOwn = effect.map { hosts($0) } ?? false
    // Behind what was requested before the time was over.
    let timeIsOver = { @Sendable [self] in place(.closure { _ in outcome.end(with: .failure(TimedOut())) }) }
    var timeout: Timeout?
    if let limit, limit > .zero {
      timeout = Timeout(after: limit, by: effects.settings.clock, of: effect)
    } else if limit != nil {
      timeIsOver()
    }
    defer { timeout?.end() }
    return try await withThrowingTaskGroup { [timeout] tasks in
      if let timeout {
        tasks.addTask {
          await timeout.wait()
          if !Task.isCancelled { timeIsOver() }
        }
      }
      defer { tasks.cancelAll() }
      return try await withTaskCancellationHandler {
        await outcome.value(of: effect, for: isOwn ? .states : .elements)
      } onCancel: {
        outcome.end(with: .failure(CancellationError()))
      }.get()
    }
  }
}
