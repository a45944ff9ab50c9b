/// Has a child store that follows a part of its parent's state publish the commits on its own path, too, as these
/// mostly leave the part as it is. Not specialized: it is a small part of the cost of such a commit.
@usableFromInline final class PartTurn {
  /// The child's source, which keeps this object.
  @usableFromInline unowned var source: AnySource?
  /// The root store's source, which publishes first.
  private let top: AnySource
  private var isOpen = false
  /// The turn that was opened before this one, further down on the path.
  private var below: PartTurn?

  @usableFromInline init(under top: AnySource) { self.top = top }

  /// The child is on the path of the commit that is in progress. Nothing needs to be done while nobody follows anything
  /// of the tree.
  @usableFromInline func begin() {
    top.channel.withObject { channel in
      isOpen = true
      below = channel.turns
      channel.turns = self
    }
  }

  /// The part has changed, and so the child has published this commit.
  @usableFromInline func isPublished() { isOpen = false }

  /// Publishes the commit, if that has not happened. Returns the turn that ends next.
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
  /// A root store has published: now the children of a part that are on the path do, those next to the root first. In a
  /// loop, as there may be a thousand.
  @usableFromInline final func endTurns() {
    channel.withObject { channel in
      var next = channel.turns
      channel.turns = nil
      while let turn = next { next = turn.end() }
    }
  }
}
