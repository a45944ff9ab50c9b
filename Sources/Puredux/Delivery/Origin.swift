import Synchronization

/// A store of the tree as its actions see it: where they are given, and from where they take their path up (G2).
///
/// It outlives its store, so that proxies can hold it and learn that the store is gone.
@usableFromInline
final class Origin<Action: Sendable>: StorePlace {
  @usableFromInline
  let tree: Tree<Action>
  // SAFETY: changed by the deinitializer alone, when nobody else can look.
  @usableFromInline
  @exclusivity(unchecked)
  nonisolated(unsafe) var parent: Origin?
  @usableFromInline
  let id: StoreID
  @usableFromInline
  let node: Confined<StoreNode<Action>>
  @usableFromInline
  let closed = Atomic(false)
  /// Whether there is more on its path than reducers.
  @usableFromInline
  let isAttended: Bool
  /// How many stores there are above.
  @usableFromInline
  let depth: Int32

  @inlinable
  init(tree: Tree<Action>, parent: Origin?, node: consuming Confined<StoreNode<Action>>, isAttended: Bool) {
    self.isAttended = isAttended || parent?.isAttended == true
    self.tree = tree
    unsafe self.parent = parent
    depth = parent.map { $0.depth + 1 } ?? 0
    self.node = node
    id = tree.nextStoreID()
  }

  @inlinable
  func dispatch(_ action: Action) -> DispatchResult {
    tree.order(action, from: self) ? .enqueued : .terminated
  }

  @inlinable
  var isClosed: Bool {
    if closed.load(ordering: .relaxed) { return true }
    return unsafe parent != nil && isClosedAbove
  }

  /// Without counting references on the way up, which would cost more than the reducers on it.
  @inlinable
  var isClosedAbove: Bool {
    var next = unsafe parent.map(Borrowed.init)
    while let place = next {
      if place.withObject({ $0.closed.load(ordering: .relaxed) }) { return true }
      next = place.withObject { unsafe $0.parent.map(Borrowed.init) }
    }
    return false
  }

  /// Closes the store. Only under the inbox's lock.
  @inlinable
  func close() {
    closed.store(true, ordering: .relaxed)
  }

  // MARK: Its place

  @usableFromInline
  var parentPlace: (any StorePlace)? { unsafe parent }

  @inlinable
  func order(_ command: Command) -> Bool { tree.order(command, for: self) }

  @inlinable
  func visit<Result: Sendable>(
    isolation: isolated (any Actor)?, _ body: @Sendable (isolated any TreeIsolation) throws(StoreError) -> Result
  ) async throws(StoreError) -> Result {
    try await tree.visit(isolation: isolation) { tree throws(StoreError) in try body(tree) }
  }

  deinit {
    if Depth.isBreak(Int(depth)) { ReleaseQueue.deep.release { unsafe parent.take() } }
  }
}
