/// The outcome of a visit to the executor.
@usableFromInline enum Visit<Result: Sendable>: Sendable {
  case done(Result)
  /// The visitor was not let in, and waits for the result of its request.
  case pending(PendingRequest<Result>)
}

/// The request of a visitor that arrives while something waits, or from within what the tree is doing: it takes its
/// place in the order at once, and is performed in its turn, by a drain.
///
/// The visitor is not let in when its turn has come, but receives the result: on its way back to the executor it would
/// lose its place, as a task that is resumed passes through the global executor first.
///
/// A caller can give up a `send` that waits for the log, or has a limit. Whether its action has been submitted by then,
/// or is being committed, is known under the lock: the first outcome counts, and the caller is told that one.
///
/// SAFETY: nothing outside the lock changes except the context and `isGivenUpOnCancel`, which are set before the
/// request gets its place. The compiler does not check subclasses of `Command`.
@usableFromInline final class PendingRequest<Value: Sendable>: Command, SubmittingRequest, @unchecked Sendable {
  @usableFromInline typealias Body = @Sendable (isolated any TreeIsolation) throws(StoreError) -> Value

  private enum Outcome {
    case none
    case awaited(Waiter<Result<Value, StoreError>>)
    case known(Result<Value, StoreError>)
    case told
  }

  private struct Progress {
    enum Stage { case placed, begun, committing }

    var outcome = Outcome.none
    var stage = Stage.placed
    /// Nil once the caller has given the request up: nothing of the action is kept for a caller that has gone.
    var body: Body?
    /// Withdraws the submitted action, if that is possible.
    var withdraw: (@Sendable () -> Bool)?

    var isOver: Bool {
      switch outcome {
      case .known, .told: true
      case .none, .awaited: false
      }
    }

    /// Returns the waiter to resume. Of several outcomes the first counts.
    mutating func end(with result: Result<Value, StoreError>) -> Waiter<Result<Value, StoreError>>? {
      switch outcome {
      case .none: outcome = .known(result)
      case .awaited(let waiter):
        outcome = .told
        return waiter
      case .known, .told: break
      }
      return nil
    }
  }

  /// The visitor's task-local values, if the tree carries any.
  var context: CarriedValues.Context?
  private let progress: LockedValue<Progress>
  /// Whether it waits for the commits of earlier requests, where these commit later than in their turns.
  let isOrdered: Bool
  /// Whether it commits an action, which its caller may give up, and is not just a read.
  let isSend: Bool
  private let limit: SendLimit?
  /// Whether it is given up when its task is cancelled.
  var isGivenUpOnCancel = false

  /// - Parameters:
  ///   - isOrdered: Whether it waits for the commits of earlier requests, where these commit later than in their turns.
  ///   - isSend: Whether it commits an action.
  ///   - limit: When its caller gives it up.
  @usableFromInline init(
    isOrdered: Bool = true, isSend: Bool = false, limit: SendLimit? = nil, _ body: @escaping Body
  ) {
    progress = LockedValue(Progress(body: body))
    self.isOrdered = isOrdered
    self.isSend = isSend
    self.limit = limit
    super.init()
  }

  private var canBeGivenUp: Bool { isGivenUpOnCancel || limit != nil }

  /// Whether its caller gives it up before it has its place. In the caller's task.
  var isGivenUp: Bool { isGivenUpOnCancel && Task.isCancelled || limit?.isOver == true }

  /// Returns the request's closure; nil if the request has been given up before.
  private func goes(on stage: Progress.Stage) -> Body? {
    progress.withLock { progress in
      progress.stage = stage
      return progress.body
    }
  }

  @usableFromInline func canBeWithdrawn(by withdraw: @escaping @Sendable () -> Bool) {
    if canBeGivenUp { progress.withLock { $0.withdraw = withdraw } }
  }

  /// From anywhere. The caller waits no more, unless the action is being committed. If the request's turn has not come,
  /// it does nothing in its turn; if its submitted action can be withdrawn, it is.
  private func giveUp() {
    let withdraw = progress.withLock { $0.isOver ? nil : $0.withdraw }
    let isWithdrawn = withdraw?() == true
    // Released outside the lock.
    var dropped: (Body?, (@Sendable () -> Bool)?)
    let told = progress.withLock { progress -> (Waiter<Result<Value, StoreError>>, StoreError)? in
      if progress.isOver || progress.stage == .committing { return nil }
      let error: StoreError = progress.stage == .placed || isWithdrawn ? .withdrawn : .outcomeUnknown
      dropped = (progress.body.take(), progress.withdraw.take())
      return progress.end(with: .failure(error)).map { ($0, error) }
    }
    withExtendedLifetime(dropped) {}
    if let (waiter, error) = told { waiter.resume(returning: .failure(error)) }
  }

  @usableFromInline override func perform(on tree: isolated any TreeIsolation) {
    guard let body = goes(on: .committing) else { return }
    guard let context else { return end(with: Result { () throws(StoreError) in try body(tree) }) }
    context.restore { end(with: Result { () throws(StoreError) in try body(tree) }) }
  }

  @usableFromInline func attempt(on tree: isolated any TreeIsolation, isKept: () -> Bool) {
    guard let body = goes(on: .begun) else { return }
    var result: Result<Value, StoreError>?
    if let context {
      context.restore { result = Result { () throws(StoreError) in try body(tree) } }
    } else {
      result = Result { () throws(StoreError) in try body(tree) }
    }
    guard let result, !isKept() else { return }
    end(with: result)
  }

  /// The request gets no place in the order.
  @usableFromInline func refuse(_ error: StoreError) { end(with: .failure(error)) }

  private func end(with result: Result<Value, StoreError>) {
    let waiter = progress.withLock { $0.end(with: result) }
    waiter?.resume(returning: result)
  }

  /// The result, once the request's turn has come. To be called once.
  @usableFromInline func value(isolation: isolated (any Actor)? = #isolation) async throws(StoreError) -> Value {
    let result = canBeGivenUp ? await resultUnlessGivenUp() : await result()
    return try result.get()
  }

  private func result(isolation: isolated (any Actor)? = #isolation) async -> Result<Value, StoreError> {
    await Waiter<Result<Value, StoreError>>.wait { waiter in
      let result = progress.withLock { progress -> Result<Value, StoreError>? in
        if case .known(let result) = progress.outcome {
          progress.outcome = .told
          return result
        }
        progress.outcome = .awaited(waiter)
        return nil
      }
      if let result { waiter.resume(returning: result) }
    }
  }

  private func resultUnlessGivenUp(
    isolation: isolated (any Actor)? = #isolation
  ) async -> Result<Value, StoreError> {
    let timer = limit.map { limit in
      // Detached: the timer is no part of the caller's work.
      Task.detached {
        await limit.clock.wait(until: limit.time)
        if !Task.isCancelled { self.giveUp() }
      }
    }
    defer { timer?.cancel() }
    guard isGivenUpOnCancel else { return await result() }
    return await withTaskCancellationHandler {
      await result()
    } onCancel: {
      giveUp()
    }
  }
}
