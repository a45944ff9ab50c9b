/// Follows a store with an async function that is called with one state at a time, in order. Its task belongs to the
/// store (G8). In a task of your own, iterate over `states()` instead.
///
///     let observer = Observer<Cart> { cart in
///       await mailer.tell(cart)
///       return cart.isPaid ? .dead : .active
///     }
///     store.subscribe(observer: observer)
public final class Observer<State: Sendable>: Sendable {
  /// Whether an observer wants more states.
  public enum Status: Sendable, Equatable {
    /// It wants the next state.
    case active
    /// It wants no more states: its task and its subscription end.
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
    // The states of a store above go on after the end of the observer's store.
    let ending = node.effects.atEnd(of: node) { [weak subscriber] in subscriber?.finish(as: State.self) }
    let subscription = ObserverSubscription(of: calls) {
      subscriber.cancel()
    } forgetEnding: {
      node.effects.forget(ending)
    }
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

/// Lets one subscription of an observer call it at a time: a pure state machine, under the observer's lock. A
/// subscription arrives at its place in the order, and begins at once or after a call in progress. Unused results are
/// released outside the lock.
struct ObserverScheduler<Subscription: AnyObject, Turn> {
  private(set) var current: Subscription?
  private(set) var isCalling = false
  private(set) var waiting: Turn?

  enum Arrival: Equatable {
    case begins
    case waits
    case refused
  }

  func isCurrent(_ subscription: Subscription) -> Bool { current === subscription }

  mutating func subscribe(_ new: Subscription) -> (Subscription?, Turn?) {
    let replaced = (current, waiting)
    current = new
    waiting = nil
    return replaced
  }

  mutating func arrive(_ subscription: Subscription, with turn: Turn) -> Arrival {
    guard isCurrent(subscription) else { return .refused }
    guard isCalling else { return .begins }
    waiting = turn
    return .waits
  }

  mutating func beginCall(by subscription: Subscription) -> Bool {
    guard isCurrent(subscription), !isCalling else { return false }
    isCalling = true
    return true
  }

  mutating func endCall() -> Turn? {
    isCalling = false
    return waiting.take()
  }

  mutating func end(_ subscription: Subscription) -> (Subscription?, Turn?) {
    guard isCurrent(subscription) else { return (nil, nil) }
    defer {
      current = nil
      waiting = nil
    }
    return (current, waiting)
  }
}

extension ObserverScheduler: Sendable where Subscription: Sendable, Turn: Sendable {}

final class ObserverCalls: Sendable {
  private let scheduler = LockedValue(ObserverScheduler<ObserverSubscription, ObserverCalls.Turn>())

  func subscribe(_ subscription: ObserverSubscription) {
    let (replaced, _) = scheduler.withLock { $0.subscribe(subscription) }
    replaced?.cancel()
  }

  /// True if the subscription begins now.
  func arrive(_ turn: ObserverCalls.Turn) -> Bool {
    scheduler.withLock { $0.arrive(turn.subscription, with: turn) } == .begins
  }

  func isCurrent(_ subscription: ObserverSubscription) -> Bool {
    scheduler.withLock { $0.isCurrent(subscription) }
  }

  func begin(by subscription: ObserverSubscription) -> Bool {
    scheduler.withLock { $0.beginCall(by: subscription) }
  }

  /// Starts the waiting turn. A turn of the same store is returned instead, to be run by the same task.
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

final class ObserverSubscription: Sendable {
  private struct Life: Sendable {
    var cancelSubscriber: (@Sendable () -> Void)?
    var forgetEnding: (@Sendable () -> Void)?
    var task: Task<ObserverCalls.Turn?, Never>?
    var isCancelled = false
  }

  private let calls: ObserverCalls
  private let life: LockedValue<Life>

  init(
    of calls: ObserverCalls, cancelSubscriber: @escaping @Sendable () -> Void,
    forgetEnding: @escaping @Sendable () -> Void
  ) {
    self.calls = calls
    life = LockedValue(Life(cancelSubscriber: cancelSubscriber, forgetEnding: forgetEnding))
  }

  func cancel() {
    calls.end(self)
    let (cancelSubscriber, forgetEnding, task) = life.withLock { life in
      life.isCancelled = true
      return (life.cancelSubscriber.take(), life.forgetEnding.take(), life.task)
    }
    forgetEnding?()
    cancelSubscriber?()
    task?.cancel()
  }

  var isCurrent: Bool { calls.isCurrent(self) }

  /// Calls the observer in a task that `cancel` can cancel. Returns the subscription's successor in the same store.
  func follow<State: Sendable>(
    _ subscriber: Subscriber, on node: any AnyStoreNode, within running: RunningEffect,
    _ observe: @escaping @Sendable (State) async -> Observer<State>.Status
  ) async -> ObserverCalls.Turn? {
    // As in `IdentifiedEffect.run`: no rest before `cancel` can reach the task.
    running.holdPauses()
    let task = Task { [calls] in
      running.beginsHere()
      var next: ObserverCalls.Turn?
      // Reads even if cancelled: states published before the store's end are delivered.
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
    let ended = life.withLock { life in
      defer { life = Life() }
      return life
    }
    ended.forgetEnding?()
    withExtendedLifetime(ended) {}
  }
}

/// The subscription of an observer, or of an effect of the state. Releasing it does not end it.
public struct Subscription: Sendable {
  let end: @Sendable () -> Void

  /// Ends the subscription. Can be called from anywhere, even by the observer or the effect itself, and more than once.
  ///
  /// An observer's task is cancelled, and no further call is made; a call in progress, or just being made by another
  /// thread, is completed. An effect's tasks are cancelled. From now on none of their actions is committed, except by a
  /// commit already in progress.
  public func cancel() { end() }
}
