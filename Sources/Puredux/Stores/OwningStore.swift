/// A store that owns its state: a root store or a child store. Unlike a proxy, it keeps its state alive, can be shut
/// down, and can have child stores.
public protocol OwningStore<State, Action>: Actor, StoreType, StoreParent {
  /// The state after everything that was requested of the tree before. After a shutdown, the store's own part of it is
  /// the last there was; a parent's part still changes.
  nonisolated var state: State { get async }
}

extension OwningStore {
  /// A weak proxy of this store: it does not keep the store alive.
  @inlinable public nonisolated func store() -> Store<State, Action> { anchor.core.proxy }

  /// The state after everything that was requested of the tree before. It does not throw: after a shutdown, the store's
  /// own part of it is the last there was; a parent's part still changes.
  @inlinable public nonisolated var state: State {
    get async {
      // Holds the store while the read waits: a user's type may have let go of it by then.
      let anchor = anchor
      let state = await anchor.core.state
      withExtendedLifetime(anchor) {}
      return state
    }
  }

  /// Returns when nothing is left to do until something new is requested or time advances: nothing waits in the tree,
  /// and every task of this store and of those below it sleeps on the store's clock or waits for a state of the tree.
  /// For tests with a clock that is advanced by hand, without yielding and hoping:
  ///
  ///     store.dispatch(.typed("swift"))
  ///     await store.settled()              // The debounce sleeps.
  ///     clock.advance(by: .milliseconds(300))
  ///     await store.settled()              // What was found has been committed.
  ///
  /// What counts as sleep is a delay, a debounce, a throttle, the time before a retry, and `Dispatch.sleep(for:)`,
  /// until its time has come by the clock; what counts as waiting for a state is an observer or an effect that waits in
  /// a sequence it subscribed itself, in its own task and not in a child task. Sleep on a `ManualClock`, a wait at a
  /// `Gate` and one for a `Subject` of `PureduxTesting` count, too. An effect that waits for anything else runs. A task
  /// at rest counts as rest for its child tasks as well. A cancelled caller, or one that is part of an effect of the same
  /// tree, does not wait for tasks.
  @inlinable public func settled(isolation: isolated (any Actor)? = #isolation) async {
    await anchor.core.settled(isolation: isolation)
  }

  /// Ends this store and all stores below it: accepts no more actions, commits those accepted, ends every sequence
  /// after its last state, cancels the tasks of these stores or awaits them, and returns when none of those tasks is
  /// left. If it is a child store, the rest of the tree goes on.
  ///
  /// Call it from a service's graceful shutdown. Calling it again waits for the same end, and can cancel what an
  /// earlier call still awaits. If the calling task is cancelled, so are the interceptor's tasks.
  ///
  /// An interceptor or an observer may call it, also for its own store. It then waits for no task of its own tree, and at
  /// most five seconds for the tasks of another tree (G10). A *detached* task does not tell which interceptor started
  /// it: an interceptor that awaits one which shuts down its store waits forever. Call `shutdown` in the interceptor
  /// itself or in a `Task`, or do not await the detached one.
  ///
  /// A store that follows a log waits for what it has accepted to be committed, as the contract says of G9.
  ///
  /// - Parameters:
  ///   - interceptors: What becomes of the tasks that still run.
  ///   - clock: Measures the time of `.finish(within:)`. If it cannot sleep and throws, a `ContinuousClock` replaces
  ///     it.
  ///   - isolation: The caller's actor.
  @inlinable public func shutdown(
    interceptors: InterceptorShutdown = .cancel, clock: some Clock<Duration> = ContinuousClock(),
    isolation: isolated (any Actor)? = #isolation
  ) async {
    await anchor.core.shutdown(interceptors, clock: clock, isolation: isolation)
  }
}

/// What happens to the tasks of interceptors and observers that still run when a store is shut down.
public enum InterceptorShutdown: Sendable, Equatable {
  /// They are cancelled, and awaited.
  case cancel
  /// They are awaited, and cancelled if they take longer. Until the last of them has ended, what the store's own
  /// effects dispatch or send to it counts: it is committed and has its effects. All others get `.terminated`. A time
  /// of zero or less cancels them at once; more than a hundred years counts as a hundred years.
  case finish(within: Duration)
}
