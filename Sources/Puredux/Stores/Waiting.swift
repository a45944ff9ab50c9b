/// The time limit of a wait is over.
public struct TimedOut: Error, Sendable, Equatable {
  /// For closures that wait in their own way, and for tests.
  public init() {}
}

extension StoreType {
  /// The time of day and year by the store's clock, for actions: a reducer must not read a clock. A test can set it
  /// (`ManualClock`).
  public var now: WallTime { store().route.node.wallTime }

  /// Returns the first state that satisfies a condition: the present state, or one that the store publishes later.
  ///
  ///     try await store.first(where: \.isReady, within: .seconds(5))
  ///
  /// It takes its place in the order when it is called (G5): no later state is missed. The condition runs on the tree's
  /// executor, for each published commit, until it holds; it should be cheap. No state is buffered.
  ///
  /// - Parameters:
  ///   - condition: Returns whether a state ends the wait.
  ///   - limit: Measured by the store's clock; by default the wait lasts until the store's end. With zero or less, only
  ///     the present state counts.
  ///   - isolation: The caller's actor.
  /// - Throws: `TimedOut` when the time is over; `StoreError.terminated` when the store ends, and `.tooDeep` if it is
  ///   below the 100th level; `CancellationError` when the task is cancelled.
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
    defer { node.enqueueDetachment { tree in follower(on: tree).detachIfIdle() } }
    return try await node.untilEnded(outcome, within: limit, isolation: isolation)
  }

  /// Returns the first action that satisfies a condition. Otherwise like `firstAction(matching:within:)`.
  @discardableResult public func firstAction(
    where condition: @escaping @Sendable (Action) -> Bool, within limit: Duration? = nil,
    isolation: isolated (any Actor)? = #isolation
  ) async throws -> Action {
    try await firstAction(matching: { condition($0) ? $0 : nil }, within: limit, isolation: isolation)
  }

  /// Returns the value that a pattern extracts from the first matching action that is committed from now on and was
  /// given to this store or one below it.
  ///
  ///     let user = try await store.firstAction(
  ///       matching: { if case .loggedIn(let user) = $0 { user } else { nil } }, within: .seconds(30))
  ///
  /// It takes its place in the order when it is called (G1): the cause of the action must come later. An action that an
  /// effect dispatched before may already be committed: wait for its state by `first(where:within:)`, or `perform` it.
  ///
  /// The pattern runs on the tree's executor, after the interceptors, until it matches. If the store follows a log,
  /// only actions given on this replica count (G13).
  ///
  /// - Parameters:
  ///   - pattern: Extracts a value from an action; nil if the action does not match.
  ///   - limit: Like that of `first(where:within:)`. With zero or less, no action matches.
  ///   - isolation: The caller's actor.
  /// - Throws: The errors of `first(where:within:)`; `StoreError.unmapped` if this is a projection.
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
      // Held, so that no other object gets its number before this command has its place.
      withExtendedLifetime(outcome) { watch.end(number) }
    }
    return try await node.untilEnded(outcome, within: limit, isolation: isolation)
  }
}

extension AnyStoreNode {
  fileprivate func untilEnded<Value: Sendable>(
    _ outcome: FirstOutcome<Value>, within limit: Duration?, isolation: isolated (any Actor)?
  ) async throws -> Value {
    let effect = RunningEffect.ofThisTask
    let isOwn = effect.map { hosts($0) } ?? false
    // After everything that was requested before the time was over.
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

extension StoreType {
  /// Sends an action like `send(_:)`, but gives up after a time limit.
  ///
  ///     do {
  ///       try await board.send(.rename("Plans"), within: .seconds(2))
  ///     } catch StoreError.withdrawn {
  ///       // Nothing has happened: it can be sent again.
  ///     } catch StoreError.outcomeUnknown {
  ///       // It may be committed, maybe later.
  ///     }
  ///
  /// Without a log, the limit covers only the wait for the action's turn. A running reducer is always awaited.
  ///
  /// - Parameters:
  ///   - action: The action to commit.
  ///   - limit: Measured by the store's clock. With zero or less, the action is committed if nothing is before it and
  ///     the store follows no log, and withdrawn otherwise. More than a hundred years counts as a hundred years.
  ///   - isolation: The caller's actor.
  /// - Throws: `StoreError.withdrawn` if the limit was over before the action's turn, or before the log received it:
  ///   the action changes nothing. `.outcomeUnknown` if the log received it: the action may be committed. Otherwise the
  ///   errors of `send(_:)`.
  public func send(
    _ action: Action, within limit: Duration, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) {
    try await store().route.send(action, within: limit, isolation: isolation) { _ in }
  }

  /// Like `send(_:within:)` and `send(_:reading:)`. The closure is not called if the action was given up.
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
