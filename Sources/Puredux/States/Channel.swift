/// Who follows a source: its subscribers, in a log behind a lock, and the sources that take their states from it, which
/// only the source itself touches. Does what the log decides, outside the lock.
///
/// What can be asked of it whatever the states are, which is compiled once.
@usableFromInline class AnyChannel: @unchecked Sendable {
  /// What a publisher keeps from one publication to the next, so that publishing does not allocate.
  @usableFromInline struct Scratch {
    @usableFromInline var woken: ContiguousArray<Cursors.Parked> = []
    @usableFromInline var garbage = Log.Garbage()

    @usableFromInline init() {}
  }

  // What belongs to the source, without the run-time checks for overlapping accesses, which cost more than what most
  // sources do.
  //
  // SAFETY: reached through the source, which lives on its tree's executor, where one section is entered at a time
  // (`Tree.enter`); or by who releases a store that nothing is under way for (`Tree.release`). What runs during an
  // access (a publication resumes consumers and releases states, whose deinitializers may run; a list is copied before
  // it is gone through) has no way back to the same variable: what it asks of the tree waits for the executor, and
  // publishing is part of a section.

  /// Whether there are subscribers whose place in the order has come.
  @usableFromInline @exclusivity(unchecked) final var hasSubscribers = false
  @usableFromInline @exclusivity(unchecked) final var scratch = Scratch()
  /// Of a store's source: what selectors remember of it and of the views of it.
  @usableFromInline @exclusivity(unchecked) final var memories: [SelectorCache.Memory.Weak] = []

  /// The state of a source far up, while those below it are computed.
  @usableFromInline final var checkpoint: AnyObject?

  @usableFromInline final let log = LockedValue(Log())
  /// What selectors have made of the source.
  @usableFromInline final let selectors = Lazy<SelectorCache>()

  @usableFromInline init() {}

  /// Tells consumers that there is nothing more to come.
  func end(_ waiters: ContiguousArray<AnyWaiter>) {}

  /// Whether nobody is subscribed.
  final var isIdle: Bool { log.withLock { $0.cursors.subscriberCount == 0 } }

  final func subscribe(_ buffering: Buffering) -> Int {
    log.withLock { $0.subscribe(buffering) }
  }

  /// No state will follow.
  final func finish() {
    end(log.withLock { $0.cursors.finish() })
  }

  /// Closes a cursor; true where it was the last.
  final func cancel(_ cursor: Int) -> Bool {
    let (waiters, wasLast) = update { log, garbage in
      let before = log.cursors.subscriberCount
      let waiters = log.cancel(cursor, garbage: &garbage)
      return (waiters, before > 0 && log.cursors.subscriberCount == 0)
    }
    if !waiters.isEmpty { end(waiters) }
    return wasLast
  }

  /// The place of a cursor in the order will not come.
  final func refuse(_ cursor: Int) {
    update { $0.refuse(cursor, garbage: &$1) }
  }

  /// Gives up a cursor; true where it was the last.
  final func remove(_ cursor: Int) -> Bool {
    update { log, garbage in
      let before = log.cursors.subscriberCount
      log.remove(cursor, garbage: &garbage)
      return before > 0 && log.cursors.subscriberCount == 0
    }
  }

  /// Changes the log, and then drops, a little at a time and outside the lock, what nobody needs any more.
  final func update<Result>(_ body: (inout Log, inout Log.Garbage) -> Result) -> Result {
    var garbage = Log.Garbage()
    let (result, isToTrim) = log.withLock { log in
      let result = body(&log, &garbage)
      return (result, log.cursors.needsTrim)
    }
    if isToTrim { trim(&garbage) }
    return result
  }

  @usableFromInline final func trim(_ garbage: inout Log.Garbage) {
    var isToTrim = true
    while isToTrim {
      garbage.removeAll()
      isToTrim = log.withLock { log in
        log.trim(into: &garbage)
        return log.cursors.needsTrim
      }
    }
  }
}

/// The channel of a source whose states are `State`.
///
/// SAFETY: its log keeps states of that type alone, and who waits at it waits for them.
@usableFromInline final class Channel<State: Sendable>: AnyChannel, @unchecked Sendable {
  /// The sources that take their states from this one and have subscribers, or attachments of their own. SAFETY: as the
  /// variables above.
  @usableFromInline @exclusivity(unchecked) var attachments: ContiguousArray<Edge<State>.Attachment> = []

  @usableFromInline override init() { super.init() }

  func activate(_ cursor: Int, first: State?) {
    let served = log.withLock { $0.activate(cursor, first: first) }
    if let served { unsafe Waiter<State?>(served).resume(returning: first) }
  }

  @inlinable func publish(_ state: State) {
    unsafe enter(state, scratch: &scratch)
    unsafe handOver(state, scratch: &scratch)
  }

  /// The first half of a publication: the state has its place in the log.
  @inlinable func enter(_ state: State, scratch: inout Scratch) {
    log.withLock { $0.publish(state, waking: &scratch.woken, garbage: &scratch.garbage) }
  }

  /// The second half: those who waited for it get it.
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
  func next(_ cursor: Int, isolation: isolated (any Actor)? = #isolation) async -> State? {
    await Waiter<State?>.wait { waiter in
      switch update({ log, garbage -> Log.Taken<State> in log.takeOrWait(cursor, AnyWaiter(waiter), garbage: &garbage) }
      ) {
      case .state(let state): waiter.resume(returning: state)
      case .end: waiter.resume(returning: nil)
      case .nothing: break
      }
    }
  }
}
