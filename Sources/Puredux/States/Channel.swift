import Synchronization

/// A source's subscribers, in a locked backlog, and the attached sources, which only the source accesses. Compiled
/// once.
@usableFromInline class AnyChannel: @unchecked Sendable {
  /// Reused, so that publishing does not allocate.
  @usableFromInline struct Scratch {
    @usableFromInline var woken: ContiguousArray<Cursors.Parked> = []
    @usableFromInline var garbage = Backlog.Garbage()

    @usableFromInline init() {}
  }

  /// In a store's source: the memories of selectors on it and on its views.
  @usableFromInline final var memories: [SelectorCache.Memory.Weak] = []
  /// In a root's source: the turn opened last in the current commit.
  final var turns: PartTurn?

  /// Whether there are activated subscribers. An atomic has no run-time access check.
  @usableFromInline final let subscribed = Atomic(false)

  // The source's own variables have no run-time checks for overlapping accesses, which cost more than most sources'
  // work.
  //
  // SAFETY: they are accessed through the source only, in one of two ways. One is on its tree's executor, where the
  // reentrancy guard admits one caller at a time (`Tree.enter`). The other is the release of a store with nothing in
  // progress (`Tree.release`). During an access, a publication resumes consumers and releases states, whose
  // deinitializers may run. These have no way back to the same variable: their requests to the tree wait for the
  // executor, and publishing happens within the guard. A list of attachments is moved out or copied before mappings and
  // comparisons are called. No other access calls a user's code.

  @usableFromInline @exclusivity(unchecked) final var scratch = Scratch()

  @usableFromInline final let backlog = LockedValue(Backlog())
  @usableFromInline final let selectors = Lazy<SelectorCache>()

  @usableFromInline init() {}

  @inlinable final var hasSubscribers: Bool { subscribed.load(ordering: .relaxed) }

  func end(_ waiters: ContiguousArray<AnyWaiter>) {}

  final var isIdle: Bool { backlog.withLock { $0.cursors.subscriberCount == 0 } }

  final func subscribe(_ buffering: Buffering) -> Int {
    backlog.withLock { $0.subscribe(buffering) }
  }

  final func beginPause(
    of effect: RunningEffect, for cause: RunningEffect.Pause.Cause, at cursor: Int, as consumer: AnyWaiter
  ) -> RunningEffect.Pause {
    // The closure must not capture the cursor's holder, which its caller would then release. The holder gives up the
    // cursor after the end of the pause, so the cursor exists while the pause lasts.
    let pause = RunningEffect.Pause(for: cause) { [self] pause in
      backlog.withLock { !pause.hasEnded && $0.cursors.isAwaited(cursor, by: consumer) }
    }
    effect.pauses(by: pause)
    return pause
  }

  final func finish() {
    end(backlog.withLock { $0.cursors.finish() })
  }

  final func cancel(_ cursor: Int) -> Bool {
    let (waiters, wasLast) = update { backlog, garbage in
      let before = backlog.cursors.subscriberCount
      let waiters = backlog.cancel(cursor, garbage: &garbage)
      return (waiters, before > 0 && backlog.cursors.subscriberCount == 0)
    }
    if !waiters.isEmpty { end(waiters) }
    return wasLast
  }

  final func refuse(_ cursor: Int) {
    update { $0.refuse(cursor, garbage: &$1) }
  }

  final func remove(_ cursor: Int) -> Bool {
    update { backlog, garbage in
      let before = backlog.cursors.subscriberCount
      backlog.remove(cursor, garbage: &garbage)
      return before > 0 && backlog.cursors.subscriberCount == 0
    }
  }

  /// Drops unneeded states in small steps outside the lock.
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
/// SAFETY: its backlog holds only states of that type, and its waiters wait for them.
@usableFromInline final class Channel<State: Sendable>: AnyChannel, @unchecked Sendable {
  /// Sources with subscribers or attachments of their own.
  ///
  /// SAFETY: see the variables above.
  @usableFromInline @exclusivity(unchecked) var attachments: ContiguousArray<Edge<State>.Attachment> = []

  @usableFromInline override init() { super.init() }

  func activate(_ cursor: Int, first: State?) {
    let served = backlog.withLock { $0.activate(cursor, first: first) }
    if let served { unsafe Waiter<State?>(served).resume(returning: first) }
  }

  @inlinable func publish(_ state: State) {
    let replaced = unsafe enter(state, scratch: &scratch)
    withExtendedLifetime(replaced) {}
    unsafe handOver(state, scratch: &scratch)
  }

  /// Returns the state that it replaces, to be released outside the caller's locks.
  @inlinable func enter(_ state: State, scratch: inout Scratch) -> State? {
    backlog.withLock { $0.publish(state, waking: &scratch.woken, garbage: &scratch.garbage) }
  }

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
