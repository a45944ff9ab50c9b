extension Sequence {
  /// Sends the actions of a history to a store, in order. A new store with the same reducers, whose initial state is
  /// the first entry's `stateBefore`, goes through the same states.
  ///
  /// The store should have no middleware and no interceptor: the history has the actions that middleware passed on,
  /// including those that an interceptor dispatched.
  ///
  /// - Throws: The errors of the store's `send`.
  public func replay<State, Action>(
    into store: some ActionHandler<Action>, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) where Element == History<State, Action>.Entry {
    for entry in self { try await store.send(entry.action) }
  }
}
