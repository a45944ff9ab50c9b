extension Sequence {
  /// Sends the actions of a history to a store, in order: a new one with the same reducers, whose initial state is the
  /// `stateBefore` of the first entry, goes through the same states.
  ///
  /// The store should have no middleware and no interceptor: the actions are those that middleware passed on, and they
  /// include those that an interceptor dispatched.
  ///
  /// - Throws: What the store's `send` throws.
  public func replay<State, Action>(
    into store: some ActionHandler<Action>, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) where Element == History<State, Action>.Entry {
    for entry in self { try await store.send(entry.action) }
  }
}
