/// Passes every state of a source to a closure, in commit order, on the tree's executor. The closure decides on effects
/// of the state. A follower cannot itself be followed.
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

  /// Takes its place in the order: the first state is the current one.
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
  /// Called when there is no state, as an optional scope is nil.
  @usableFromInline let vanish: () -> Void

  @inlinable init(tell: @escaping (State) -> Void, vanish: @escaping () -> Void) {
    self.tell = tell
    self.vanish = vanish
  }
}
