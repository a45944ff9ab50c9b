/// What can be asked of a source whatever its states are.
@usableFromInline
class AnySource {
  @inlinable
  init() {}

  /// Ends all sequences, here and below.
  @usableFromInline
  func end() {}

  /// Drops the state, where it is the source of a store that is gone.
  @usableFromInline
  func release() {}
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

  /// Shows the state in place, without a copy; where there is none, the closure is not called.
  @inlinable
  final func withState(_ body: (State) -> Void) { access.withState(self, body) }

  @inlinable
  final var isWatched: Bool { withDownstreams { !$0.isEmpty } == true || activeChannel?.isIdle == false }

  @usableFromInline
  override final func end() {
    if channel.exists { endFollowers() }
    link?.detach()
  }

  @inline(never)
  @inlinable
  final func endFollowers() {
    activeChannel?.finish()
    setActive(false)
    for downstream in changeDownstreams({ $0.removeAll() }) { downstream.end() }
  }

  // MARK: Watching

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
  }

  /// Sees to it that this source is told of every commit.
  @inlinable
  final func attach() { link?.attach(self) }

  /// Lets go of what it attached to, unless somebody still watches this source.
  @inlinable
  final func detachIfUnwatched() {
    if activeChannel?.isIdle == true {
      setActive(false)
      dropScratch()
    }
    if !isWatched { link?.detach() }
  }

  @inlinable
  final func add(_ downstream: Downstream<State>) {
    changeDownstreams { downstreams in
      downstream.place = downstreams.count
      downstreams.append(downstream)
    }
    attach()
  }

  @inlinable
  final func remove(_ downstream: Downstream<State>) {
    changeDownstreams { downstreams in
      let place = downstream.place
      if downstreams.has(downstream, at: place) { downstreams.remove(at: place)?.place = place }
    }
    detachIfUnwatched()
  }
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

/// A closure that is called in its place: what cannot be copied is not counted either.
@usableFromInline
struct Uncounted<Input>: ~Copyable {
  @usableFromInline
  let body: (borrowing Input) -> Void

  @inlinable
  init(_ body: @escaping (borrowing Input) -> Void) {
    self.body = body
  }

  @inlinable
  func callAsFunction(_ input: borrowing Input) { body(input) }
}

/// A watched source as the source above it sees it.
@usableFromInline
final class Downstream<Input> {
  @usableFromInline
  let receive: Uncounted<Input>
  @usableFromInline
  let end: () -> Void
  @usableFromInline
  let survey: (inout StoreStatistics) -> Void
  /// Where it stands among the downstreams of its upstream.
  @usableFromInline
  var place = 0

  @inlinable
  init(
    receive: @escaping (borrowing Input) -> Void, end: @escaping () -> Void,
    survey: @escaping (inout StoreStatistics) -> Void
  ) {
    self.receive = Uncounted(receive)
    self.end = end
    self.survey = survey
  }
}

/// Ties a source to the one above it, as long as somebody watches it.
@usableFromInline
class UpstreamLink<State: Sendable> {
  @inlinable
  init() {}

  @usableFromInline
  func attach(_ source: Source<State>) {}
  @usableFromInline
  func detach() {}
}

/// How a source makes its states from another one's.
@usableFromInline
final class Link<Input: Sendable, State: Sendable>: UpstreamLink<State> {
  @usableFromInline
  let upstream: Source<Input>
  /// Works out what a state of the upstream means for the source, and publishes that.
  @usableFromInline
  let pass: (Input, Source<State>) -> Void
  /// What is to be done at the beginning and at the end of being watched, where anything is.
  @usableFromInline
  let watched: (() -> Void)?
  @usableFromInline
  let unwatched: (() -> Void)?
  @usableFromInline
  var downstream: Downstream<Input>?

  @inlinable
  init(
    upstream: Source<Input>, watched: (() -> Void)? = nil, unwatched: (() -> Void)? = nil,
    pass: @escaping (Input, Source<State>) -> Void
  ) {
    self.upstream = upstream
    self.watched = watched
    self.unwatched = unwatched
    self.pass = pass
  }

  @usableFromInline
  override func attach(_ source: Source<State>) {
    guard downstream == nil else { return }
    let attached = Downstream<Input> { [pass] in
      pass($0, source)
    } end: {
      source.end()
    } survey: {
      source.survey(&$0)
    }
    downstream = attached
    upstream.add(attached)
    watched?()
  }

  @usableFromInline
  override func detach() {
    guard let attached = downstream.take() else { return }
    upstream.remove(attached)
    unwatched?()
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
    let link = Link<Parent, State>(upstream: parent) { parentState, source in
      if let local = known(source).owned { source.publish(stateMapping(parentState, local)) }
    }
    return StoreSource(owned: local, reducer: reducer, link: link) { source, body in
      guard let local = known(source).owned else { return }
      parent.withState { body(stateMapping($0, local)) }
    }
  }

  /// Publishes what a root store owns, where anybody follows it. Kept out of what commits where nobody does: that is small enough, then, to be
  /// one function with the closure around it, which saves a copy of the action.
  @inline(never)
  @inlinable
  func publishOwned() where Owned == State {
    if isFollowed, let state = owned { publish(state) }
  }
}

extension Source {
  /// A part or a view of another source's state, worked out once a commit for all who watch it.
  @inlinable
  static func scope<Input: Sendable>(
    of upstream: Source<Input>, transform: @escaping @Sendable (Input) -> State?
  ) -> Source {
    let link = Link<Input, State>(upstream: upstream) { input, source in
      if let state = transform(input) { source.publish(state) }
    }
    return Source(link: link) { _, body in
      upstream.withState { input in
        if let state = transform(input) { body(state) }
      }
    }
  }

  /// A store's states without those of the commits that it does not publish.
  @inlinable
  static func emitting(from upstream: Source, except unchanged: Equating<State>) -> Source {
    var memory: StateMemory<State>?
    let link = Link<State, State>(upstream: upstream) {
      memory = unchanged.makeMemory()
      upstream.withState { memory?.remember($0) }
    } unwatched: {
      memory = nil
    } pass: { state, source in
      guard let memory else { return }
      let isUnchanged = memory.equals(state)
      memory.remember(state)
      if !isUnchanged { source.publish(state) }
    }
    return Source(link: link) { _, body in upstream.withState(body) }
  }

  /// The states of a selector that remembers: worked out anew only where what it is made from has changed.
  @inlinable
  static func selecting<Input: Sendable>(
    _ selector: StateSelector<Input, State>, of upstream: Source<Input>
  ) -> Source {
    let select = selector.makeSelect()
    let link = Link<Input, State>(upstream: upstream) { input, source in source.publish(select(input)) }
    return Source(link: link) { _, body in
      upstream.withState { input in body(select(input)) }
    }
  }

  /// Another source's states without those that equal the one before, for one subscriber.
  @inlinable
  static func removingDuplicates(of upstream: Source, equating: Equating<State>) -> Source {
    let memory = equating.makeMemory()
    let link = Link<State, State>(upstream: upstream) { state, source in
      if memory.equals(state) { return }
      memory.remember(state)
      source.publish(state)
    }
    // Asked for the first element only, which is passed on in any case.
    return Source(link: link) { _, body in
      upstream.withState { state in
        memory.remember(state)
        body(state)
      }
    }
  }
}
