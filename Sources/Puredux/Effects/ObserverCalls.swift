final class ObserverCalls: Sendable {
  private let scheduler = LockedValue(ObserverScheduler<ObserverSubscription, ObserverCalls.Turn>())

  func subscribe(_ subscription: ObserverSubscription) {
    let (replaced, _) = scheduler.withLock { $0.subscribe(subscription) }
    replaced?.cancel()
  }

  /// A subscription's place in the order has come. True if it begins now.
  func arrive(_ turn: ObserverCalls.Turn) -> Bool {
    scheduler.withLock { $0.arrive(turn.subscription, with: turn) } == .begins
  }

  func isCurrent(_ subscription: ObserverSubscription) -> Bool {
    scheduler.withLock { $0.isCurrent(subscription) }
  }

  func begin(by subscription: ObserverSubscription) -> Bool {
    scheduler.withLock { $0.beginCall(by: subscription) }
  }

  /// A call has returned. Starts the turn that waited for it. If the turn belongs to the same store, returns it
  /// instead, to be run by the same task.
  func end(on node: any AnyStoreNode) -> ObserverCalls.Turn? {
    guard let turn = scheduler.withLock({ $0.endCall() }) else { return nil }
    if turn.node === node { return turn }
    turn.startInOrder()
    return nil
  }

  func end(_ subscription: ObserverSubscription) {
    scheduler.releasingOutside { $0.end(subscription) }
  }
}

extension ObserverCalls {
  struct Turn: Sendable {
    let subscription: ObserverSubscription
    let node: any AnyStoreNode
    let follow: @Sendable (RunningEffect) async -> Turn?

    /// Only on the tree's executor, while the store has not ended.
    func start() {
      node.effects.start({ await run(within: $0) }, of: node, isObserver: true)
    }

    /// Like `start`, from anywhere, if the store has not ended.
    func startInOrder() {
      let isAccepted = node.enqueue { _ in
        if subscription.isCurrent { start() }
      }
      if !isAccepted { subscription.cancel() }
    }

    private func run(within running: RunningEffect) async {
      var next = await follow(running)
      while let turn = next { next = await turn.follow(running) }
    }
  }
}
