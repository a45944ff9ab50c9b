/// Makes a child store of a part publish the commits on its own path, too, most of which leave the part unchanged. Not
/// specialized, as it is a small fraction of such a commit's cost.
@usableFromInline final class PartTurn {
  @usableFromInline unowned var source: AnySource?
  private let top: AnySource
  private var isOpen = false
  /// The turn opened before this one, further down the path.
  private var below: PartTurn?

  @usableFromInline init(under top: AnySource) { self.top = top }

  /// Called when the child is on the path of the current commit. Does nothing while the tree has no followers.
  @usableFromInline func begin() {
    top.channel.withObject { channel in
      isOpen = true
      below = channel.turns
      channel.turns = self
    }
  }

  @usableFromInline func isPublished() { isOpen = false }

  /// Publishes the commit, unless that has happened. Returns the turn to end next.
  fileprivate func end() -> PartTurn? {
    defer { below = nil }
    guard isOpen, let source else { return below }
    isOpen = false
    guard source.hasFollowers else { return below }
    source.publishHere()
    return below
  }
}

extension AnySource {
  /// After the root store has published: makes the children of parts on the path publish, from the root down.
  @usableFromInline final func endTurns() {
    channel.withObject { channel in
      var next = channel.turns
      channel.turns = nil
      while let turn = next { next = turn.end() }
    }
  }
}
