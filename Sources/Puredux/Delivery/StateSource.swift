/// Where states come from: a root store, a child store, a scope or a duplicate filter. Lives on its tree's executor.
protocol StateSource<State>: AnyObject {
  associatedtype State: Sendable

  var outlet: Outlet<State> { get set }

  /// Shows the state in place, without a copy; where there is none, the closure is not called.
  func withState(_ body: (State) -> Void)

  /// Sees to it that this source is told of every commit.
  func attach()

  /// Lets go of what it attached to, unless somebody still watches this source.
  func detachIfUnwatched()
}

extension StateSource {
  /// Gives a subscription its place in the order: its first element is the state now (G5).
  func activate(_ cursor: Int, in channel: Channel<State>) {
    attach()
    outlet.channel = channel
    var hasState = false
    withState { state in
      hasState = true
      channel.activate(cursor, first: state)
    }
    if !hasState { channel.activate(cursor, first: nil) }
  }
}

/// A source that takes its states from another one.
protocol Downstream<Input>: AnyObject {
  associatedtype Input: Sendable
  /// Where it stands in its upstream's outlet.
  var place: Int? { get set }
  func receive(_ state: Input)
  /// No state will follow.
  func end()
}

/// A source whose states are made from another one's: attached to it as long as somebody watches.
protocol DerivedSource<Input, State>: StateSource, Downstream {
  var upstream: any StateSource<Input> { get }
}

extension DerivedSource {
  func attach() {
    upstream.outlet.add(self)
    upstream.attach()
  }

  func detachIfUnwatched() {
    outlet.releaseChannelIfIdle()
    guard !outlet.isWatched else { return }
    upstream.outlet.remove(self)
    upstream.detachIfUnwatched()
  }
}

/// Where a source's states go: to its own subscribers and to the sources that take theirs from it.
struct Outlet<State: Sendable> {
  /// The source's own subscribers, where it has had any.
  var channel: Channel<State>?
  private var downstreams: ContiguousArray<any Downstream<State>> = []
  private var scratch = Channel<State>.Scratch()

  init() {}

  var isWatched: Bool { !downstreams.isEmpty || channel?.isIdle == false }

  mutating func publish(_ state: State) {
    channel?.publish(state, scratch: &scratch)
    for downstream in downstreams { downstream.receive(state) }
  }

  mutating func end() {
    channel?.finish()
    channel = nil
    let ending = downstreams
    downstreams = []
    for downstream in ending {
      downstream.place = nil
      downstream.end()
    }
  }

  mutating func add(_ downstream: some Downstream<State>) {
    guard downstream.place == nil else { return }
    downstream.place = downstreams.count
    downstreams.append(downstream)
  }

  mutating func remove(_ downstream: some Downstream<State>) {
    guard let place = downstream.place else { return }
    downstream.place = nil
    downstreams.swapAt(place, downstreams.count - 1)
    downstreams.removeLast()
    if place < downstreams.count { downstreams[place].place = place }
  }

  /// Forgets the source's own subscribers where none is left.
  mutating func releaseChannelIfIdle() {
    guard channel?.isIdle == true else { return }
    channel = nil
    scratch = Channel<State>.Scratch()
  }
}
