/// Has a child store that follows a part of its parent's state publish the commits on its own path, too: those leave
/// the part as it is, as a rule. Not specialized: it is a small part of what such a commit costs.
@usableFromInline final class PartTurn {
  /// The child's, which keeps this object.
  @usableFromInline unowned var source: AnySource?
  /// The root store's, which publishes first.
  private let top: AnySource
  private var isOpen = false
  /// The one that was opened before it, further down on the path.
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
  /// A root store has published: children of a part that are on the path do, those next to the root first. In a loop,
  /// as there may be a thousand.
  @usableFromInline final func endTurns() {
    channel.withObject { channel in
      var next = channel.turns
      channel.turns = nil
      while let turn = next { next = turn.end() }
    }
  }
}
