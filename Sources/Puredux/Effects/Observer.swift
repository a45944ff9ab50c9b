/// Follows a store with an async function that is called with one state at a time, in order. Adopted from Puredux.
///
///     let observer = Observer<Cart> { cart in
///       await mailer.tell(cart)
///       return cart.isPaid ? .dead : .active
///     }
///     store.subscribe(observer: observer)
///
/// For work in a task of your own, use a `for await` loop over `states()`. An observer's task belongs to the store: it
/// is cancelled when the store ends and never outlives it.
public final class Observer<State: Sendable>: Sendable {
  /// Whether an observer wants more states.
  public enum Status: Sendable, Equatable {
    /// It wants the next state.
    case active
    /// It wants no more states: its task ends, and its subscription with it.
    case dead
  }

  @usableFromInline let bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy
  @usableFromInline let equating: Equating<State>
  @usableFromInline let observe: @Sendable (State) async -> Status
  let calls = ObserverCalls()

  /// - Parameters:
  ///   - bufferingPolicy: Which states are buffered while the observer is busy, as for `states()`.
  ///   - equating: Leaves out a state that equals the one before.
  ///   - observe: Called with each state; returns whether it wants more.
  public init(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual,
    _ observe: @escaping @Sendable (State) async -> Status
  ) {
    self.bufferingPolicy = bufferingPolicy
    self.equating = equating
    self.observe = observe
  }
}

extension Confined {
  @usableFromInline func subscribe<State: Sendable>(
    _ observer: Observer<State>, through node: any AnyStoreNode
  ) -> Subscription where Value == Source<State> {
    let subscriber = Subscriber(
      to: removingDuplicates(observer.equating).map { $0 }, Buffering(observer.bufferingPolicy), through: node)
    let calls = observer.calls
    let subscription = ObserverSubscription(of: calls) { subscriber.cancel() }
    calls.subscribe(subscription)
    let turn = ObserverCalls.Turn(subscription: subscription, node: node) { [observe = observer.observe] in
      await subscription.follow(subscriber, on: node, within: $0, observe)
    }
    let isAccepted = node.enqueue { tree in
      subscriber.perform(on: tree)
      if calls.arrive(turn) { turn.start() }
    }
    if !isAccepted {
      subscriber.refuse()
      subscription.end()
    }
    return Subscription { subscription.cancel() }
  }
}
