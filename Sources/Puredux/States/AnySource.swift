/// What can be asked of a source, whatever the type of its states.
///
/// Stores and scopes can lie below each other to any depth. What passes from one source to the next does so in loops
/// here, each step being a method that returns where to continue: recursion goes no deeper than any stack has room for.
@usableFromInline class AnySource {
  /// The edge to the source that it takes its states from; nil for a root store's.
  @usableFromInline final let edge: AnyEdge?
  /// What the store that this is the source of owns; nil if this is a view of a store.
  @usableFromInline final let own: AnyOwnState?
  /// Its followers, and the sources that selectors have made of it. Made with the first of either, or far up, when the
  /// state of a source below is computed (`checkpoint`).
  @usableFromInline final let channel = Lazy<AnyChannel>()
  /// Whether there may be anything to publish to, which every commit checks of the root store's. Never true of a root
  /// store that has neither been followed nor had a scope by a key path or a selector, or a part by a key path.
  @inlinable final var hasChannel: Bool { channel.exists }

  @inlinable init(edge: AnyEdge?, own: AnyOwnState?) {
    self.edge = edge
    self.own = own
  }

  /// As `AnyOwnState.known(of:)`.
  ///
  /// SAFETY: the caller knows that its states are of this type.
  @unsafe @inlinable @inline(__always) final func known<State: Sendable>(of type: State.Type) -> Source<State> {
    unsafe unsafeDowncast(self, to: Source<State>.self)
  }

  @usableFromInline func makeChannel() -> AnyChannel { AnyChannel() }

  /// Its followers. Can be asked for from anywhere.
  @usableFromInline final var anyChannel: AnyChannel { channel(orMake: makeChannel) }

  /// The source is no longer attached.
  func detached() {}

  /// Gives a subscription its place in the order: its first element is the state now (G5).
  func activate(_ cursor: Int) {}

  /// Whether anybody follows it.
  var hasFollowers: Bool { false }

  /// Publishes the state now, if there are followers.
  func publishHere() {}

  func detachHere() -> AnySource? { nil }
  func closeHere(_ below: inout ContiguousArray<AnySource>) {}
  func vanishHere(_ below: inout ContiguousArray<AnySource>) {}
  func surveyHere(_ survey: inout Survey, _ below: inout ContiguousArray<AnySource>) {}
  func makeCheckpoint() {}

  final func dropCheckpoint() { channel.withObject { $0.checkpoint = nil } }
  func forgetAtEnd(_ memory: SelectorCache.Memory) {}
  func forgetMemories() {}

  /// Drops the state of a released store.
  final func release() {
    own?.release()
    forgetMemories()
  }

  /// Ends all sequences, here and below.
  final func close() {
    var below = ContiguousArray<AnySource>()
    closeHere(&below)
    while let source = below.popLast() { source.closeHere(&below) }
  }

  /// There is no state now, here and below.
  @usableFromInline final func vanish() {
    var below = ContiguousArray<AnySource>()
    vanishHere(&below)
    while let source = below.popLast() { source.vanishHere(&below) }
  }

  /// Attaches this source, so that it receives every commit.
  final func attach() {
    var source: AnySource? = self
    while let next = source { source = next.edge?.attach(next) }
  }

  /// Detaches this source from the one above, unless it still has subscribers.
  @usableFromInline final func detachIfIdle() {
    var next = detachHere()
    while let source = next { next = source.detachHere() }
  }

  /// Has a selector's memory forgotten at the end of the store that this is a view of, or the source of.
  @usableFromInline final func makeKnown(_ memory: SelectorCache.Memory) {
    if memory.isKnown { return }
    memory.isKnown = true
    var source = self
    while source.own == nil, let next = source.edge?.source { source = next }
    source.forgetAtEnd(memory)
  }

  /// The subscriptions here and below.
  @usableFromInline final var survey: Survey {
    var survey = Survey()
    var below: ContiguousArray<AnySource> = [self]
    while let source = below.popLast() { source.surveyHere(&survey, &below) }
    return survey
  }

  /// Calls a closure while the states far above are known, each computed once.
  final func withCheckpoints(_ body: () -> Void) {
    let sources = makeCheckpoints()
    body()
    for source in sources { source.dropCheckpoint() }
  }

  /// Computes the states at which the chain above is broken, each from the next. Returns their sources, which are to
  /// drop them.
  final func makeCheckpoints() -> [AnySource] {
    let sources = breaksAbove
    for source in sources.reversed() { source.makeCheckpoint() }
    return sources
  }

  /// The sources above at which the chain is broken, the nearest first, up to the first whose state is known.
  private var breaksAbove: [AnySource] {
    var breaks: [AnySource] = []
    var next = edge?.source
    while let source = next {
      if Depth.isBreak(source.edge?.depth ?? 0) {
        if source.channel.withObject({ $0.checkpoint != nil }) == true { break }
        breaks.append(source)
      }
      next = source.edge?.source
    }
    return breaks
  }
}

extension AnySource {
  /// Figures of the subscriptions.
  @usableFromInline struct Survey {
    @usableFromInline var subscriptions = 0
    @usableFromInline var longestBacklog = 0

    init() {}
  }
}
