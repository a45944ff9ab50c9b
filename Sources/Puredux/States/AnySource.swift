/// A source, independent of the type of its states.
///
/// Walks from source to source are loops here: each step is a method that returns the next source.
@usableFromInline class AnySource {
  /// The edge to the upstream source; nil for a root store's source.
  @usableFromInline final let edge: AnyEdge?
  /// The state storage of the source's store; nil for a view of a store.
  @usableFromInline final let own: AnyStateStorage?
  /// The number of stores, parts, scopes and projections above: at most `greatestLevel`, or one more for a source that
  /// is too deep. A child of a part counts as one level with it.
  @usableFromInline final let level: Int
  /// The followers, and the sources made by selectors. Created on first use.
  @usableFromInline final let channel = Lazy<AnyChannel>()
  /// Whether there may be followers; every commit checks this of the root store's source. True once the root store is
  /// followed, or has a scope by a key path or selector, or a part by a key path.
  @inlinable final var hasChannel: Bool { channel.exists }

  @inlinable init(edge: AnyEdge?, own: AnyStateStorage?, level: Int) {
    self.edge = edge
    self.own = own
    self.level = level
  }

  /// See `AnyStateStorage.known(of:)`.
  ///
  /// SAFETY: the caller knows that its states are of this type.
  @unsafe @inlinable @inline(__always) final func known<State: Sendable>(of type: State.Type) -> Source<State> {
    unsafe unsafeDowncast(self, to: Source<State>.self)
  }

  /// The greatest level. States are computed, published and released recursively. The smallest stack that a tree runs
  /// on, of 512 KB, has room for 120 levels in a debug build.
  @inlinable static var greatestLevel: Int { 100 }

  @usableFromInline func makeChannel() -> AnyChannel { AnyChannel() }

  /// The channel, created on first use. May be read from any thread.
  @usableFromInline final var anyChannel: AnyChannel { channel(orMake: makeChannel) }

  func detached() {}

  /// Takes a subscription's place in the order: its first element is the current state (G5).
  func activate(_ cursor: Int) {}

  var hasFollowers: Bool { false }

  func publishHere() {}

  func detachHere() -> AnySource? { nil }
  func closeHere(_ below: inout ContiguousArray<AnySource>) {}
  func vanishHere(_ below: inout ContiguousArray<AnySource>) {}
  func surveyHere(_ survey: inout Survey, _ below: inout ContiguousArray<AnySource>) {}
  func forgetAtEnd(_ memory: SelectorCache.Memory) {}
  func forgetMemories() {}

  final func release() {
    own?.release()
    forgetMemories()
  }

  final func close() {
    var below = ContiguousArray<AnySource>()
    closeHere(&below)
    while let source = below.popLast() { source.closeHere(&below) }
  }

  /// Reports, here and below, that there is no state now.
  @usableFromInline final func vanish() {
    var below = ContiguousArray<AnySource>()
    vanishHere(&below)
    while let source = below.popLast() { source.vanishHere(&below) }
  }

  /// Attaches this source, so that it receives every commit. Its new follower is shown the current state next.
  final func attach() {
    var edge = edge
    while let next = edge {
      next.willShowState()
      edge = next.source.edge
    }
    var source: AnySource? = self
    while let next = source { source = next.edge?.attach(next) }
  }

  @usableFromInline final func detachIfIdle() {
    var next = detachHere()
    while let source = next { next = source.detachHere() }
  }

  /// Registers a selector's memory, to be cleared when its store ends.
  @usableFromInline final func makeKnown(_ memory: SelectorCache.Memory) {
    if memory.isKnown { return }
    memory.isKnown = true
    var source = self
    while source.own == nil, let next = source.edge?.source { source = next }
    source.forgetAtEnd(memory)
  }

  @usableFromInline final var survey: Survey {
    var survey = Survey()
    var below: ContiguousArray<AnySource> = [self]
    while let source = below.popLast() { source.surveyHere(&survey, &below) }
    return survey
  }
}

extension AnySource {
  @usableFromInline struct Survey {
    @usableFromInline var subscriptions = 0
    @usableFromInline var longestBacklog = 0

    init() {}
  }
}
