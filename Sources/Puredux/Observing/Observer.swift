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
  private let subscription = Guarded<Subscription?>(nil)

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

  /// Makes a subscription the observer's, in place of the one before, which it returns.
  @usableFromInline
  func take(_ new: Subscription) -> Subscription? {
    subscription.withLock { subscription in
      defer { subscription = new }
      return subscription
    }
  }
}

extension StoreType {
  /// Subscribes an observer: it is called with the state now, and then with one for each commit (G4, G5).
  ///
  /// Its task belongs to the store that this store's actions go to. When that ends, the task is cancelled, but still gets every state
  /// that there was before (G7); `shutdown` waits for it. On a store that has ended it is never called.
  ///
  /// An observer has one subscription: subscribing it again, to this store or another one, replaces that before. It is not called by two at a
  /// time: the new one begins when a call that is under way has returned.
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
    let subscription = Subscription { reading.cancel() }
    let previous = observer.take(subscription)
    previous?.cancel()
    let isAccepted = place.order { tree in
      reading.perform(on: tree)
      place.effects.start({ await subscription.run(reading, after: previous, observer.observe) }, of: place)
    }
    if !isAccepted {
      reading.refuse()
      subscription.end()
    }
    return subscription
  }
}

/// An observer's subscription to a store.
public final class Subscription: Sendable {
  private struct Life: Sendable {
    /// None once it has ended.
    var cancelReading: (@Sendable () -> Void)?
    var task: Task<Void, Never>?
    var isCancelled = false
    var endWaiters: ContiguousArray<Waiter<Void>> = []
  }

  private let life: Guarded<Life>

  init(cancelReading: @escaping @Sendable () -> Void) {
    life = Guarded(Life(cancelReading: cancelReading))
  }

  /// The observer gets no more states, and its task is cancelled. A call that is under way comes to its end.
  ///
  /// Can be called from anywhere, also by the observer itself, and more than once.
  public func cancel() {
    let (cancelReading, task) = life.withLock { life in
      life.isCancelled = true
      return (life.cancelReading, life.task)
    }
    cancelReading?()
    task?.cancel()
  }

  /// Runs the observer, in a task of its own that `cancel` can cancel, until it is dead or there is nothing more to come.
  func run<State: Sendable>(
    _ reading: Reading<State>, after previous: Subscription?,
    _ observe: @escaping @Sendable (State) async -> Observer<State>.Status
  ) async {
    let task = Task {
      await previous?.untilEnded()
      // Read without regard to cancellation, which comes with the end of the store: what was published before is still delivered.
      while let state = await reading.next() {
        if await observe(state) == .dead { break }
      }
      reading.cancel()
    }
    let isCancelled = life.withLock { life in
      life.task = task
      return life.isCancelled
    }
    if isCancelled { task.cancel() }
    await withTaskCancellationHandler {
      await task.value
    } onCancel: {
      task.cancel()
    }
    end()
  }

  func end() {
    let (waiters, _) = life.withLock { life in
      defer { life = Life() }
      return (life.endWaiters, life.cancelReading)
    }
    for waiter in waiters { waiter.resume(returning: ()) }
  }

  private func untilEnded() async {
    await Waiter<Void>.wait { waiter in
      let isUnderWay = life.withLock { life in
        guard life.cancelReading != nil else { return false }
        life.endWaiters.append(waiter)
        return true
      }
      if !isUnderWay { waiter.resume(returning: ()) }
    }
  }
}
