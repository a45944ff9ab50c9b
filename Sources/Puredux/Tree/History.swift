import Synchronization

/// The most recent commits of a store, with the state after each reducer, readable even after the store's end:
///
///     let history = History<Human, HumanAction>(limit: 100)
///     let store = RootStore(initialState: Human(), history: history, reducer: reduce)
///     …
///     for entry in history.entries { print(entry.position, entry.store, entry.action, entry.state) }
///
/// A root store's history has every commit of its tree; a child store's has the actions given to it or below it. The
/// states are those that the store itself owns.
///
/// Holds at most `limit` commits, each with the states before and after every reducer, so reducers copy the collections
/// that they change. Stores that share a history add commits in the order of arrival.
public final class History<State: Sendable, Action: Sendable>: Sendable {
  /// One commit.
  public struct Entry: Sendable {
    /// The state after one reducer.
    public struct Step: Sendable {
      /// The reducer's name, if any.
      public let reducer: String?
      /// The state after this reducer.
      public let state: State

      @inlinable init(reducer: String?, state: State) {
        self.reducer = reducer
        self.state = state
      }
    }

    /// The reduced action, as middleware passed it on.
    public let action: Action
    /// The store that the action was given to.
    public let store: StoreID
    /// Its place in the tree's order (G1), counted from one.
    public let position: Int
    /// The state before the commit.
    public let stateBefore: State
    /// One step for each reducer of the store, in order.
    public let steps: [Step]
    /// The state after the commit.
    @inlinable public var state: State { steps.last?.state ?? stateBefore }

    @inlinable init(action: Action, store: StoreID, position: Int, stateBefore: State, steps: [Step]) {
      self.action = action
      self.store = store
      self.position = position
      self.stateBefore = stateBefore
      self.steps = steps
    }
  }

  @usableFromInline struct Contents: Sendable {
    @usableFromInline var entries: SegmentedQueue<Entry>
    @usableFromInline var nodes: [any AnyStoreNode] = []
    @usableFromInline var hasEnded = false
    @usableFromInline var channel = Channel<Entry>()

    @inlinable init(entries: SegmentedQueue<Entry>) { self.entries = entries }
  }

  @usableFromInline typealias Steps = [(reducer: String?, reduce: @Sendable (AnyStateStorage, inout Action) -> Void)]

  /// The greatest number of commits that it holds.
  public let limit: Int
  @usableFromInline let contents: LockedValue<Contents>
  /// A closure, specialized at its creation: stores without a history pay nothing.
  @usableFromInline let recording: @Sendable (History, Action, StoreNode<Action>, Steps, StateStorage<State>) -> Void

  /// - Parameter limit: The greatest number of commits that it holds; a limit below one counts as one.
  @inlinable public init(limit: Int) {
    self.limit = max(limit, 1)
    let segmentLength = min(max(self.limit, 16), 256)
    contents = LockedValue(Contents(entries: SegmentedQueue(segmentLength: segmentLength)))
    recording = { history, action, node, steps, own in history.recordNow(action, node, by: steps, in: own) }
  }

  /// The recorded commits, the oldest first. Reading delays no commit.
  ///
  /// Dispatched actions are missing until they are committed: `send`, or read the store's state, first.
  public var entries: [Entry] { contents.withLock { $0.entries }.all }

  /// The recorded commits, then each later one, without gaps. Ends with the store. The buffering policy applies to the
  /// later commits, as in `states()`.
  public func commits(
    bufferingPolicy: AsyncStream<Entry>.Continuation.BufferingPolicy = .unbounded
  ) -> AsyncStream<Entry> {
    let reading = contents.withLock { contents in
      let cursor = contents.channel.subscribe(Buffering(bufferingPolicy))
      contents.channel.activate(cursor, first: nil)
      return CommitReader(of: self, kept: contents.entries, channel: contents.channel, cursor: cursor)
    }
    return AsyncStream {
      await reading.next()
    } onCancel: {
      reading.cancel()
    }
  }

  // MARK: Recording

  @usableFromInline func attach(_ node: any AnyStoreNode) {
    contents.withLock { contents in
      if contents.nodes.isEmpty, contents.hasEnded { contents.channel = Channel() }
      contents.nodes.append(node)
      contents.hasEnded = false
    }
  }

  @usableFromInline func detach(_ node: any AnyStoreNode) {
    let ended: Channel<Entry>? = contents.withLock { contents in
      if let index = contents.nodes.firstIndex(where: { $0 === node }) { contents.nodes.remove(at: index) }
      contents.hasEnded = contents.nodes.isEmpty
      return contents.hasEnded ? contents.channel : nil
    }
    ended?.finish()
  }

  @usableFromInline func record(
    _ action: Action, _ node: StoreNode<Action>, by steps: Steps,
    in own: StateStorage<State>
  ) {
    recording(self, action, node, steps, own)
  }

  @inlinable func recordNow(
    _ action: Action, _ node: StoreNode<Action>, by steps: Steps,
    in own: StateStorage<State>
  ) {
    guard let before = own.value else { return }
    let position = node.tree.commitCount.load(ordering: .relaxed)
    var made: [Entry.Step] = []
    var reduced = action
    for step in steps {
      step.reduce(own, &reduced)
      if let state = own.value { made.append(Entry.Step(reducer: step.reducer, state: state)) }
    }
    add(
      Entry(
        action: action, store: node.id, position: position + 1,
        stateBefore: before, steps: made))
  }

  @inlinable func add(_ entry: Entry) {
    var scratch = Channel<Entry>.Scratch()
    let (channel, dropped, replaced) = contents.withLock { contents in
      contents.entries.append(entry)
      let dropped = contents.entries.count > limit ? contents.entries.popFirst() : nil
      return (contents.channel, dropped, contents.channel.enter(entry, scratch: &scratch))
    }
    channel.handOver(entry, scratch: &scratch)
    withExtendedLifetime((dropped, replaced)) {}
  }
}

extension History {
  fileprivate final class CommitReader: Sendable {
    private let kept: LockedValue<SegmentedQueue<Entry>>
    private let channel: Channel<Entry>
    private let cursor: Int
    private weak let history: History?
    private let follower = RunningEffect.current

    init(of history: History, kept: SegmentedQueue<Entry>, channel: Channel<Entry>, cursor: Int) {
      self.history = history
      self.kept = LockedValue(kept)
      self.channel = channel
      self.cursor = cursor
    }

    func next() async -> Entry? {
      if let entry = kept.withLock({ $0.popFirst() }) { return entry }
      return await channel.next(cursor) { consumer in
        guard let follower, follower.isHere else { return nil }
        let isOwn = history?.contents.withLock { $0.nodes }.contains { $0.hosts(follower) } == true
        return channel.beginPause(of: follower, for: isOwn ? .states : .elements, at: cursor, as: consumer)
      }
    }

    func cancel() {
      kept.releasingOutside { kept in
        defer { kept = SegmentedQueue(segmentLength: kept.segmentLength) }
        return kept
      }
      _ = channel.cancel(cursor)
    }

    deinit { _ = channel.remove(cursor) }
  }
}
