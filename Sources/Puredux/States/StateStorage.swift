@usableFromInline class AnyStateStorage {
  @inlinable init() {}

  func release() {}

  /// The storage by its type, for closures that always get the storage they were made for, such as those of a commit.
  /// They do not capture it, as the compiler specializes closures that capture only constants.
  ///
  /// SAFETY: the caller knows that the state is of this type.
  @unsafe @inlinable @inline(__always) final func known<Value>(of type: Value.Type) -> StateStorage<Value> {
    unsafe unsafeDowncast(self, to: StateStorage<Value>.self)
  }
}

@usableFromInline final class StateStorage<Value>: AnyStateStorage {
  // No run-time check for overlapping accesses, which costs as much as a small reducer.
  //
  // SAFETY: there are two ways of access. One is the tree's isolation, where the reentrancy guard admits one caller at
  // a time (`Tree.enter`). The other is the release of a store with nothing in progress (`Tree.release`): proxies check
  // whether it is closed before reading, and its own members require that it is held. Only a reducer, or the
  // deinitializer of the released state, runs during an access. Neither has a way back in: each request to a tree takes
  // its place in the order, or waits for the executor.
  @usableFromInline @exclusivity(unchecked) var storage: Value?

  @inlinable init(_ value: Value? = nil) {
    unsafe storage = value
    super.init()
  }

  func set(_ value: Value) { unsafe storage = value }

  @inlinable var value: Value? { unsafe storage }

  @inlinable @inline(__always) func change(_ change: (inout Value) -> Void) {
    guard unsafe storage != nil else { return }
    unsafe change(&storage!)
  }

  override func release() {
    unsafe storage = nil
  }
}
