/// An object that belongs to the stores of a tree and is notified when one of them ends.
///
/// SAFETY: has no variables; subclasses are responsible for their own. The compiler does not check a class that is not
/// final.
@usableFromInline class StoreCompanion: @unchecked Sendable {
  init() {}

  /// A store has ended, and with it every store below it.
  @usableFromInline func end(below node: any AnyStoreNode, cancelling: Bool) {}

  /// How many tasks are running.
  var runningCount: Int { 0 }

  /// How many effects run or wait under each id. Only on the tree's executor.
  var namedCounts: [String: Int] { [:] }
}
