/// Where the state sequences of a source are made. Shared by all copies of a proxy.
@usableFromInline
final class Feed<State: Sendable>: Sendable {
  @usableFromInline
  struct Shared: Sendable {
    /// Made with the first subscription.
    @usableFromInline
    var channel: Channel<State>?
    /// The feeds that selectors have made of this one, as long as somebody uses them.
    @usableFromInline
    var selected: [SelectorIdentity: WeakFeed]?

    @inlinable
    init() {}
  }

  @usableFromInline
  let source: Confined<Source<State>>
  @usableFromInline
  let shared = Guarded(Shared())

  @inlinable
  init(source: Confined<Source<State>>) {
    self.source = source
  }

  /// Reads the state in place.
  @inlinable
  func read<Result>(
    on tree: isolated any TreeIsolation, _ body: (State) -> Result
  ) throws(StoreError) -> Result {
    var result: Result?
    source(on: tree).withState { result = body($0) }
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
    shared.withLock { shared in
      if let feed = shared.selected?[selector.identity]?.feed as? Feed<Value> { return feed }
      let feed = Feed<Value>(source: source.map { .selecting(selector, of: $0) })
      var selected = shared.selected ?? [:]
      // Room is made only by those that nobody uses any more.
      if selected.count == selected.capacity { selected = selected.filter { $0.value.feed != nil } }
      selected[selector.identity] = WeakFeed(feed)
      shared.selected = selected
      return feed
    }
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
    let channel = shared.withLock { shared in
      let made = shared.channel ?? Channel()
      shared.channel = made
      return made
    }
    return Reading(feed: self, channel: channel, cursor: channel.subscribe(Log.Policy(policy)), place: place)
  }

  /// Subscribes now: the place in the tree's order is taken when this returns.
  @inlinable
  func subscribe(
    _ policy: AsyncStream<State>.Continuation.BufferingPolicy, through place: some StorePlace
  ) -> StateSequence<State> {
    let reading = makeReading(policy, through: place)
    let isAccepted = place.order { [source, channel = reading.channel, cursor = reading.cursor] tree in
      source(on: tree).activate(cursor, in: channel)
    }
    if !isAccepted { reading.refuse() }
    return StateSequence(reading: reading)
  }
}

/// Holds a feed weakly.
@usableFromInline
struct WeakFeed: Sendable {
  @usableFromInline
  weak let feed: (any AnyObject & Sendable)?

  @inlinable
  init(_ feed: any AnyObject & Sendable) {
    self.feed = feed
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

/// One sequence's place in its channel, for as long as somebody holds the sequence.
@usableFromInline
final class Reading<State: Sendable>: Sendable {
  @usableFromInline
  let cursor: Int
  @usableFromInline
  let feed: Feed<State>
  @usableFromInline
  let channel: Channel<State>
  @usableFromInline
  let place: any StorePlace

  @inlinable
  init(feed: Feed<State>, channel: Channel<State>, cursor: Int, place: any StorePlace) {
    self.feed = feed
    self.channel = channel
    self.cursor = cursor
    self.place = place
  }

  @inlinable
  nonisolated(nonsending) func next() async -> State? { await channel.next(cursor) }

  /// As `next`, for a consumer whose cancellation ends the sequence.
  @inlinable
  nonisolated(nonsending) func nextUnlessCancelled() async -> State? {
    if Task.isCancelled { cancel() }
    return switch channel.take(cursor) {
    case .state(let state): state
    case .end: nil
    case .nothing:
      await withTaskCancellationHandler {
        await channel.wait(cursor)
      } onCancel: {
        cancel()
      }
    }
  }

  @inlinable
  func cancel() {
    if channel.cancel(cursor) { detach() }
  }

  /// Its place in the order will not come.
  @inlinable
  func refuse() { channel.refuse(cursor) }

  @inlinable
  deinit {
    if channel.remove(cursor) { detach() }
  }

  /// Sees to it that nothing is worked out for a source that nobody watches.
  @inlinable
  func detach() {
    _ = place.order { [source = feed.source] tree in
      source(on: tree).detachIfUnwatched()
    }
  }
}
