/// What can be asked of a source whatever its states are.
///
/// Stores and scopes can lie below each other to any depth. What goes from one source to the next goes in loops here, each step being a method that answers where to
/// go on: only so much of it recurses as a stack has room for in any case.
@usableFromInline
class AnySource {
  @inlinable
  init() {}

  /// The source that it takes its states from; none for a root store's.
  @usableFromInline
  var upstreamSource: AnySource? { nil }
  /// Whether it is the source of a store, and not of a view of one.
  @usableFromInline
  var isStore: Bool { false }

  @usableFromInline
  func attachHere() -> AnySource? { nil }
  @usableFromInline
  func detachHere() -> AnySource? { nil }
  @usableFromInline
  func endHere(_ below: inout ContiguousArray<AnySource>) {}
  @usableFromInline
  func surveyHere(_ statistics: inout StoreStatistics, _ below: inout ContiguousArray<AnySource>) {}
  @usableFromInline
  func makeCheckpoint() {}
  @usableFromInline
  func dropCheckpoint() {}
  @usableFromInline
  func forgetAtEnd(_ memory: SelectorMemory) {}

  /// Drops the state, where it is the source of a store that is gone.
  @usableFromInline
  func release() {}

  /// Ends all sequences, here and below.
  @usableFromInline
  final func end() {
    var below = ContiguousArray<AnySource>()
    endHere(&below)
    while let source = below.popLast() { source.endHere(&below) }
  }

  /// Sees to it that this source is told of every commit.
  @usableFromInline
  final func attach() {
    var next = attachHere()
    while let source = next { next = source.attachHere() }
  }

  /// Lets go of what it attached to, unless somebody still watches this source.
  @usableFromInline
  final func detachIfUnwatched() {
    var next = detachHere()
    while let source = next { next = source.detachHere() }
  }

  /// The source of the store that it is a view of, or its own.
  final var storeSource: AnySource {
    var source = self
    while !source.isStore, let next = source.upstreamSource { source = next }
    return source
  }
}

/// Where states come from: a root store, a child store, a scope or a duplicate filter. Lives on its tree's executor.
///
/// What differs between them is in closures, not in methods: a closure is specialized where it is made, with the user's
/// types, while a method that is called through a class or a protocol is not.
@usableFromInline
class Source<State: Sendable>: AnySource {
  @usableFromInline
  final let access: StateAccess<State>
  /// What it takes its states from; nothing for a root store.
  @usableFromInline
  final let link: UpstreamLink<State>?
  /// Those who follow it. Made with the first.
  @usableFromInline
  final let channel = Lazily<Channel<State>>()

  @inlinable
  init(link: UpstreamLink<State>? = nil, withState: @escaping (Source<State>, _ body: (State) -> Void) -> Void) {
    self.link = link
    access = StateAccess(withState)
  }

  @usableFromInline
  override final var upstreamSource: AnySource? { link?.source }

  // MARK: Reading

  /// Shows the state in place, without a copy; where there is none, the closure is not called.
  @inlinable
  final func withState(_ body: (State) -> Void) {
    if let link, link.depth > Depth.reach { return withDeepState(body) }
    access.withState(self, body)
  }

  /// As `withState`, for the sources that take their states from this one.
  @inlinable
  final func passState(_ body: (State) -> Void) {
    guard let link, Depth.isBreak(link.depth), let checkpoint = link.checkpoint else {
      return access.withState(self, body)
    }
    if let state = checkpoint.state { body(state) }
  }

  /// From checkpoint to checkpoint: each is worked out from the one above.
  @inline(never)
  @inlinable
  final func withDeepState(_ body: (State) -> Void) {
    let checkpoints = breaksAbove
    for source in checkpoints.reversed() { source.makeCheckpoint() }
    access.withState(self, body)
    for source in checkpoints { source.dropCheckpoint() }
  }

  @usableFromInline
  final var breaksAbove: [AnySource] {
    var breaks: [AnySource] = []
    var depth = link?.depth ?? 0
    var next = upstreamSource
    while let source = next {
      depth -= 1
      if Depth.isBreak(depth) { breaks.append(source) }
      next = source.upstreamSource
    }
    return breaks
  }

  @usableFromInline
  override final func makeCheckpoint() {
    var state: State?
    access.withState(self) { state = $0 }
    link?.checkpoint = Checkpoint(state)
  }

  @usableFromInline
  override final func dropCheckpoint() { link?.checkpoint = nil }

  // MARK: Ending

  @usableFromInline
  override final func endHere(_ below: inout ContiguousArray<AnySource>) {
    if channel.exists { endFollowers(&below) }
    link?.detach()?.detachIfUnwatched()
  }

  @inline(never)
  @inlinable
  final func endFollowers(_ below: inout ContiguousArray<AnySource>) {
    activeChannel?.finish()
    setActive(false)
    for downstream in changeDownstreams({ $0.removeAll() }) { below.append(downstream.source) }
    forgetMemories()
  }

  /// Has a selector's memory forgotten at the end of this store.
  @usableFromInline
  override final func forgetAtEnd(_ memory: SelectorMemory) {
    let channel = channel { Channel() }
    if channel.memories.count == channel.memories.capacity {
      channel.memories.removeAll { $0.memory == nil }
      // So that there is room for as many before the next look.
      channel.memories.reserveCapacity(2 * channel.memories.count)
    }
    channel.memories.append(WeakMemory(memory))
  }

  /// Has the store know of a selector's memory, once.
  @usableFromInline
  final func makeKnown(_ memory: SelectorMemory) {
    if memory.isKnown { return }
    memory.isKnown = true
    storeSource.forgetAtEnd(memory)
  }

  @usableFromInline
  final func forgetMemories() {
    channel.withObject { channel in
      let memories = channel.memories
      channel.memories = []
      for weak in memories { weak.memory?.forget() }
    }
  }

  /// Adds what there is of subscriptions here.
  @usableFromInline
  override final func surveyHere(_ statistics: inout StoreStatistics, _ below: inout ContiguousArray<AnySource>) {
    activeChannel?.survey(&statistics)
    _ = withDownstreams { downstreams in downstreams.forEach { below.append($0.source) } }
  }

  // MARK: Watching

  @inlinable
  final var isWatched: Bool { withDownstreams { !$0.isEmpty } == true || activeChannel?.isIdle == false }

  /// Gives a subscription its place in the order: its first element is the state now (G5).
  @inlinable
  final func activate(_ cursor: Int) {
    let channel = channel { Channel() }
    attach()
    setActive(true)
    var hasState = false
    withState { state in
      hasState = true
      channel.activate(cursor, first: state)
    }
    if !hasState { channel.activate(cursor, first: nil) }
    // Where it was cancelled before its place came, and nobody else follows.
    if channel.isIdle { detachIfUnwatched() }
  }

  @usableFromInline
  override final func attachHere() -> AnySource? { link?.attach(self) }

  @usableFromInline
  override final func detachHere() -> AnySource? {
    if activeChannel?.isIdle == true {
      setActive(false)
      dropScratch()
    }
    return isWatched ? nil : link?.detach()
  }

  @inlinable
  final func add(_ downstream: Downstream<State>) {
    changeDownstreams { downstreams in
      downstream.place = downstreams.count
      downstreams.append(downstream)
    }
  }

  @inlinable
  final func remove(_ downstream: Downstream<State>) {
    changeDownstreams { downstreams in
      let place = downstream.place
      if downstreams.has(downstream, at: place) { downstreams.remove(at: place)?.place = place }
    }
  }
}

/// How deep a chain of sources or stores may be done with by recursion.
@usableFromInline
enum Depth {
  @inlinable
  static var reach: Int { 64 }

  /// Whether a chain is broken at a depth: what goes on from there goes on in a loop.
  @inlinable
  static func isBreak(_ depth: Int) -> Bool { depth % reach == 0 && depth > 0 }
}

/// A state on its way down from source to source, within one commit. What is deeper than recursion should go waits here.
@usableFromInline
struct Propagation {
  @usableFromInline
  var depth = 0
  @usableFromInline
  var waiting: ContiguousArray<(inout Propagation) -> Void> = []

  @inlinable
  init() {}

  @inlinable
  mutating func finish() {
    while let next = waiting.popLast() { next(&self) }
  }
}

/// The state of a source far down, while those below it are worked out.
@usableFromInline
final class Checkpoint<State> {
  @usableFromInline
  let state: State?

  @usableFromInline
  init(_ state: State?) { self.state = state }
}

/// What a selector remembers, to be forgotten at the end of the store.
@usableFromInline
final class SelectorMemory {
  @usableFromInline
  let forget: () -> Void
  /// Whether the store knows of it.
  @usableFromInline
  var isKnown = false

  @usableFromInline
  init(forget: @escaping () -> Void) { self.forget = forget }
}

@usableFromInline
struct WeakMemory {
  private(set) weak var memory: SelectorMemory?

  init(_ memory: SelectorMemory) { self.memory = memory }
}

/// The way to a source's state, given the source: not copyable, as `Uncounted` is not.
@usableFromInline
struct StateAccess<State: Sendable>: ~Copyable {
  @usableFromInline
  let withState: (Source<State>, _ body: (State) -> Void) -> Void

  @inlinable
  init(_ withState: @escaping (Source<State>, _ body: (State) -> Void) -> Void) {
    self.withState = withState
  }
}

/// A watched source as the source above it sees it.
@usableFromInline
final class Downstream<Input> {
  @usableFromInline
  let source: AnySource
  @usableFromInline
  let receive: (borrowing Input, inout Propagation) -> Void
  /// Where it stands among the downstreams of its upstream.
  @usableFromInline
  var place = 0

  @inlinable
  init(source: AnySource, receive: @escaping (borrowing Input, inout Propagation) -> Void) {
    self.source = source
    self.receive = receive
  }
}

/// Ties a source to the one above it, as long as somebody watches it.
@usableFromInline
class UpstreamLink<State: Sendable> {
  /// How many sources there are above.
  @usableFromInline
  final let depth: Int
  @usableFromInline
  final var checkpoint: Checkpoint<State>?

  @inlinable
  init(depth: Int) { self.depth = depth }

  @usableFromInline
  var source: AnySource? { nil }
  /// Answers what it has attached to, which is to be attached next; nothing where it was attached before.
  @usableFromInline
  func attach(_ follower: Source<State>) -> AnySource? { nil }
  /// Answers what it was attached to, which may be unwatched now.
  @usableFromInline
  func detach() -> AnySource? { nil }
}

/// How a source makes its states from another one's.
@usableFromInline
final class Link<Input: Sendable, State: Sendable>: UpstreamLink<State> {
  // SAFETY: changed by the deinitializer alone, so that there is nothing to check about accesses.
  @usableFromInline
  @exclusivity(unchecked)
  var upstream: Source<Input>?
  /// Works out what a state of the upstream means for the source, and publishes that.
  @usableFromInline
  let pass: (Input, Source<State>, inout Propagation) -> Void
  /// What is to be done at the beginning and at the end of being watched, where anything is.
  @usableFromInline
  let watching: ((_ upstream: Source<Input>, _ isWatched: Bool) -> Void)?
  @usableFromInline
  var downstream: Downstream<Input>?

  @inlinable
  init(
    upstream: Source<Input>, watching: ((_ upstream: Source<Input>, _ isWatched: Bool) -> Void)? = nil,
    pass: @escaping (Input, Source<State>, inout Propagation) -> Void
  ) {
    unsafe self.upstream = upstream
    self.watching = watching
    self.pass = pass
    super.init(depth: (upstream.link?.depth ?? 0) + 1)
  }

  @usableFromInline
  override var source: AnySource? { unsafe upstream }

  @inlinable
  func passState(_ body: (Input) -> Void) {
    unsafe upstream?.passState(body)
  }

  @usableFromInline
  override func attach(_ follower: Source<State>) -> AnySource? {
    guard downstream == nil else { return nil }
    let attached = Downstream<Input>(source: follower) { [pass] in pass($0, follower, &$1) }
    downstream = attached
    guard let upstream = unsafe upstream else { return nil }
    upstream.add(attached)
    watching?(upstream, true)
    return upstream
  }

  @usableFromInline
  override func detach() -> AnySource? {
    guard let attached = downstream.take(), let upstream = unsafe upstream else { return nil }
    upstream.remove(attached)
    watching?(upstream, false)
    return upstream
  }

  deinit {
    if Depth.isBreak(depth) { ReleaseQueue.deep.release { unsafe Confined(storing: upstream.take() as AnySource?) } }
  }
}

// MARK: - The kinds of sources

extension StoreSource {
  /// A root store's: it shows what it owns.
  @inlinable
  static func root(_ state: State, reducer: Reducer<State, Action>) -> StoreSource where Owned == State {
    StoreSource(owned: state, reducer: reducer, link: nil) { source, body in
      if let state = known(source).owned { body(state) }
    }
  }

  /// A child store's: its parent's state and its own, composed.
  @inlinable
  static func child<Parent: Sendable>(
    of parent: Source<Parent>, owning local: Owned, reducer: Reducer<Owned, Action>,
    stateMapping: @escaping @Sendable (Parent, Owned) -> State
  ) -> StoreSource {
    let link = Link<Parent, State>(upstream: parent) { parentState, source, propagation in
      if let local = known(source).owned { source.publish(stateMapping(parentState, local), &propagation) }
    }
    return StoreSource(owned: local, reducer: reducer, link: link) { source, body in
      guard let local = known(source).owned else { return }
      link.passState { body(stateMapping($0, local)) }
    }
  }

  /// Publishes what a root store owns, where anybody follows it. Kept out of what commits where nobody does: that is small enough, then, to be
  /// one function with the closure around it, which saves a copy of the action.
  @inline(never)
  @inlinable
  func publishOwned() where Owned == State {
    guard isFollowed, let state = owned else { return }
    var propagation = Propagation()
    publish(state, &propagation)
    propagation.finish()
  }
}

// A link is what holds the source above: a closure that held it, too, would have it released by recursion.
extension Source {
  /// A part or a view of another source's state, worked out once a commit for all who watch it.
  @inlinable
  static func scope<Input: Sendable>(
    of upstream: Source<Input>, transform: @escaping @Sendable (Input) -> State?
  ) -> Source {
    let link = Link<Input, State>(upstream: upstream) { input, source, propagation in
      if let state = transform(input) { source.publish(state, &propagation) }
    }
    return Source(link: link) { _, body in
      link.passState { input in
        if let state = transform(input) { body(state) }
      }
    }
  }

  /// A store's states without those of the commits that it does not publish.
  @inlinable
  static func emitting(from upstream: Source, except unchanged: Equating<State>) -> Source {
    let memory = unchanged.makeMemory()
    let link = Link<State, State>(upstream: upstream) { upstream, isWatched in
      memory.forget()
      if isWatched { upstream.withState { memory.remember($0) } }
    } pass: { state, source, propagation in
      let isUnchanged = memory.equals(state)
      memory.remember(state)
      if !isUnchanged { source.publish(state, &propagation) }
    }
    return Source(link: link) { _, body in link.passState(body) }
  }

  /// The states of a selector that remembers: worked out anew only where what it is made from has changed.
  @inlinable
  static func selecting<Input: Sendable>(
    _ selector: StateSelector<Input, State>, of upstream: Source<Input>
  ) -> Source {
    let selection = selector.makeSelection()
    let memory = selection.forget.map { SelectorMemory(forget: $0) }
    let link = Link<Input, State>(upstream: upstream) { input, source, propagation in
      if let memory { source.makeKnown(memory) }
      source.publish(selection.select(input), &propagation)
    }
    return Source(link: link) { source, body in
      if let memory { source.makeKnown(memory) }
      link.passState { input in body(selection.select(input)) }
    }
  }

  /// Another source's states without those that equal the one before, for one subscriber.
  @inlinable
  static func removingDuplicates(of upstream: Source, equating: Equating<State>) -> Source {
    let memory = equating.makeMemory()
    let link = Link<State, State>(upstream: upstream) { _, isWatched in
      if !isWatched { memory.forget() }
    } pass: { state, source, propagation in
      if memory.equals(state) { return }
      memory.remember(state)
      source.publish(state, &propagation)
    }
    // Asked for the first element only, which is passed on in any case.
    return Source(link: link) { _, body in
      link.passState { state in
        memory.remember(state)
        body(state)
      }
    }
  }
}
