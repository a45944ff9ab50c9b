extension StoreType {
  /// Subscribes an observer: it is called with the state now, and then with one for each commit that the store
  /// publishes (G4, G5).
  ///
  /// Its task belongs to the store that this store's actions go to. When that ends, the task is cancelled, but still
  /// gets every state that there was before (G7); `shutdown` waits for it. On a store that has ended it is never
  /// called.
  ///
  /// An observer has one subscription: subscribing it again, to this store or another one, replaces the earlier
  /// subscription, which no longer calls it. It is not called by two at a time: where a call is under way, the new one
  /// begins when that returns. Nothing waits for that but the subscription itself: if its store has ended before, the
  /// observer is never called, unless it is the store that the call belongs to.
  ///
  /// - Returns: What cancels the subscription from outside. Releasing it does not cancel.
  @discardableResult @inlinable public func subscribe(observer: Observer<State>) -> Subscription {
    let proxy = store()
    return proxy.source.subscribe(observer, through: proxy.route.node)
  }

  /// Has an effect follow this store's state: from its place in the order on, which it has when this returns, for the
  /// state then and for each commit that the store publishes (G5, G8).
  ///
  /// Its tasks belong to the store that this store's actions go to: they are cancelled when that ends, and `shutdown`
  /// awaits them. What they dispatch goes through this store's projection, if it is one. While an optional scope has no
  /// state there is no effect. On a store that has ended nothing begins.
  ///
  /// - Returns: What ends the effect from outside. Releasing it does not.
  @discardableResult @inlinable public func subscribe(effect: StateEffect<State, Action>) -> Subscription {
    let proxy = store()
    let route = proxy.route
    return effect.subscribe(to: proxy.source, of: route.node) { route.dispatch(by: $0, $1) }
  }
}
