/// The state that a store owns, whatever its type.
@usableFromInline class AnyStateStorage {
  @inlinable init() {}

  /// Drops the state: its store has been released.
  func release() {}

  /// The storage by its type, for closures that are always given the storage that they were made for, as those of a
  /// commit are. They do not capture it: a closure that captures only constants is compiled for them.
  ///
  /// SAFETY: the caller knows that the state is of this type.
  @unsafe @inlinable @inline(__always) final func known<Value>(of type: Value.Type) -> StateStorage<Value> {
    unsafe unsafeDowncast(self, to: StateStorage<Value>.self)
  }
}

/// The state that a store owns: a root store's, and the local part of a child store's.
@usableFromInline final class StateStorage<Value>: AnyStateStorage {
  // Without the run-time check for overlapping accesses, which costs as much as a small reducer.
  //
  // SAFETY: reached only from the tree's isolation, where the reentrancy guard admits one caller at a time
  // (`Tree.enter`), or from the release of a store for which nothing is in progress (`Tree.release`): proxies check
  // whether it is closed before reading, and its own members need it to be held. What runs during an access is a
  // reducer, or the deinitializer of the state being released, and these have no way back in: each request to a tree
  // takes its place in the order or waits for the executor.
  @usableFromInline @exclusivity(unchecked) var storage: Value?

  /// - Parameter value: Nil if it is still to be computed.
  @inlinable init(_ value: Value? = nil) {
    unsafe storage = value
    super.init()
  }

  func set(_ value: Value) { unsafe storage = value }

  /// Nil once the store is gone.
  @inlinable var value: Value? { unsafe storage }

  @inlinable @inline(__always) func change(_ change: (inout Value) -> Void) {
    guard unsafe storage != nil else { return }
    unsafe change(&storage!)
  }

  override func release() {
    unsafe storage = nil
  }
}
