@usableFromInline enum Visit<Result: Sendable>: Sendable {
  case done(Result)
  case pending(PendingRequest<Result>)
}

/// The request of a visitor that arrives while requests wait, or from within the tree's own work. It takes its place in
/// the order at once, and a drain performs it. The visitor receives only the result: if resumed to perform the request,
/// its task would pass through the global executor and lose its place.
///
/// A caller can give up a `send` that waits for the log, or has a limit. The lock decides which outcome is first; the
/// caller gets that one.
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
    var body: Body?
    var withdraw: (@Sendable () -> Bool)?

    var isOver: Bool {
      switch outcome {
      case .known, .told: true
      case .none, .awaited: false
      }
    }

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

  var context: CarriedValues.Context?
  private let progress: LockedValue<Progress>
  /// Whether it waits for the commits of submitted actions.
  let isOrdered: Bool
  let isSend: Bool
  private let limit: SendLimit?
  var isGivenUpOnCancel = false

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

  /// In the caller's task, before the request has its place.
  var isGivenUp: Bool { isGivenUpOnCancel && Task.isCancelled || limit?.isOver == true }

  private func goes(on stage: Progress.Stage) -> Body? {
    progress.withLock { progress in
      progress.stage = stage
      return progress.body
    }
  }

  @usableFromInline func canBeWithdrawn(by withdraw: @escaping @Sendable () -> Bool) {
    if canBeGivenUp { progress.withLock { $0.withdraw = withdraw } }
  }

  /// Before its turn, the request is dropped; afterwards, its submitted action is withdrawn if possible. From anywhere.
  private func giveUp() {
    let withdraw = progress.withLock { $0.isOver ? nil : $0.withdraw }
    let isWithdrawn = withdraw?() == true
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

  @usableFromInline func refuse(_ error: StoreError) { end(with: .failure(error)) }

  private func end(with result: Result<Value, StoreError>) {
    let waiter = progress.withLock { $0.end(with: result) }
    waiter?.resume(returning: result)
  }

  /// Called once.
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
      // Detached: the timer is not part of the caller's work.
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

extension Tree {
  /// With an external order, the command waits for all actions submitted before it.
  nonisolated func behindCommits(_ command: Command) -> Command {
    guard let order else { return command }
    return .closure { tree in
      if order.follow({ command.perform(on: $0) }) == nil { command.perform(on: tree) }
    }
  }

  nonisolated func inOrder<Value>(_ request: PendingRequest<Value>) -> Command {
    guard let order, request.isSend else { return request.isOrdered ? behindCommits(request) : request }
    return .closure { tree in order.perform(request, on: tree) }
  }
}
