/// A source, whatever the type of its states.
///
/// What goes from source to source does so in loops here: each step is a method that returns the source to continue
/// with.
@usableFromInline class AnySource {
  /// The edge to the source that it takes its states from; nil for a root store's.
  @usableFromInline final let edge: AnyEdge?
  /// The state storage of the store that this is the source of; nil for a view of a store.
  @usableFromInline final let own: AnyStateStorage?
  /// How many stores, parts, scopes and projections there are above: at most `greatestLevel`, and one more for a source
  /// that is too deep. A child of a part counts as one with it.
  @usableFromInline final let level: Int
  /// Its followers, and the sources that selectors have made of it. Made with the first of either.
  @usableFromInline final let channel = Lazy<AnyChannel>()
  /// Whether there may be followers to publish to: every commit checks this of the root store's source. Never true of a
  /// root store that has neither been followed nor had a scope by a key path or a selector, or a part by a key path.
  @inlinable final var hasChannel: Bool { channel.exists }

  @inlinable init(edge: AnyEdge?, own: AnyStateStorage?, level: Int) {
    self.edge = edge
    self.own = own
    self.level = level
  }

  /// As `AnyStateStorage.known(of:)`.
  ///
  /// SAFETY: the caller knows that its states are of this type.
  @unsafe @inlinable @inline(__always) final func known<State: Sendable>(of type: State.Type) -> Source<State> {
    unsafe unsafeDowncast(self, to: Source<State>.self)
  }

  /// The greatest level. States are computed, published and released recursively, and the smallest stack that a tree runs
  /// on, of 512 KB, has room for 120 levels in a debug build.
  @inlinable static var greatestLevel: Int { 100 }

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

  /// Attaches this source, so that it receives every commit. Its new follower is shown the present state next.
  final func attach() {
    var edge = edge
    while let next = edge {
      next.willShowState()
      edge = next.source.edge
    }
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
}

extension AnySource {
  /// Figures of the subscriptions.
  @usableFromInline struct Survey {
    @usableFromInline var subscriptions = 0
    @usableFromInline var longestBacklog = 0

    init() {}
  }
}
