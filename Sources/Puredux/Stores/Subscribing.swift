extension StoreType {
  /// Subscribes an observer: it is called with the present state, and then with one for each commit that the store
  /// publishes (G4, G5).
  ///
  /// Its task belongs to the store that this store's actions go to. When that ends, the task is cancelled, but still
  /// gets every state published before (G7); `shutdown` waits for it. On a store that has ended the observer is never
  /// called.
  ///
  /// An observer has one subscription: subscribing it again, to this store or another one, replaces the earlier
  /// subscription, which no longer calls it. It is never called by two at a time: if a call is in progress, the new
  /// subscription begins when that returns. Nothing waits for that but the subscription itself: if its store has ended
  /// by then, the observer is never called, unless it is the store that the call belongs to.
  ///
  /// - Returns: A way to cancel the subscription from outside. Releasing it does not cancel.
  @discardableResult @inlinable public func subscribe(observer: Observer<State>) -> Subscription {
    let proxy = store()
    return proxy.source.subscribe(observer, through: proxy.route.node)
  }

  /// Has an effect follow this store's state: from its place in the order on, which is taken when this returns, for the
  /// state at that place and for each commit that the store publishes (G5, G8).
  ///
  /// Its tasks belong to the store that this store's actions go to: they are cancelled when that ends, and `shutdown`
  /// awaits them. What they dispatch goes through this store's projection, if it is one. While an optional scope has no
  /// state there is no effect. On a store that has ended nothing begins.
  ///
  /// - Returns: A way to end the effect from outside. Releasing it does not.
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
