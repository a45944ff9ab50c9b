/// Has a child store that follows a part of its parent's state publish the commits on its own path, too: those leave
/// the part as it is, as a rule. Compiled once, as `CommitStep.above` is: it is a small part of what such a commit
/// costs.
@usableFromInline final class CommitTurn {
  /// The child's, which keeps this object.
  @usableFromInline unowned var source: AnySource?
  private var isOpen = false

  @usableFromInline init() {}

  /// The child is on the path of the commit that begins.
  @usableFromInline func begin() { isOpen = true }

  /// The part has changed, and so the child has published this commit.
  @usableFromInline func isPublished() { isOpen = false }

  /// Publishes the commit, if that has not happened.
  @usableFromInline func end() {
    guard isOpen else { return }
    isOpen = false
    source?.publishHere()
  }
}
