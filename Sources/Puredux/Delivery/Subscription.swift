/// Where the state sequences of a source are made. Shared by all copies of a proxy.
@usableFromInline
final class Feed<State: Sendable>: Sendable {
  @usableFromInline
  let source: Confined<Source<State>>
  /// Made with the first subscription.
  @usableFromInline
  let channel = Guarded<Channel<State>?>(nil)

  @inlinable
  init(source: Confined<Source<State>>) {
    self.source = source
  }

  /// Reads the state in place.
  @inlinable
  func read<Action, Result>(
    on tree: isolated Tree<Action>, _ body: (State) -> Result
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

  /// A feed without duplicates, for one subscriber.
  @inlinable
  func removingDuplicates(_ equating: Equating<State>) -> Feed {
    Feed(source: source.map { .removingDuplicates(of: $0, equating: equating) })
  }

  /// Subscribes now: the place in the tree's order is taken when this returns.
  @inlinable
  func subscribe<Action>(
    _ policy: AsyncStream<State>.Continuation.BufferingPolicy, through origin: Origin<Action>
  ) -> AsyncStream<State> {
    let channel = channel.withLock { channel in
      let made = channel ?? Channel()
      channel = made
      return made
    }
    let cursor = channel.subscribe(Log.Policy(policy))
    let subscription = Subscription(feed: self, channel: channel, cursor: cursor, origin: origin)
    let isAccepted = origin.tree.order(for: origin) { [source] tree in
      source(on: tree).activate(cursor, in: channel)
    }
    if !isAccepted { channel.refuse(cursor) }
    return AsyncStream {
      await channel.next(subscription.cursor)
    } onCancel: {
      subscription.cancel()
    }
  }
}

extension Log.Policy {
  /// A limit below one counts as one: the last state is never lost.
  @inlinable
  init<Element>(_ policy: AsyncStream<Element>.Continuation.BufferingPolicy) {
    switch policy {
    case .unbounded: self = .unbounded
    case .bufferingNewest(let limit): self = .newest(max(limit, 1))
    case .bufferingOldest(let limit): self = .oldest(max(limit, 1))
    @unknown default: self = .unbounded
    }
  }
}

/// One sequence's place in its channel, for as long as somebody holds the sequence.
@usableFromInline
final class Subscription<State: Sendable, Action: Sendable>: Sendable {
  @usableFromInline
  let cursor: Int
  @usableFromInline
  let feed: Feed<State>
  @usableFromInline
  let channel: Channel<State>
  @usableFromInline
  let origin: Origin<Action>

  @inlinable
  init(feed: Feed<State>, channel: Channel<State>, cursor: Int, origin: Origin<Action>) {
    self.feed = feed
    self.channel = channel
    self.cursor = cursor
    self.origin = origin
  }

  @inlinable
  func cancel() {
    if channel.cancel(cursor) { detach() }
  }

  @inlinable
  deinit {
    if channel.remove(cursor) { detach() }
  }

  /// Sees to it that nothing is worked out for a source that nobody watches.
  @inlinable
  func detach() {
    _ = origin.tree.order(for: origin) { [source = feed.source] tree in
      source(on: tree).detachIfUnwatched()
    }
  }
}
