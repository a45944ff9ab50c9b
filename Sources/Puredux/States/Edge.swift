/// Connects a source to its upstream source: upwards always, downwards while it or a source below has subscribers.
@usableFromInline class AnyEdge {
  @usableFromInline final let source: AnySource

  @usableFromInline init(to source: AnySource) { self.source = source }

  /// Returns the upstream source, to be attached next; nil if already attached.
  func attach(_ follower: AnySource) -> AnySource? { nil }
  /// Returns the upstream source, which may have no subscribers left.
  func detach() -> AnySource? { nil }
  /// Called before a new follower below, at any depth, is shown the current state.
  func willShowState() {}
}

@usableFromInline class Edge<Input: Sendable>: AnyEdge {
  @usableFromInline typealias Receive = (borrowing Input) -> Void

  /// The closure is a constant, and so called in place.
  @usableFromInline final class Attachment {
    let follower: AnySource
    @usableFromInline let receive: Receive
    var place = 0

    init(follower: AnySource, receive: @escaping Receive) {
      self.follower = follower
      self.receive = receive
    }
  }

  @usableFromInline final let upstream: Source<Input>
  private let connect: (AnySource) -> Receive?
  private var attachment: Attachment?

  @usableFromInline init(to upstream: Source<Input>, connect: @escaping (AnySource) -> Receive?) {
    self.upstream = upstream
    self.connect = connect
    super.init(to: upstream)
  }

  @inlinable final func withState(_ body: (Input) -> Void) { upstream.withState(body) }

  override final func attach(_ follower: AnySource) -> AnySource? {
    guard attachment == nil, let receive = connect(follower) else { return nil }
    let made = Attachment(follower: follower, receive: receive)
    attachment = made
    changeAttachments(of: upstream) { attachments in
      made.place = attachments.count
      attachments.append(made)
    }
    return upstream
  }

  func changeAttachments(of upstream: Source<Input>, _ change: (inout ContiguousArray<Attachment>) -> Void) {
    upstream.changeAttachments(change)
  }

  override final func detach() -> AnySource? {
    guard let ended = attachment else { return nil }
    attachment = nil
    changeAttachments(of: upstream) { attachments in
      let place = ended.place
      guard place < attachments.count, attachments[place] === ended else { return }
      attachments.swapAt(place, attachments.count - 1)
      attachments.removeLast()
      if place < attachments.count { attachments[place].place = place }
    }
    ended.follower.detached()
    return upstream
  }
}

/// Passes a source's states to a closure, on the tree's executor. Cannot itself be followed.
@usableFromInline final class Follower<State: Sendable>: AnySource {
  private var follow: StateFollowing<State>?
  private let ended: () -> Void

  @usableFromInline init(of upstream: Source<State>, _ follow: StateFollowing<State>, ended: @escaping () -> Void) {
    self.follow = follow
    self.ended = ended
    super.init(
      edge: Edge<State>(to: upstream) { follower in
        guard let follower = follower as? Follower else { return nil }
        return { state in follower.follow?.tell(state) }
      }, own: nil, level: upstream.level)
  }

  @usableFromInline func begin() {
    attach()
    guard let upstream = edge?.source as? Source<State> else { return }
    upstream.withState { follow?.tell($0) }
  }

  override func vanishHere(_ below: inout ContiguousArray<AnySource>) { follow?.vanish() }
  override func detachHere() -> AnySource? { edge?.detach() }
  override func closeHere(_ below: inout ContiguousArray<AnySource>) { edge?.detach()?.detachIfIdle() }
  override func detached() {
    follow = nil
    ended()
  }
}

@usableFromInline struct StateFollowing<State> {
  @usableFromInline let tell: (State) -> Void
  /// Called when an optional scope becomes nil.
  @usableFromInline let vanish: () -> Void

  @inlinable init(tell: @escaping (State) -> Void, vanish: @escaping () -> Void) {
    self.tell = tell
    self.vanish = vanish
  }
}
