final class ObserverSubscription: Sendable {
  private struct Life: Sendable {
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

  /// Calls the observer, in a task that `cancel` can cancel, until it is dead or no more states come. Returns the
  /// subscription's successor, if that belongs to the same store.
  func follow<State: Sendable>(
    _ subscriber: Subscriber, on node: any AnyStoreNode, within running: RunningEffect,
    _ observe: @escaping @Sendable (State) async -> Observer<State>.Status
  ) async -> ObserverCalls.Turn? {
    // As in `IdentifiedEffect.run`: the effect does not rest before `cancel` can find the stored task.
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
    life.releasingOutside { life in
      defer { life = Life() }
      return (life.cancelSubscriber, life.task)
    }
  }
}
