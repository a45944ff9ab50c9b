extension EffectContext {
  /// Work that asks its store: it is given a proxy of the interceptor's store, with its state. What it dispatches and
  /// sends belongs to the effect, as what it does through a `Dispatch` (G8).
  ///
  ///     .effects { action, context in
  ///       guard case .checkOut = action else { return nil }
  ///       return context.run { store in
  ///         let total = try await store.send(.freeze) { $0.total }
  ///         try await service.charge(total)
  ///         store.dispatch(.paid)
  ///       }.id("checkout", .first)
  ///     }
  ///
  /// Its actions go to the store that the action was given to: the interceptor's own, or one below it. Of a lifted
  /// interceptor the state is the part's, which may be absent later (`StoreError.stateUnavailable`), and the actions
  /// are mapped. `send` throws `StoreError.terminated` once the effect is cancelled by its id or the state, or its
  /// store has ended.
  public func run(_ work: @escaping @Sendable (Store<State, Action>) async throws -> Void) -> Effect<Action> {
    let states = commit.publishing()
    return .run { dispatch in
      guard let route = Route(of: dispatch) else { return }
      try await work(Store(route: route, source: states))
    }
  }
}
