extension EffectContext {
  /// Work that reads and writes through a proxy of the interceptor's store. Actions that it dispatches, sends or
  /// performs belong to the effect, like those of a `Dispatch` (G8).
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
  /// Its actions go to the store that the action was given to: the interceptor's own, or one below it. In a lifted
  /// interceptor, the state is the part's and the actions are mapped; if the part is absent, reading it throws
  /// `StoreError.stateUnavailable`.
  ///
  /// `send` throws `StoreError.terminated` once the effect is cancelled by its id or the state, or its store has ended.
  public func run(_ work: @escaping @Sendable (Store<State, Action>) async throws -> Void) -> Effect<Action> {
    let states = commit.publishing()
    return .run { dispatch in
      guard let route = Route(of: dispatch) else { return }
      try await work(Store(route: route, source: states))
    }
  }
}
