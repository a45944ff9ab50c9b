/// Independent of the type of the states. Walks from source to source are loops: each step returns the next source.
@usableFromInline class AnySource {
  /// Nil for a root store's source.
  @usableFromInline final let edge: AnyEdge?
  /// Nil for a view of a store.
  @usableFromInline final let own: AnyStateStorage?
  /// The number of stores, parts, scopes and projections above: at most `greatestLevel`, or one more if it is too deep.
  /// A child of a part counts as one level with it.
  @usableFromInline final let level: Int
  @usableFromInline final let channel = Lazy<AnyChannel>()
  /// Checked of the root's source by every commit. True once the root store is followed, or has a scope by a key path
  /// or selector, or a part by a key path.
  @inlinable final var hasChannel: Bool { channel.exists }

  @inlinable init(edge: AnyEdge?, own: AnyStateStorage?, level: Int) {
    self.edge = edge
    self.own = own
    self.level = level
  }

  /// SAFETY: the caller knows that its states are of this type.
  @unsafe @inlinable @inline(__always) final func known<State: Sendable>(of type: State.Type) -> Source<State> {
    unsafe unsafeDowncast(self, to: Source<State>.self)
  }

  /// States are computed, published and released recursively: the smallest stack of a tree, of 512 KB, has room for 120
  /// levels in a debug build.
  @inlinable static var greatestLevel: Int { 100 }

  @usableFromInline func makeChannel() -> AnyChannel { AnyChannel() }

  /// May be read from any thread.
  @usableFromInline final var anyChannel: AnyChannel { channel(orMake: makeChannel) }

  func detached() {}

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

  /// Makes this source receive every commit. Its new follower is shown the current state next.
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
