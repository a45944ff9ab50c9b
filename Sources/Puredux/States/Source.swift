import Synchronization

/// A source of states: of a root or child store, a scope, a selector, a rule of emission or a duplicate filter. It is
/// confined to its tree's executor.
///
/// Its kinds differ by closures, as the compiler specializes a closure for the user's types where it is made, but not
/// an overridden method.
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

  /// Passes the state to a closure in place, without a copy. Does not call the closure if there is no state.
  @inlinable final func withState(_ body: (State) -> Void) { access(body) }

  // MARK: Publishing

  @inlinable final var hasSubscribers: Bool {
    withChannel { unsafe $0.hasSubscribers || !$0.attachments.isEmpty } ?? false
  }

  @inlinable final func publish(_ state: State) {
    withChannel { channel in
      if channel.hasSubscribers { channel.publish(state) }
      if unsafe channel.attachments.isEmpty { return }
      // Moved out and back, without reference counting. The reentrancy guard excludes attaching and detaching
      // meanwhile.
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
    // The cursor may have been cancelled before its activation, without other followers.
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
