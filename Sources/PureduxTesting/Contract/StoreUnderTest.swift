public import Puredux

/// A store for `checkDeliveryContract`.
public struct StoreUnderTest<State: Sendable, Action: Sendable>: Sendable {
  let store: any StoreType<State, Action>
  let end: @Sendable () async -> Void

  /// Wraps any store.
  ///
  /// - Parameters:
  ///   - store: The store, in its first state.
  ///   - end: Ends the store: `shutdown()`, or the closest equivalent.
  public init(_ store: any StoreType<State, Action>, end: @escaping @Sendable () async -> Void) {
    self.store = store
    self.end = end
  }

  /// Wraps a root or child store, which `shutdown()` ends.
  public init(_ store: some OwningStore<State, Action>) {
    self.init(store) { await store.shutdown() }
  }

  var endingOnce: StoreUnderTest {
    let hasEnded = Gate()
    return StoreUnderTest(store) { [end] in
      if hasEnded.isOpen { return }
      hasEnded.open()
      await end()
    }
  }

  func states(
    _ policy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded
  ) -> AsyncStream<State> {
    store.states(bufferingPolicy: policy, removeStateDuplicates: .neverEqual)
  }
}
