extension StoreType {
  /// Calls an observer with the present state, and then with one for each commit that the store publishes (G4, G5).
  ///
  /// The observer's task belongs to the store that this store's actions go to. When that store ends, the task is
  /// cancelled, but still gets every state published before (G7); `shutdown` waits for it. If it has ended, the
  /// observer is never called.
  ///
  /// An observer has one subscription: a new one, to this store or another, replaces the earlier one, except for a call
  /// in progress or just being made. Calls never overlap (G8): the new subscription begins, and gets a task, when that
  /// call returns. If its store has ended by then, the observer is not called, unless the call belongs to the same
  /// store: its task then continues with the new subscription.
  ///
  /// - Returns: A handle to cancel the subscription. Releasing it does not cancel.
  @discardableResult @inlinable public func subscribe(observer: Observer<State>) -> Subscription {
    let proxy = store()
    return proxy.source.subscribe(observer, through: proxy.route.node)
  }

  /// Runs an effect of the state, for the state at its place in the order, taken when this returns, and for each later
  /// commit that the store publishes (G5, G8).
  ///
  /// Its tasks belong to the store that this store's actions go to: its end cancels them, and `shutdown` awaits them.
  /// Their actions go through this store's projection, if any. While an optional scope has no state, there is no
  /// effect. If the store has ended, no task begins.
  ///
  /// - Returns: A handle to end the effect. Releasing it does not.
  @discardableResult @inlinable public func subscribe(effect: StateEffect<State, Action>) -> Subscription {
    let proxy = store()
    let route = proxy.route
    return effect.subscribe(to: proxy.source, of: route.node) {
      route.commit(of: $0)
    } dispatch: {
      route.dispatch(by: $0, $1)
    }
  }
}
