import Synchronization

/// A source of states: of a store, scope, selector, emission rule or duplicate filter. Its kinds differ by closures,
/// which the compiler specializes where they are made, unlike overridden methods.
@usableFromInline class Source<State: Sendable>: AnySource {
  @usableFromInline final let access: (_ body: (State) -> Void) -> Void
  @inlinable init(
    edge: AnyEdge? = nil, own: AnyStateStorage? = nil, level: Int,
    withState access: @escaping (_ body: (State) -> Void) -> Void
  ) {
    self.access = access
    super.init(edge: edge, own: own, level: level)
  }

  /// SAFETY: `makeChannel` makes a channel for these states.
  @inlinable @inline(__always) final func withChannel<Result>(_ body: (Channel<State>) -> Result) -> Result? {
    channel.withObject { unsafe body(unsafeDowncast($0, to: Channel<State>.self)) }
  }

  override final func makeChannel() -> AnyChannel { Channel<State>() }

  // MARK: Reading

  /// Does not call the closure without a state.
  @inlinable final func withState(_ body: (State) -> Void) { access(body) }

  // MARK: Publishing

  @inlinable final var hasSubscribers: Bool {
    withChannel { unsafe $0.hasSubscribers || !$0.attachments.isEmpty } ?? false
  }

  @inlinable final func publish(_ state: State) {
    withChannel { channel in
      if channel.hasSubscribers { channel.publish(state) }
      if unsafe channel.attachments.isEmpty { return }
      // Moved out and back, without reference counting: the reentrancy guard excludes attaching and detaching.
      var attachments = ContiguousArray<Edge<State>.Attachment>()
      unsafe swap(&attachments, &channel.attachments)
      Self.pass(state, to: attachments)
      assert(unsafe channel.attachments.isEmpty)
      unsafe swap(&attachments, &channel.attachments)
    }
  }

  /// Without reference counting, which would cost more than most of the calls. SAFETY: the list holds the attachments.
  @inlinable @inline(__always) static func pass(
    _ state: State, to attachments: ContiguousArray<Edge<State>.Attachment>
  ) {
    for place in attachments.indices {
      unsafe Unmanaged.passUnretained(attachments[place])._withUnsafeGuaranteedRef { $0.receive(state) }
    }
  }

  override final var hasFollowers: Bool { hasSubscribers }

  override final func publishHere() {
    guard hasSubscribers else { return }
    withState { publish($0) }
  }

  // MARK: Following

  override func activate(_ cursor: Int) {
    // SAFETY: see `withChannel`.
    let channel = unsafe unsafeDowncast(anyChannel, to: Channel<State>.self)
    attach()
    channel.subscribed.store(true, ordering: .relaxed)
    var hasState = false
    withState { state in
      hasState = true
      channel.activate(cursor, first: state)
    }
    if !hasState { channel.activate(cursor, first: nil) }
    if channel.isIdle { detachIfIdle() }
  }

  override func detachHere() -> AnySource? {
    let hasSubscribers = withChannel { channel in
      if channel.hasSubscribers, channel.isIdle {
        channel.subscribed.store(false, ordering: .relaxed)
        unsafe channel.scratch = AnyChannel.Scratch()
      }
      return unsafe channel.hasSubscribers || !channel.attachments.isEmpty
    }
    return hasSubscribers == true ? nil : edge?.detach()
  }

  final func changeAttachments(_ change: (inout ContiguousArray<Edge<State>.Attachment>) -> Void) {
    // SAFETY: see `withChannel`.
    unsafe change(&unsafeDowncast(anyChannel, to: Channel<State>.self).attachments)
  }

  override func surveyHere(_ survey: inout Survey, _ below: inout ContiguousArray<AnySource>) {
    withChannel { channel in
      if channel.hasSubscribers {
        let (count, backlog) = channel.backlog.withLock { ($0.cursors.subscriberCount, $0.cursors.longestBacklog) }
        survey.subscriptions += count
        survey.longestBacklog = max(survey.longestBacklog, backlog)
      }
      for attachment in unsafe channel.attachments { below.append(attachment.follower) }
    }
  }

  // MARK: Closing

  override func closeHere(_ below: inout ContiguousArray<AnySource>) {
    withChannel { channel in
      if channel.hasSubscribers { channel.finish() }
      channel.subscribed.store(false, ordering: .relaxed)
      let attachments = unsafe channel.attachments
      unsafe channel.attachments = []
      for attachment in attachments { below.append(attachment.follower) }
      forgetMemories()
    }
    edge?.detach()?.detachIfIdle()
  }

  override func vanishHere(_ below: inout ContiguousArray<AnySource>) {
    withChannel { channel in
      for attachment in unsafe channel.attachments { below.append(attachment.follower) }
    }
  }

  override func forgetAtEnd(_ memory: SelectorCache.Memory) {
    let channel = anyChannel
    var memories = channel.memories
    channel.memories = []
    if memories.count == memories.capacity {
      memories.removeAll { $0.memory == nil }
      memories.reserveCapacity(2 * memories.count)
    }
    memories.append(SelectorCache.Memory.Weak(memory))
    channel.memories = memories
  }

  override func forgetMemories() {
    channel.withObject { channel in
      let memories = channel.memories
      channel.memories = []
      for weak in memories { weak.memory?.forget() }
    }
  }
}

extension Source {
  @usableFromInline final class Detaching: Source<State> {
    private let onDetach: () -> Void

    @usableFromInline init(
      edge: AnyEdge, level: Int, onDetach: @escaping () -> Void,
      withState access: @escaping (_ body: (State) -> Void) -> Void
    ) {
      self.onDetach = onDetach
      super.init(edge: edge, own: nil, level: level, withState: access)
    }

    override func detached() { onDetach() }
  }
}

@usableFromInline class AnyStateStorage {
  @inlinable init() {}

  func release() {}

  /// For closures that always get the storage that they were made for. They do not capture it, because only closures
  /// with constant captures are specialized.
  ///
  /// SAFETY: the caller knows that the state is of this type.
  @unsafe @inlinable @inline(__always) final func known<Value>(of type: Value.Type) -> StateStorage<Value> {
    unsafe unsafeDowncast(self, to: StateStorage<Value>.self)
  }
}

@usableFromInline final class StateStorage<Value>: AnyStateStorage {
  // No run-time check for overlapping accesses, which costs as much as a small reducer.
  //
  // SAFETY: there are two ways of access. One is the tree's isolation, where the reentrancy guard admits one caller at
  // a time (`Tree.enter`). The other is the release of a store with nothing in progress (`Tree.release`): proxies check
  // whether it is closed before reading, and its own members require that it is held. Only a reducer, or the
  // deinitializer of the released state, runs during an access. Neither has a way back in: each request to a tree takes
  // its place in the order, or waits for the executor.
  @usableFromInline @exclusivity(unchecked) var storage: Value?

  @inlinable init(_ value: Value? = nil) {
    unsafe storage = value
    super.init()
  }

  func set(_ value: Value) { unsafe storage = value }

  @inlinable var value: Value? { unsafe storage }

  @inlinable @inline(__always) func change(_ change: (inout Value) -> Void) {
    guard unsafe storage != nil else { return }
    unsafe change(&storage!)
  }

  override func release() {
    unsafe storage = nil
  }
}

/// Makes a child store of a part publish the commits on its own path, even if they leave the part unchanged. Not
/// specialized: a small fraction of a commit's cost.
@usableFromInline final class PartTurn {
  @usableFromInline unowned var source: AnySource?
  private let top: AnySource
  private var isOpen = false
  /// Opened before, further down the path.
  private var below: PartTurn?

  @usableFromInline init(under top: AnySource) { self.top = top }

  /// Called when the current commit's path contains the child.
  @usableFromInline func begin() {
    top.channel.withObject { channel in
      isOpen = true
      below = channel.turns
      channel.turns = self
    }
  }

  @usableFromInline func isPublished() { isOpen = false }

  /// Returns the turn to end next.
  fileprivate func end() -> PartTurn? {
    defer { below = nil }
    guard isOpen, let source else { return below }
    isOpen = false
    guard source.hasFollowers else { return below }
    source.publishHere()
    return below
  }
}

extension AnySource {
  /// From the root down.
  @usableFromInline final func endTurns() {
    channel.withObject { channel in
      var next = channel.turns
      channel.turns = nil
      while let turn = next { next = turn.end() }
    }
  }
}
