/// A command whose outcome somebody may wait for.
///
/// SAFETY: has no variables. The compiler does not check a class that can be inherited from.
@usableFromInline class PostponedCommand: Command, @unchecked Sendable {
  /// Whether it waits, in a tree whose order comes from elsewhere, for what has been submitted before it.
  var waitsForCommits: Bool { true }

  /// Runs it, and ends it unless the closure says that it is carried out later. The closure is given whether it failed.
  func attempt(on tree: isolated any TreeIsolation, isKept: (_ hasFailed: Bool) -> Bool) {}

  /// What it has submitted can be taken back when its caller gives it up: the closure does, or returns that it is too
  /// late.
  func canBeWithdrawn(by withdraw: @escaping @Sendable () -> Bool) {}

  /// Ends it with an error.
  func refuse(_ error: StoreError) {}
}
