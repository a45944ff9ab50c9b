/// Work for a tree's executor.
///
/// SAFETY: has no variables; subclasses are responsible for their own. The compiler does not check a class that is not
/// final.
@usableFromInline class Command: @unchecked Sendable {
  @usableFromInline init() {}

  @usableFromInline func perform(on tree: isolated any TreeIsolation) {}

  /// Called in place of `perform` if nothing else holds the command.
  func performUnheld(on tree: isolated any TreeIsolation) { perform(on: tree) }
}

extension Command {
  static func closure(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> Command { Closure(body) }

  /// SAFETY: its only member is a `Sendable` constant. The compiler does not check subclasses of `Command`.
  private final class Closure: Command, @unchecked Sendable {
    private let body: @Sendable (isolated any TreeIsolation) -> Void

    init(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) {
      self.body = body
      super.init()
    }

    override func perform(on tree: isolated any TreeIsolation) { body(tree) }
  }
}

@usableFromInline protocol CommandQueue: AnyObject, Sendable {
  /// False if the queue accepts no commands any more.
  func enqueue(_ command: Command) -> Bool
  /// Like `enqueue`, also after the store's end, because the detached follower may follow a store above. Does nothing
  /// after the end of the tree, which detaches all followers.
  func enqueueDetachment(_ command: Command)
  func hosts(_ effect: RunningEffect) -> Bool
}

extension CommandQueue {
  @usableFromInline func enqueue(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) -> Bool {
    enqueue(.closure(body))
  }

  @usableFromInline func enqueueDetachment(_ body: @escaping @Sendable (isolated any TreeIsolation) -> Void) {
    enqueueDetachment(.closure(body))
  }
}
