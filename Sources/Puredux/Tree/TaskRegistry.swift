/// The tasks of a tree's stores, as a base class for the tree.
///
/// SAFETY: has no variables; subclasses are responsible for their own. The compiler does not check a class that is not
/// final.
@usableFromInline class TaskRegistry: @unchecked Sendable {
  init() {}

  @usableFromInline func end(below node: any AnyStoreNode, cancelling: Bool) {}

  @usableFromInline func startOwed() {}

  var runningCount: Int { 0 }

  var namedCounts: [String: Int] { [:] }
}

@usableFromInline struct TreeWork: Sendable {
  @usableFromInline let begin: @Sendable (isolated any TreeIsolation) -> Void
  @usableFromInline let end: @Sendable (isolated any TreeIsolation) -> Void

  @usableFromInline init(
    begin: @escaping @Sendable (isolated any TreeIsolation) -> Void,
    end: @escaping @Sendable (isolated any TreeIsolation) -> Void
  ) {
    self.begin = begin
    self.end = end
  }
}
