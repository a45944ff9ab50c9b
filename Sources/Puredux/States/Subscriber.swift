/// A sequence's subscription to the channel of a source, and the command that activates it.
///
/// A consumer that is behind takes several states at once, so that consumers do not contend for the backlog. The
/// sequence's iterators share these states.
///
/// Compiled once, except for the functions that take a state. SAFETY: its users ask only for states of its source's
/// type, as it was made for a source of them.
@usableFromInline final class Subscriber: Command, @unchecked Sendable {
  let source: Confined<AnySource>
  let queue: any CommandQueue
  /// Its lock is taken before the backlog's.
  @usableFromInline let ahead = LockedValue(StatesAhead())
  @usableFromInline let cursorNumber: Int32
  @usableFromInline let follower: RunningEffect?

  /// The caller must enqueue the subscriber, or call `perform` or `refuse`.
  init(
    to source: Confined<AnySource>, _ buffering: Buffering, through queue: any CommandQueue,
    by follower: RunningEffect? = nil
  ) {
    self.follower = follower
    self.source = source
    self.queue = queue
    cursorNumber = Int32(source.channelOfSource.subscribe(buffering))
    super.init()
  }

  @usableFromInline convenience init(
    madeFor source: Confined<AnySource>, _ buffering: Buffering, through queue: any CommandQueue
  ) {
    self.init(to: source, buffering, through: queue, by: RunningEffect.current)
  }

  @inlinable var cursor: Int { Int(cursorNumber) }
  @usableFromInline var channel: AnyChannel { source.channelOfSource }

  @usableFromInline override func perform(on tree: isolated any TreeIsolation) { source(on: tree).activate(cursor) }

  /// The sequence is gone: nothing is computed for it.
  override func performUnheld(on tree: isolated any TreeIsolation) {
    refuse()
    if channel.isIdle { source(on: tree).detachIfIdle() }
  }

  @usableFromInline func refuse() { channel.refuse(cursor) }

  // MARK: Reading

  @inlinable func next<State: Sendable>(
    isolation: isolated (any Actor)? = #isolation, for observer: RunningEffect? = nil
  ) async -> State? {
    let taken: Backlog.Taken<State> = take()
    var isBehind = true
    return switch taken {
    case .state(let state): state
    case .end: nil
    case .nothing: await wait(for: observer, isBehind: &isBehind)
    }
  }

  /// - Parameter isBehind: Whether a state may be available. A consumer that waited for the last state waits for the
  ///   next without looking at the backlog.
  @inlinable func nextUnlessCancelled<State: Sendable>(
    isolation: isolated (any Actor)? = #isolation, isBehind: inout Bool
  ) async -> State? {
    if Task.isCancelled { cancel() }
    if isBehind {
      let taken: Backlog.Taken<State> = take()
      switch taken {
      case .state(let state): return state
      case .end: return nil
      case .nothing: break
      }
    }
    return await waitUnlessCancelled(isBehind: &isBehind)
  }

  /// Not inlined, so that all loops over one type of state share it.
  @inline(never) @inlinable func waitUnlessCancelled<State: Sendable>(
    isolation: isolated (any Actor)? = #isolation, isBehind: inout Bool
  ) async -> State? {
    await withTaskCancellationHandler {
      await wait(isBehind: &isBehind)
    } onCancel: {
      cancel()
    }
  }

  @inline(never) @inlinable func take<State>() -> Backlog.Taken<State> {
    if let state: State = ahead.withLock({ $0.popFirst() }) { return .state(state) }
    return takeAhead { [cursor] backlog, ahead, garbage in
      backlog.takeAhead(cursor, limit: StatesAhead.limit(of: State.self), into: &ahead, garbage: &garbage)
    }
  }

  @inlinable func wait<State: Sendable>(
    isolation: isolated (any Actor)? = #isolation, for observer: RunningEffect? = nil, isBehind: inout Bool
  ) async -> State? {
    var pause: RunningEffect.Pause?
    defer { pause?.end() }
    return await Waiter<State?>.wait { waiter in
      let consumer = AnyWaiter(waiter)
      let taken: Backlog.Taken<State> = takeOrWait(consumer)
      if case .nothing = taken { isBehind = false } else { isBehind = true }
      switch taken {
      case .state(let state): waiter.resume(returning: state)
      case .end: waiter.resume(returning: nil)
      case .nothing: pause = beginPause(of: observer, as: consumer)
      }
    }
  }

  @usableFromInline func beginPause(of observer: RunningEffect?, as consumer: AnyWaiter) -> RunningEffect.Pause? {
    guard let effect = follower ?? observer, effect.isHere else { return nil }
    return channel.beginPause(of: effect, for: queue.hosts(effect) ? .states : .elements, at: cursor, as: consumer)
  }

  @inline(never) @inlinable func takeOrWait<State>(_ waiter: AnyWaiter) -> Backlog.Taken<State> {
    takeAhead { [cursor] backlog, _, garbage in backlog.takeOrWait(cursor, waiter, garbage: &garbage) }
  }

  /// One consumer at a time, so that each sees its states in order.
  @inlinable func takeAhead<State>(
    _ ask: (inout Backlog, inout StatesAhead, inout Backlog.Garbage) -> Backlog.Taken<State>
  ) -> Backlog.Taken<State> {
    let channel = channel
    var garbage = Backlog.Garbage()
    let (taken, isToTrim) = ahead.withLock { ahead in
      if let state: State = ahead.popFirst() { return (Backlog.Taken.state(state), false) }
      return channel.backlog.withLock { backlog in (ask(&backlog, &ahead, &garbage), backlog.cursors.needsTrim) }
    }
    if isToTrim { channel.trim(&garbage) }
    return taken
  }

  // MARK: Ending

  @usableFromInline func cancel() {
    let isLast = channel.cancel(cursor)
    ahead.releasingOutside { ahead in
      defer { ahead = StatesAhead() }
      return ahead
    }
    if isLast { detach() }
  }

  /// Ends the subscription after its unread states. A source that goes on drops none of these.
  func finish<State: Sendable>(as type: State.Type) {
    var garbage = Backlog.Garbage()
    let goesOn = ahead.withLock { ahead in
      channel.backlog.withLock { backlog -> Bool in
        if backlog.cursors.isFinished { return false }
        ahead.fill(of: State.self) { unread in
          while case .state(let state) = backlog.take(cursor, garbage: &garbage) as Backlog.Taken<State> {
            unread.append(state)
          }
        }
        return true
      }
    }
    if goesOn, channel.cancel(cursor) { detach() }
  }

  deinit {
    if channel.remove(cursor) { detach() }
  }

  private func detach() {
    queue.enqueueDetachment { [source] tree in source(on: tree).detachIfIdle() }
  }
}
