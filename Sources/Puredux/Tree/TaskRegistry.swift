/// The tasks of a tree's stores, as the tree sees them: notified when a store ends, and asked what runs.
///
/// SAFETY: has no variables; subclasses are responsible for their own. The compiler does not check a class that is not
/// final.
@usableFromInline class TaskRegistry: @unchecked Sendable {
  init() {}

  /// A store has ended, and with it every store below it.
  @usableFromInline func end(below node: any AnyStoreNode, cancelling: Bool) {}

  /// Starts the tasks of the commit that is over. Only on the tree's executor.
  @usableFromInline func startOwed() {}

  /// How many tasks are running.
  var runningCount: Int { 0 }

  /// How many effects run or wait under each id. Only on the tree's executor.
  var namedCounts: [String: Int] { [:] }
}
