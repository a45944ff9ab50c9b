/// A store that owns its state: a root store or a child store. It can be shut down, and can have child stores.
public protocol OwningStore<State, Action>: Actor, StoreType, StoreParent {
  /// The state after everything that was requested of the tree before. After a shutdown, only a parent's part still
  /// changes.
  nonisolated var state: State { get async }
}

extension OwningStore {
  /// A weak proxy of this store.
  @inlinable public nonisolated func store() -> Store<State, Action> { anchor.core.proxy }

  /// The state after everything that was requested of the tree before.
  @inlinable public nonisolated var state: State {
    get async {
      // A user's type may release the store during the read.
      let anchor = anchor
      let state = await anchor.core.state
      withExtendedLifetime(anchor) {}
      return state
    }
  }

  /// Returns when nothing waits in the tree, and every task of this store and of those below it is at rest (G8). For
  /// tests with a manual clock:
  ///
  ///     store.dispatch(.typed("swift"))
  ///     await store.settled()              // The debounce sleeps.
  ///     clock.advance(by: .milliseconds(300))
  ///     await store.settled()              // The result is committed.
  ///
  /// A task is at rest while it:
  ///
  /// - sleeps on the store's clock until a later time: a delay, a debounce, a throttle, the time before a retry, or
  ///   `Dispatch.sleep(for:)`;
  /// - waits for the next state of an observer;
  /// - waits, in its own task and not in a child task, for the next element of a sequence that it subscribed itself: of
  ///   states, in both forms, or of a history's commits;
  /// - waits in the same way in `first(where:within:)` or `firstAction(matching:within:)`;
  /// - sleeps on a `ManualClock`, waits at a `Gate`, or waits for the next element of a `Subject` (`PureduxTesting`).
  ///
  /// The states, commits and actions may be another tree's; elements that it is about to deliver are not awaited. With
  /// a time limit (`within:`, `timeout`), the rest ends at that time.
  ///
  /// A task at rest counts as rest for its child tasks as well; any other wait counts as running. A caller that is
  /// cancelled, or part of an effect of the same tree, does not wait for tasks.
  @inlinable public func settled(isolation: isolated (any Actor)? = #isolation) async {
    await anchor.core.settled(isolation: isolation)
  }

  /// Ends this store and all stores below it, and returns when none of their tasks is left.
  ///
  /// These stores accept no more actions, and commit those already accepted. Every sequence ends after its last state.
  /// Tasks are cancelled or awaited, as `interceptors` says, and cancelled if the caller is. A repeated call waits for
  /// the same end, and can cancel tasks that an earlier call awaits. If the tree follows a log, a store waits until its
  /// accepted actions are committed, the root store at most for `LogOptions.endingLimit`.
  ///
  /// An effect or an observer may call it, even for its own store (G10). It then waits for no task of its own
  /// tree. With `.finish(within:)`, a call for a store of its own tree returns before the store has finished. Otherwise
  /// it returns only when the accepted actions are committed and the sequences have ended. It waits for the tasks of
  /// another tree for at most five seconds, by that tree's clock, after the limit of `.finish(within:)` if it is given.
  ///
  /// A task is part of an effect if it is the effect's own task, a child task of it, or a `Task` made in it, while the
  /// effect runs. An effect that awaits a *detached* task which shuts down its store waits forever.
  ///
  /// - Parameters:
  ///   - interceptors: Whether running tasks are cancelled or awaited.
  ///   - clock: Measures the time of `.finish(within:)`. If its sleep throws, a `ContinuousClock` replaces it.
  ///   - isolation: The caller's actor.
  @inlinable public func shutdown(
    interceptors: InterceptorShutdown = .cancel, clock: some Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation
  ) async {
    await anchor.core.shutdown(interceptors, clock: clock, isolation: isolation)
  }
}

/// The treatment of interceptors' and observers' running tasks when a store is shut down.
public enum InterceptorShutdown: Sendable, Equatable {
  /// Cancels the tasks, and awaits them.
  case cancel
  /// Awaits the tasks, and cancels them when the time is over. Until the last has ended, actions that effects of the
  /// store and of those below it dispatch or send are committed and have their effects. All other callers get
  /// `.terminated`, and so do closures that the tree calls, unless the effect's own `send` called them. Then the
  /// sequences end. A time of zero or less cancels at once; more than a hundred years counts as a hundred years.
  ///
  /// Some tasks are not awaited before the sequences end:
  ///
  /// - An effect that waits, in its own task and not in a child task, for its own tree's next state or commit, in a
  ///   sequence that it subscribed itself. It sees the sequence's end, and its later actions are refused.
  /// - An effect that waits in this way for states of a store above. These do not end, so the effect is cancelled when
  ///   everything else has ended. Its action for a state published at that moment is refused.
  /// - Observers.
  case finish(within: Duration)
}
