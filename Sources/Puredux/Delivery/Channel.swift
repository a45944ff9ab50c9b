/// Those who follow a source. Its log behind a lock, with the effects of what the log decides and nothing else; in its base class, what only
/// the source itself touches.
@usableFromInline
final class Channel<State: Sendable>: ChannelVariables<State> {
  @usableFromInline
  typealias Machine = Log<State, Waiter<State?>>

  /// What a publisher keeps from one publication to the next, so that publishing does not allocate.
  @usableFromInline
  struct Scratch {
    @usableFromInline
    var woken: ContiguousArray<Machine.Parked> = []
    @usableFromInline
    var garbage = Machine.Garbage()

    @inlinable
    init() {}
  }

  @usableFromInline
  let log = Guarded(Machine())
  /// What selectors have made of the source.
  @usableFromInline
  let selections = Lazily<Selections>()

  /// What readings ask when they come and go, in code that is not specialized: an overridden method and a deinitializer. A closure is, where the
  /// channel is made.
  @usableFromInline
  let activation: @Sendable (Source<State>, _ cursor: Int) -> Void
  @usableFromInline
  let removal: @Sendable (Channel, _ cursor: Int) -> Bool

  @inlinable
  override init() {
    activation = { source, cursor in source.activate(cursor) }
    removal = { channel, cursor in channel.remove(cursor) }
    super.init()
  }

  /// Whether nobody is subscribed.
  @inlinable
  var isIdle: Bool { log.withLock { $0.isIdle } }

  @inlinable
  func subscribe(_ policy: Machine.Policy) -> Int {
    log.withLock { $0.subscribe(policy) }
  }

  @inlinable
  func activate(_ cursor: Int, first: State?) {
    let served = log.withLock { $0.activate(cursor, first: first) }
    served?.resume(returning: first)
  }

  @inlinable
  func publish(_ state: State, scratch: inout Scratch) {
    enter(state, scratch: &scratch)
    handOver(state, scratch: &scratch)
  }

  /// The first half of a publication: the state has its place in the log.
  @inlinable
  func enter(_ state: State, scratch: inout Scratch) {
    log.withLock { $0.publish(state, waking: &scratch.woken, garbage: &scratch.garbage) }
  }

  /// The second half: those who waited for it get it.
  @inlinable
  func handOver(_ state: State, scratch: inout Scratch) {
    if !scratch.woken.isEmpty {
      for delivery in scratch.woken { delivery.waiter.resume(returning: state) }
      scratch.woken.removeAll(keepingCapacity: true)
    }
    if !scratch.garbage.isEmpty { scratch.garbage.removeAll(keepingCapacity: true) }
  }

  @inlinable
  func finish() {
    for waiter in log.withLock({ $0.finish() }) { waiter.resume(returning: nil) }
  }

  /// What there is to read now.
  @inlinable
  func take(_ cursor: Int) -> Machine.Taken {
    update { $0.take(cursor, garbage: &$1) }
  }

  @inlinable
  func next(_ cursor: Int, isolation: isolated (any Actor)? = #isolation) async -> State? {
    switch take(cursor) {
    case .state(let state): state
    case .end: nil
    case .nothing: await wait(cursor)
    }
  }

  @inlinable
  func wait(_ cursor: Int, isolation: isolated (any Actor)? = #isolation) async -> State? {
    await Waiter<State?>.wait { waiter in
      switch update({ $0.takeOrPark(cursor, waiter, garbage: &$1) }) {
      case .state(let state): waiter.resume(returning: state)
      case .end: waiter.resume(returning: nil)
      case .nothing: break
      }
    }
  }

  /// Ends a cursor; true where it was the last.
  @inlinable
  func cancel(_ cursor: Int) -> Bool {
    let (waiters, wasLast) = update { log, garbage in
      let wasIdle = log.isIdle
      let waiters = log.cancel(cursor, garbage: &garbage)
      return (waiters, log.isIdle && !wasIdle)
    }
    for waiter in waiters { waiter.resume(returning: nil) }
    return wasLast
  }

  @inlinable
  func refuse(_ cursor: Int) {
    update { $0.refuse(cursor, garbage: &$1) }
  }

  /// Gives up a cursor; true where it was the last.
  @inlinable
  func remove(_ cursor: Int) -> Bool {
    update { log, garbage in
      let wasIdle = log.isIdle
      log.remove(cursor, garbage: &garbage)
      return log.isIdle && !wasIdle
    }
  }

  /// Changes the log, and then drops, a little at a time and outside the lock, what nobody needs any more.
  @inlinable
  func update<Result>(_ body: (inout Machine, inout Machine.Garbage) -> Result) -> Result {
    var garbage = Machine.Garbage()
    let (result, isToTrim) = log.withLock { log in
      let result = body(&log, &garbage)
      return (result, log.needsTrim)
    }
    if isToTrim { trim(&garbage) }
    return result
  }

  @inlinable
  func trim(_ garbage: inout Machine.Garbage) {
    var isToTrim = true
    while isToTrim {
      garbage.removeAll(keepingCapacity: true)
      isToTrim = log.withLock { log in
        log.trim(into: &garbage)
        return log.needsTrim
      }
    }
  }
}
