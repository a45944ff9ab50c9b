/// Follows a store with an async function that is called with one state at a time, in order. Adopted from Puredux.
///
///     let observer = Observer<Cart> { cart in
///       await mailer.tell(cart)
///       return cart.isPaid ? .dead : .active
///     }
///     store.subscribe(observer: observer)
///
/// A `for await` loop over `states()` does the same inside a task of your own. An observer is for work that should
/// belong to the store: it runs as a task of the store, which is cancelled when the store ends and never outlives it.
public final class Observer<State: Sendable>: Sendable {
  /// Whether an observer wants more states.
  public enum Status: Sendable, Equatable {
    case active
    case dead
  }

  @usableFromInline let bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy
  @usableFromInline let equating: Equating<State>
  @usableFromInline let observe: @Sendable (State) async -> Status
  let calls = ObserverCalls()

  /// - Parameters:
  ///   - bufferingPolicy: What is kept while the observer is busy, as for `states()`.
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

extension ObserverCalls {
  /// What a subscription starts when its turn has come.
  struct Turn: Sendable {
    let subscription: ObserverSubscription
    let node: any AnyStoreNode
    /// Follows the store until the end of the subscription. Returns its successor, if that belongs to the same store.
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

/// The calls of an observer: carries out what its turns decide, and nothing else.
final class ObserverCalls: Sendable {
  private let turns = LockedValue(ObserverTurns<ObserverSubscription, ObserverCalls.Turn>())

  /// Makes a subscription the observer's, replacing the previous one, which is cancelled.
  func subscribe(_ subscription: ObserverSubscription) {
    let (replaced, _) = turns.withLock { $0.subscribe(subscription) }
    replaced?.cancel()
  }

  /// A subscription's place in the order has come. True if it begins now.
  func arrive(_ turn: ObserverCalls.Turn) -> Bool {
    turns.withLock { $0.arrive(turn.subscription, with: turn) } == .begins
  }

  func isCurrent(_ subscription: ObserverSubscription) -> Bool {
    turns.withLock { $0.isCurrent(subscription) }
  }

  func begin(by subscription: ObserverSubscription) -> Bool {
    turns.withLock { $0.beginCall(by: subscription) }
  }

  /// A call has returned. Starts the turn that waited for that, or returns it, to be run by the same task, if it
  /// belongs to the same store.
  func end(on node: any AnyStoreNode) -> ObserverCalls.Turn? {
    guard let turn = turns.withLock({ $0.endCall() }) else { return nil }
    if turn.node === node { return turn }
    turn.startInOrder()
    return nil
  }

  /// A subscription is over or cancelled: it no longer calls the observer.
  func end(_ subscription: ObserverSubscription) {
    _ = turns.withLock { $0.end(subscription) }
  }
}

/// Ends what follows a store: an observer, or an effect of its state. Releasing it ends nothing.
public struct Subscription: Sendable {
  let end: @Sendable () -> Void

  /// An observer gets no more states, and its task is cancelled: no further call is made. A call that is in progress,
  /// or that another thread is just making, is completed. The tasks of an effect are cancelled, and nothing that they
  /// dispatch is committed from now on, except what is just being committed.
  ///
  /// Can be called from anywhere, even by the observer or the effect itself, and more than once.
  public func cancel() { end() }
}

/// An observer's subscription to a store.
final class ObserverSubscription: Sendable {
  private struct Life: Sendable {
    /// Nil once it has ended.
    var cancelSubscriber: (@Sendable () -> Void)?
    var task: Task<ObserverCalls.Turn?, Never>?
    var isCancelled = false
  }

  private let calls: ObserverCalls
  private let life: LockedValue<Life>

  init(of calls: ObserverCalls, cancelSubscriber: @escaping @Sendable () -> Void) {
    self.calls = calls
    life = LockedValue(Life(cancelSubscriber: cancelSubscriber))
  }

  /// Like `Subscription.cancel`.
  func cancel() {
    calls.end(self)
    let (cancelSubscriber, task) = life.withLock { life in
      life.isCancelled = true
      return (life.cancelSubscriber.take(), life.task)
    }
    cancelSubscriber?()
    task?.cancel()
  }

  var isCurrent: Bool { calls.isCurrent(self) }

  /// Calls the observer, in a task of its own that `cancel` can cancel, until it is dead or no more states will come.
  /// Returns the subscription's successor, if that belongs to the same store.
  func follow<State: Sendable>(
    _ subscriber: Subscriber, on node: any AnyStoreNode, within running: RunningEffect,
    _ observe: @escaping @Sendable (State) async -> Observer<State>.Status
  ) async -> ObserverCalls.Turn? {
    // As in `IdentifiedEffect.run`: whoever cancels before the task is known does not find it at rest.
    running.holdPauses()
    let task = Task { [calls] in
      running.beginsHere()
      var next: ObserverCalls.Turn?
      // Read regardless of cancellation, which comes with the end of the store: states published before are still
      // delivered.
      while next == nil, let state: State = await subscriber.next(for: running), calls.begin(by: self) {
        let status = await observe(state)
        next = calls.end(on: node)
        if status == .dead { break }
      }
      subscriber.cancel()
      return next
    }
    let isCancelled = life.withLock { life in
      life.task = task
      return life.isCancelled
    }
    if isCancelled { task.cancel() }
    let next = await withTaskCancellationHandler {
      running.releasePauses()
      return await task.value
    } onCancel: {
      task.cancel()
    }
    end()
    return next
  }

  func end() {
    calls.end(self)
    _ = life.withLock { life in
      defer { life = Life() }
      return (life.cancelSubscriber, life.task)
    }
  }
}
