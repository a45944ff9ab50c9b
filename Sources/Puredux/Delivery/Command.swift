/// What a tree is asked to do beside committing actions. Takes its place in the order as they do, and is performed once.
@usableFromInline
class Command {
  @inlinable
  init() {}

  @usableFromInline
  func perform(on tree: isolated any TreeIsolation) {}
}

/// Whatever a closure does.
@usableFromInline
final class Call: Command {
  @usableFromInline
  let body: @Sendable (isolated any TreeIsolation) -> Void

  @inlinable
  init(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) {
    self.body = body
  }

  @usableFromInline
  override func perform(on tree: isolated any TreeIsolation) { body(tree) }
}

/// The end of a store, after the last action that it accepted.
@usableFromInline
final class End<Action: Sendable>: Command {
  @usableFromInline
  let origin: Origin<Action>
  @usableFromInline
  let isReleased: Bool
  @usableFromInline
  let cancelling: Bool

  @inlinable
  init(of origin: Origin<Action>, cancelling: Bool) {
    self.origin = origin
    self.cancelling = cancelling
    isReleased = false
  }

  /// Of a store that is gone: its state goes, too.
  @inlinable
  init(ofReleased origin: Origin<Action>) {
    self.origin = origin
    cancelling = true
    isReleased = true
  }

  @usableFromInline
  override func perform(on tree: isolated any TreeIsolation) {
    origin.node.withValue(on: tree) {
      $0.source.end()
      if isReleased { $0.source.release() }
    }
    if origin.depth == 0 { origin.tree.extras.withObject { $0.forgetObserver(on: tree) } }
    origin.endEffects(cancelling: cancelling)
  }
}
