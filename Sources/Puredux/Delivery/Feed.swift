/// A source as everybody may hold it: where state sequences are made of it, and its state is read.
@usableFromInline
struct Feed<State: Sendable>: Sendable {
  @usableFromInline
  let source: Confined<Source<State>>

  @inlinable
  init(source: Confined<Source<State>>) {
    self.source = source
  }

  @inlinable
  var channel: Channel<State> { source.channel() }

  /// Reads the state in place.
  @inlinable
  func read<Result>(
    on tree: isolated any TreeIsolation, _ body: (State) -> Result
  ) throws(StoreError) -> Result {
    var result: Result?
    source.withValue(on: tree) { $0.withState { result = body($0) } }
    guard let result else { throw .stateUnavailable }
    return result
  }

  /// A feed of what a transform makes of this one's states.
  @inlinable
  func scope<Other>(_ transform: @escaping @Sendable (State) -> Other?) -> Feed<Other> {
    Feed<Other>(source: source.map { .scope(of: $0, transform: transform) })
  }

  /// The feed of what a selector makes of this one's states: one for all who use it.
  @inlinable
  func select<Value>(_ selector: StateSelector<State, Value>) -> Feed<Value> {
    let selected = channel.selections { Selections() }.source(of: selector.identity) {
      source.map { Source<Value>.selecting(selector, of: $0) }
    }
    return Feed<Value>(source: selected)
  }

  /// A feed without duplicates, for one subscriber.
  @inlinable
  func removingDuplicates(_ equating: Equating<State>) -> Feed {
    equating.isNeverEqual ? self : Feed(source: source.map { .removingDuplicates(of: $0, equating: equating) })
  }

  /// A cursor that has not taken its place in the order.
  @inlinable
  func makeReading(_ policy: AsyncStream<State>.Continuation.BufferingPolicy, through place: any StorePlace)
    -> Reading<State>
  {
    Reading(feed: self, cursor: channel.subscribe(Log.Policy(policy)), place: place)
  }

  /// Subscribes now: the place in the tree's order is taken when this returns.
  @inlinable
  func subscribe(
    _ policy: AsyncStream<State>.Continuation.BufferingPolicy, through place: some StorePlace
  ) -> StateSequence<State> {
    let reading = makeReading(policy, through: place)
    let isAccepted = place.order(reading)
    if !isAccepted { reading.refuse() }
    return StateSequence(reading: reading)
  }
}

/// The sources that selectors have made of one, as long as somebody uses them.
///
/// Key paths are hashed, compared and released, and sources made and released, outside the lock: all of that is the user's code, and may ask for
/// another.
@usableFromInline
final class Selections: Sendable {
  final class Entry: Sendable {
    let selector: SelectorIdentity
    let source: WeaklyConfined

    init(selector: SelectorIdentity, source: WeaklyConfined) {
      self.selector = selector
      self.source = source
    }
  }

  typealias Bucket = [Entry]

  struct Contents: Sendable {
    /// By the hash values of their selectors.
    var buckets: [Int: Bucket] = [:]
    /// How many buckets there may be before those that nobody uses any more are looked for.
    var room = 16
  }

  let contents = Guarded(Contents())

  @usableFromInline
  init() {}

  @usableFromInline
  func source<Value>(
    of selector: SelectorIdentity, orMake make: () -> Confined<Source<Value>>
  ) -> Confined<Source<Value>> {
    let hash = selector.hashValue
    var made: Confined<Source<Value>>?
    var known: Bucket = []
    while true {
      // Each is compared once: a comparison that itself asks for one adds to the bucket.
      let compared = known
      known = contents.withLock { $0.buckets[hash] } ?? []
      for entry in known where !compared.contains(where: { $0 === entry }) {
        if let source: Confined<Source<Value>> = entry.source.confined(), entry.selector == selector { return source }
      }
      let source = made ?? make()
      made = source
      let bucket = known.filter { !$0.source.isGone } + [Entry(selector: selector, source: WeaklyConfined(source))]
      if replace(known, by: bucket, at: hash) {
        makeRoom()
        return source
      }
    }
  }

  /// Puts a bucket in the place of another; false where there has been an addition since.
  private func replace(_ known: Bucket, by bucket: Bucket, at hash: Int) -> Bool {
    let (isReplaced, _) = contents.withLock { contents -> (Bool, Bucket?) in
      guard contents.buckets[hash]?.last === known.last else { return (false, nil) }
      let replaced = contents.buckets.removeValue(forKey: hash)
      if !bucket.isEmpty { contents.buckets[hash] = bucket }
      // Released outside the lock.
      return (true, replaced)
    }
    return isReplaced
  }

  /// Drops those that nobody uses any more, where there are many.
  private func makeRoom() {
    let buckets: [Int: Bucket]? = contents.withLock { contents in
      guard contents.buckets.count > contents.room else { return nil }
      contents.room = 2 * contents.buckets.count
      return contents.buckets
    }
    guard let buckets else { return }
    for (hash, known) in buckets {
      let bucket = known.filter { !$0.source.isGone }
      if bucket.count < known.count { _ = replace(known, by: bucket, at: hash) }
    }
    contents.withLock { $0.room = max(16, 2 * $0.buckets.count) }
  }
}

extension Log.Policy {
  /// A limit below one counts as one: the last state is never lost.
  @inlinable
  init<Element>(_ policy: AsyncStream<Element>.Continuation.BufferingPolicy) {
    switch policy {
    case .unbounded: self = .unbounded
    case .bufferingNewest(let limit): self = .newest(Int32(clamping: max(limit, 1)))
    case .bufferingOldest(let limit): self = .oldest(Int32(clamping: max(limit, 1)))
    @unknown default: self = .unbounded
    }
  }
}

/// One sequence's place in its channel, for as long as somebody holds the sequence. The command that activates it, too.
///
/// A consumer that is behind takes several states ahead at a time, so that many of them do not stand in each other's way at the log. Those are
/// the sequence's, and shared by all who iterate it.
@usableFromInline
final class Reading<State: Sendable>: Command {
  @usableFromInline
  typealias Machine = Channel<State>.Machine

  /// How many states a consumer takes ahead: as many as have room in 4 KB, which it keeps.
  @inlinable
  static var limit: Int { min(31, 4_096 / max(1, MemoryLayout<State>.stride)) }

  @usableFromInline
  let feed: Feed<State>
  @usableFromInline
  let place: any StorePlace
  /// States taken ahead, the next one last. Keeps its room, so that who is behind does not allocate at each turn. Its lock is taken before the log's.
  @usableFromInline
  let ahead = Guarded(ContiguousArray<State>())
  @usableFromInline
  let cursorNumber: Int32

  @inlinable
  init(feed: Feed<State>, cursor: Int, place: any StorePlace) {
    self.feed = feed
    self.place = place
    cursorNumber = Int32(cursor)
  }

  @inlinable
  var cursor: Int { Int(cursorNumber) }
  @inlinable
  var channel: Channel<State> { feed.channel }

  @usableFromInline
  override func perform(on tree: isolated any TreeIsolation) {
    let source = feed.source(on: tree)
    source.channel.withObject { $0.activation(source, cursor) }
  }

  // MARK: Reading

  @inlinable
  func next(isolation: isolated (any Actor)? = #isolation) async -> State? {
    switch take() {
    case .state(let state): state
    case .end: nil
    case .nothing: await wait()
    }
  }

  /// As `next`, for a consumer whose cancellation ends the sequence.
  @inlinable
  func nextUnlessCancelled(isolation: isolated (any Actor)? = #isolation) async -> State? {
    if Task.isCancelled { cancel() }
    return switch take() {
    case .state(let state): state
    case .end: nil
    case .nothing:
      await withTaskCancellationHandler {
        await wait()
      } onCancel: {
        cancel()
      }
    }
  }

  /// What there is to read now.
  @inlinable
  func take() -> Machine.Taken {
    takeAhead { [cursor] log, ahead, garbage in
      log.takeAhead(cursor, limit: Self.limit, into: &ahead, garbage: &garbage)
    }
  }

  /// The next state, or nil after the last.
  @inlinable
  func wait(isolation: isolated (any Actor)? = #isolation) async -> State? {
    await Waiter<State?>.wait { waiter in
      switch takeAhead({ [cursor] log, _, garbage in log.takeOrPark(cursor, waiter, garbage: &garbage) }) {
      case .state(let state): waiter.resume(returning: state)
      case .end: waiter.resume(returning: nil)
      case .nothing: break
      }
    }
  }

  /// Takes what is there already, or asks the log; no two consumers at a time, so that each sees its states in order.
  @inlinable
  func takeAhead(
    _ ask: (inout Machine, inout ContiguousArray<State>, inout Machine.Garbage) -> Machine.Taken
  ) -> Machine.Taken {
    let channel = channel
    // What it holds is released outside the locks.
    var garbage = Machine.Garbage()
    let (taken, isToTrim) = ahead.withLock { ahead in
      if let state = ahead.popLast() { return (Machine.Taken.state(state), false) }
      return channel.log.withLock { log in (ask(&log, &ahead, &garbage), log.needsTrim) }
    }
    if isToTrim { channel.trim(&garbage) }
    return taken
  }

  // MARK: Ending

  @inlinable
  func cancel() {
    let isLast = channel.cancel(cursor)
    // Released outside the lock.
    _ = ahead.withLock { ahead in
      defer { ahead = [] }
      return ahead
    }
    if isLast { detach() }
  }

  /// Its place in the order will not come.
  @inlinable
  func refuse() { channel.refuse(cursor) }

  deinit {
    if feed.source.remove(cursor) { detach() }
  }

  /// Sees to it that nothing is worked out for a source that nobody watches.
  @inlinable
  func detach() {
    _ = place.order { [source = feed.source] tree in
      source(on: tree).detachIfUnwatched()
    }
  }
}
