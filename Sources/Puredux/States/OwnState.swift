/// The state that a store owns, whatever its type.
@usableFromInline class AnyOwnState {
  @inlinable init() {}

  /// Drops the state: its store is gone.
  func release() {}
}

/// The state that a store owns: a root store's, and the local part of a child store's.
@usableFromInline final class OwnState<Value>: AnyOwnState {
  // Without the run-time check for overlapping accesses, which costs as much as a small reducer.
  //
  // SAFETY: reached from the tree's isolation only, where one section is entered at a time (`Tree.enter`), or by who
  // releases a store that nothing is under way for (`Tree.release`): proxies ask whether it is closed before they read,
  // and its own members need it held. What runs during an access is a reducer, or the deinitializer of the state that
  // is released, which have no way back in: everything that can be asked of a tree takes its place in the order or
  // waits for the executor.
  @usableFromInline @exclusivity(unchecked) var storage: Value?

  @inlinable init(_ value: Value) {
    unsafe storage = value
    super.init()
  }

  /// None once the store is gone.
  @inlinable var value: Value? { unsafe storage }

  @inlinable @inline(__always) func change(_ change: (inout Value) -> Void) {
    guard unsafe storage != nil else { return }
    unsafe change(&storage!)
  }

  override func release() {
    unsafe storage = nil
  }
}
