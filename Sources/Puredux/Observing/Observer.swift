/// Follows a store with an async function that is called with one state at a time, in order. Taken over from Puredux.
///
///     let observer = Observer<Cart> { cart in
///       await mailer.tell(cart)
///       return cart.isPaid ? .dead : .active
///     }
///     store.subscribe(observer: observer)
///
/// A `for await` loop over `states()` does the same inside a task of one's own. An observer is for work that should belong to the store: it runs as
/// a task of the store, which is cancelled when the store ends and never outlives it.
public final class Observer<State: Sendable>: Sendable {
  /// Whether an observer wants more.
  public enum Status: Sendable, Equatable {
    case active
    case dead
  }

  @usableFromInline
  let bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy
  @usableFromInline
  let equating: Equating<State>
  @usableFromInline
  let observe: @Sendable (State) async -> Status
  let calls = ObserverCalls()

  /// - Parameters:
  ///   - bufferingPolicy: What is kept while the observer is busy, as for `states()`.
  ///   - equating: Leaves out a state that equals the one before.
  ///   - observe: Called with each state; answers whether it wants more.
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

extension StoreType {
  /// Subscribes an observer: it is called with the state now, and then with one for each commit (G4, G5).
  ///
  /// Its task belongs to the store that this store's actions go to. When that ends, the task is cancelled, but still gets every state
  /// that there was before (G7); `shutdown` waits for it. On a store that has ended it is never called.
  ///
  /// An observer has one subscription: subscribing it again, to this store or another one, replaces that before, which calls it no more. It is not
  /// called by two at a time: where a call is under way, the new one begins when that returns. Nothing waits for that but the subscription itself: if
  /// its store has ended before, the observer is never called, unless it is the store that the call belongs to.
  ///
  /// - Returns: What cancels the subscription from outside. Letting go of it does not.
  @discardableResult
  @inlinable
  public func subscribe(observer: Observer<State>) -> Subscription {
    let proxy = store()
    return proxy.feed.subscribe(observer, through: proxy.route.place)
  }
}

extension Feed {
  @usableFromInline
  func subscribe(_ observer: Observer<State>, through place: any StorePlace) -> Subscription {
    let reading = removingDuplicates(observer.equating).makeReading(observer.bufferingPolicy, through: place)
    let calls = observer.calls
    let subscription = Subscription(of: calls) { reading.cancel() }
    calls.subscribe(subscription)
    let turn = ObserverTurn(subscription: subscription, place: place) { [observe = observer.observe] in
      await subscription.follow(reading, on: place, observe)
    }
    let isAccepted = place.order { tree in
      reading.perform(on: tree)
      if calls.arrive(turn) { turn.start() }
    }
    if !isAccepted {
      reading.refuse()
      subscription.end()
    }
    return subscription
  }
}

/// What a subscription begins with when its turn has come.
struct ObserverTurn: Sendable {
  let subscription: Subscription
  let place: any StorePlace
  /// Follows the store to the end of the subscription. Returns what has come after it that belongs to the same store.
  let follow: @Sendable () async -> ObserverTurn?

  /// Only on the tree's executor, while the store has not ended.
  func start() {
    place.effects.start({ await run() }, of: place)
  }

  /// As `start`, from anywhere, where the store has not ended.
  func startInOrder() {
    let isAccepted = place.order { _ in
      if subscription.isCurrent { start() }
    }
    if !isAccepted { subscription.cancel() }
  }

  private func run() async {
    var next = await follow()
    while let turn = next { next = await turn.follow() }
  }
}

/// The calls of an observer: does what its turns decide, and nothing else.
final class ObserverCalls: Sendable {
  private let turns = Guarded(ObserverTurns<Subscription, ObserverTurn>())

  /// Makes a subscription the observer's, in place of the one before, which is cancelled.
  func subscribe(_ subscription: Subscription) {
    let (replaced, _) = turns.withLock { $0.subscribe(subscription) }
    replaced?.cancel()
  }

  /// The place of a subscription in the order has come. True where it begins now.
  func arrive(_ turn: ObserverTurn) -> Bool {
    turns.withLock { $0.arrive(turn.subscription, with: turn) } == .begins
  }

  func isCurrent(_ subscription: Subscription) -> Bool {
    turns.withLock { $0.isCurrent(subscription) }
  }

  func begin(by subscription: Subscription) -> Bool {
    turns.withLock { $0.beginCall(by: subscription) }
  }

  /// A call has returned. What waited for that begins; what belongs to the same store is returned, to be run by the same task.
  func end(on place: any StorePlace) -> ObserverTurn? {
    guard let turn = turns.withLock({ $0.endCall() }) else { return nil }
    if turn.place === place { return turn }
    turn.startInOrder()
    return nil
  }

  /// A subscription is over or cancelled: it does not call the observer any more.
  func end(_ subscription: Subscription) {
    _ = turns.withLock { $0.end(subscription) }
  }
}

/// An observer's subscription to a store.
public final class Subscription: Sendable {
  private struct Life: Sendable {
    /// None once it has ended.
    var cancelReading: (@Sendable () -> Void)?
    var task: Task<ObserverTurn?, Never>?
    var isCancelled = false
  }

  private let calls: ObserverCalls
  private let life: Guarded<Life>

  init(of calls: ObserverCalls, cancelReading: @escaping @Sendable () -> Void) {
    self.calls = calls
    life = Guarded(Life(cancelReading: cancelReading))
  }

  /// The observer gets no more states, and its task is cancelled: no call is made any more. One that is under way, or that another thread is just
  /// making, comes to its end.
  ///
  /// Can be called from anywhere, also by the observer itself, and more than once.
  public func cancel() {
    calls.end(self)
    let (cancelReading, task) = life.withLock { life in
      life.isCancelled = true
      return (life.cancelReading.take(), life.task)
    }
    cancelReading?()
    task?.cancel()
  }

  var isCurrent: Bool { calls.isCurrent(self) }

  /// Calls the observer, in a task of its own that `cancel` can cancel, until it is dead or there is nothing more to come. Returns what has come after
  /// it that belongs to the same store.
  func follow<State: Sendable>(
    _ reading: Reading<State>, on place: any StorePlace,
    _ observe: @escaping @Sendable (State) async -> Observer<State>.Status
  ) async -> ObserverTurn? {
    let task = Task { [calls] in
      var next: ObserverTurn?
      // Read without regard to cancellation, which comes with the end of the store: what was published before is still delivered.
      while next == nil, let state = await reading.next(), calls.begin(by: self) {
        let status = await observe(state)
        next = calls.end(on: place)
        if status == .dead { break }
      }
      reading.cancel()
      return next
    }
    let isCancelled = life.withLock { life in
      life.task = task
      return life.isCancelled
    }
    if isCancelled { task.cancel() }
    let next = await withTaskCancellationHandler {
      await task.value
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
      return (life.cancelReading, life.task)
    }
  }
}
