import Synchronization

/// The followers of a source: its subscribers, in a backlog behind a lock, and the sources that take their states from
/// it, which only the source itself touches. Carries out what the backlog decides, outside the lock.
///
/// This is the part that does not depend on the type of the states, and is compiled once.
@usableFromInline class AnyChannel: @unchecked Sendable {
  /// What a publisher keeps from one publication to the next, so that publishing does not allocate.
  @usableFromInline struct Scratch {
    @usableFromInline var woken: ContiguousArray<Cursors.Parked> = []
    @usableFromInline var garbage = Backlog.Garbage()

    @usableFromInline init() {}
  }

  /// For a store's source: what selectors have memoized of it and of its views.
  @usableFromInline final var memories: [SelectorCache.Memory.Weak] = []
  /// For a root store's source: the last turn that has been opened in the commit that is in progress.
  final var turns: PartTurn?

  /// Whether there are subscribers whose place in the order has come. The source's; an atomic, as it has no run-time
  /// access check.
  @usableFromInline final let subscribed = Atomic(false)

  // The source's own variables, without the run-time checks for overlapping accesses, which cost more than the work of
  // most sources.
  //
  // SAFETY: reached through the source, which lives on its tree's executor, where the reentrancy guard admits one
  // caller at a time (`Tree.enter`); or from the release of a store for which nothing is in progress (`Tree.release`).
  // What runs during an access (a publication resumes consumers and releases states, whose deinitializers may run) has
  // no way back to the same variable: its requests to the tree wait for the executor, and publishing happens within the
  // guard. Where a list of attachments is traversed and mappings and comparisons are called, it is moved out or copied;
  // elsewhere nothing of the user's is called.

  @usableFromInline @exclusivity(unchecked) final var scratch = Scratch()

  @usableFromInline final let backlog = LockedValue(Backlog())
  /// The sources that selectors have made of this one.
  @usableFromInline final let selectors = Lazy<SelectorCache>()

  @usableFromInline init() {}

  @inlinable final var hasSubscribers: Bool { subscribed.load(ordering: .relaxed) }

  /// Tells consumers that nothing more will come.
  func end(_ waiters: ContiguousArray<AnyWaiter>) {}

  /// Whether there are no subscribers.
  final var isIdle: Bool { backlog.withLock { $0.cursors.subscriberCount == 0 } }

  final func subscribe(_ buffering: Buffering) -> Int {
    backlog.withLock { $0.subscribe(buffering) }
  }

  /// An effect waits at a cursor until a state is handed over.
  final func beginPause(
    of effect: RunningEffect, for cause: RunningEffect.Pause.Cause, at cursor: Int, as consumer: AnyWaiter
  ) -> RunningEffect.Pause {
    // Does not capture the cursor's holder, as the caller of the closure must not be the one to release it. The holder
    // lives until the pause has ended, and gives the cursor up after that, under the lock: while the pause has not
    // ended, the cursor is there.
    let pause = RunningEffect.Pause(for: cause) { [self] pause in
      backlog.withLock { !pause.hasEnded && $0.cursors.isAwaited(cursor, by: consumer) }
    }
    effect.pauses(by: pause)
    return pause
  }

  /// No state will follow.
  final func finish() {
    end(backlog.withLock { $0.cursors.finish() })
  }

  /// Closes a cursor; true if it was the last.
  final func cancel(_ cursor: Int) -> Bool {
    let (waiters, wasLast) = update { backlog, garbage in
      let before = backlog.cursors.subscriberCount
      let waiters = backlog.cancel(cursor, garbage: &garbage)
      return (waiters, before > 0 && backlog.cursors.subscriberCount == 0)
    }
    if !waiters.isEmpty { end(waiters) }
    return wasLast
  }

  /// The cursor's place in the order will not come.
  final func refuse(_ cursor: Int) {
    update { $0.refuse(cursor, garbage: &$1) }
  }

  /// Gives up a cursor; true if it was the last.
  final func remove(_ cursor: Int) -> Bool {
    update { backlog, garbage in
      let before = backlog.cursors.subscriberCount
      backlog.remove(cursor, garbage: &garbage)
      return before > 0 && backlog.cursors.subscriberCount == 0
    }
  }

  /// Changes the backlog, and then drops, a little at a time and outside the lock, what is no longer needed.
  final func update<Result>(_ body: (inout Backlog, inout Backlog.Garbage) -> Result) -> Result {
    var garbage = Backlog.Garbage()
    let (result, isToTrim) = backlog.withLock { backlog in
      let result = body(&backlog, &garbage)
      return (result, backlog.cursors.needsTrim)
    }
    if isToTrim { trim(&garbage) }
    return result
  }

  @usableFromInline final func trim(_ garbage: inout Backlog.Garbage) {
    var isToTrim = true
    while isToTrim {
      garbage.removeAll()
      isToTrim = backlog.withLock { backlog in
        backlog.trim(into: &garbage)
        return backlog.cursors.needsTrim
      }
    }
  }
}

/// The channel of a source whose states are `State`.
///
/// SAFETY: its backlog keeps only states of that type, and its waiters wait for them.
@usableFromInline final class Channel<State: Sendable>: AnyChannel, @unchecked Sendable {
  /// The sources that take their states from this one and have subscribers, or attachments of their own. SAFETY: as for
  /// the variables above.
  @usableFromInline @exclusivity(unchecked) var attachments: ContiguousArray<Edge<State>.Attachment> = []

  @usableFromInline override init() { super.init() }

  func activate(_ cursor: Int, first: State?) {
    let served = backlog.withLock { $0.activate(cursor, first: first) }
    if let served { unsafe Waiter<State?>(served).resume(returning: first) }
  }

  @inlinable func publish(_ state: State) {
    unsafe enter(state, scratch: &scratch)
    unsafe handOver(state, scratch: &scratch)
  }

  /// The first half of a publication: the state takes its place in the backlog.
  @inlinable func enter(_ state: State, scratch: inout Scratch) {
    backlog.releasingOutside { $0.publish(state, waking: &scratch.woken, garbage: &scratch.garbage) }
  }

  /// The second half: the consumers that waited for the state receive it.
  @inlinable func handOver(_ state: State, scratch: inout Scratch) {
    if !scratch.woken.isEmpty {
      for delivery in scratch.woken { unsafe Waiter<State?>(delivery.waiter).resume(returning: state) }
      scratch.woken.removeAll(keepingCapacity: true)
    }
    if !scratch.garbage.isEmpty { scratch.garbage.removeAll() }
  }

  override func end(_ waiters: ContiguousArray<AnyWaiter>) {
    for waiter in waiters { unsafe Waiter<State?>(waiter).resume(returning: nil) }
  }

  /// The next state, or nil after the last.
  ///
  /// - Parameter pausing: Called when it has to be waited for.
  func next(
    _ cursor: Int, isolation: isolated (any Actor)? = #isolation, pausing: (AnyWaiter) -> RunningEffect.Pause?
  ) async -> State? {
    var pause: RunningEffect.Pause?
    defer { pause?.end() }
    return await Waiter<State?>.wait { waiter in
      let consumer = AnyWaiter(waiter)
      switch update({ backlog, garbage -> Backlog.Taken<State> in
        backlog.takeOrWait(cursor, consumer, garbage: &garbage)
      }
      ) {
      case .state(let state): waiter.resume(returning: state)
      case .end: waiter.resume(returning: nil)
      case .nothing: pause = pausing(consumer)
      }
    }
  }
}
