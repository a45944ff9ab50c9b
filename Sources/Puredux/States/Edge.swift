/// Connects a source to the one that it takes its states from: always upwards, and downwards for as long as the source
/// has subscribers, its own or those of sources below it.
@usableFromInline class AnyEdge {
  @usableFromInline final let source: AnySource

  @usableFromInline init(to source: AnySource) { self.source = source }

  /// Returns the source that it has attached to, which is to be attached next; nil if it was attached already.
  func attach(_ follower: AnySource) -> AnySource? { nil }
  /// Returns the source that it was attached to, which may have no subscribers left.
  func detach() -> AnySource? { nil }
  /// A follower of the source below, or further down, is about to be shown the present state as its first.
  func willShowState() {}
}

/// An edge to a source whose states are `Input`.
@usableFromInline class Edge<Input: Sendable>: AnyEdge {
  /// Computes what a state of the upstream means for the source below, and publishes the result.
  @usableFromInline typealias Receive = (borrowing Input) -> Void

  /// A source below, for as long as it is attached. Its constants are called in place, which the value of a variable is
  /// not.
  @usableFromInline final class Attachment {
    let follower: AnySource
    @usableFromInline let receive: Receive
    /// Its index among the upstream's attachments.
    var place = 0

    init(follower: AnySource, receive: @escaping Receive) {
      self.follower = follower
      self.receive = receive
    }
  }

  @usableFromInline final let upstream: Source<Input>
  /// Makes the function that receives states for the source below, when that is about to be attached.
  private let connect: (AnySource) -> Receive?
  private var attachment: Attachment?

  @usableFromInline init(to upstream: Source<Input>, connect: @escaping (AnySource) -> Receive?) {
    self.upstream = upstream
    self.connect = connect
    super.init(to: upstream)
  }

  /// Passes the upstream's state to a closure.
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

  /// Changes the list of the upstream's that this belongs to.
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
