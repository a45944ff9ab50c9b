public import Puredux

/// A store that `checkDeliveryContract` is to check, and a way to end it.
public struct StoreUnderTest<State: Sendable, Action: Sendable>: Sendable {
  let store: any StoreType<State, Action>
  let end: @Sendable () async -> Void

  /// Any store.
  ///
  /// - Parameters:
  ///   - store: The store, in its first state.
  ///   - end: Ends the store: `shutdown()` of the store that it belongs to, or what comes closest to it.
  public init(_ store: any StoreType<State, Action>, end: @escaping @Sendable () async -> Void) {
    self.store = store
    self.end = end
  }

  /// A root or child store, which is ended by its shutdown.
  public init(_ store: some OwningStore<State, Action>) {
    self.init(store) { await store.shutdown() }
  }

  /// The same, the end of which can be asked for again.
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
