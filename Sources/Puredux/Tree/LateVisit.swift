/// The outcome of a visit to the executor.
@usableFromInline enum Visit<Result: Sendable>: Sendable {
  case done(Result)
  /// The visitor was not let in, and has to wait for its result.
  case late(LateVisit<Result>)
}

/// The request of a visitor that arrives while something waits, or from within what the tree is doing: it takes its
/// place in the order at once, and is performed in its turn, by a drain.
///
/// The visitor is not let in when its turn has come, but receives the result: on its way back to the executor it would
/// lose its place, as a task that is resumed passes through the global executor first.
///
/// SAFETY: nothing outside the lock changes except the context, which is set before the visit gets its place. The
/// compiler does not check subclasses of `Command`.
@usableFromInline final class LateVisit<Value: Sendable>: PostponedCommand, @unchecked Sendable {
  @usableFromInline typealias Body = @Sendable (isolated any TreeIsolation) throws(StoreError) -> Value

  private enum Outcome {
    case none
    case awaited(Waiter<Result<Value, StoreError>>)
    case known(Result<Value, StoreError>)
  }

  private let body: Body
  /// The visitor's task-local values, if the tree carries any.
  var context: CarriedValues.Context?
  private let outcome = LockedValue(Outcome.none)
  override var waitsForCommits: Bool { isOrdered }
  private let isOrdered: Bool

  /// - Parameter isOrdered: Whether it waits for the commits of what was asked before it, where those come later.
  @usableFromInline init(isOrdered: Bool = true, _ body: @escaping Body) {
    self.body = body
    self.isOrdered = isOrdered
    super.init()
  }

  @usableFromInline override func perform(on tree: isolated any TreeIsolation) {
    guard let context else { return end(with: Result { () throws(StoreError) in try body(tree) }) }
    context.restore { end(with: Result { () throws(StoreError) in try body(tree) }) }
  }

  override func attempt(on tree: isolated any TreeIsolation, isKept: (_ hasFailed: Bool) -> Bool) {
    var result: Result<Value, StoreError>?
    if let context {
      context.restore { result = Result { () throws(StoreError) in try body(tree) } }
    } else {
      result = Result { () throws(StoreError) in try body(tree) }
    }
    guard let result else { return }
    if case .failure = result {
      if isKept(true) { return }
    } else if isKept(false) {
      return
    }
    end(with: result)
  }

  /// The visit gets no place in the order.
  override func refuse(_ error: StoreError) { end(with: .failure(error)) }

  private func end(with result: Result<Value, StoreError>) {
    let waiter = outcome.withLock { outcome -> Waiter<Result<Value, StoreError>>? in
      if case .awaited(let waiter) = outcome {
        outcome = .none
        return waiter
      }
      outcome = .known(result)
      return nil
    }
    waiter?.resume(returning: result)
  }

  /// The result, once the visit's turn has come. To be called once.
  @usableFromInline func value(isolation: isolated (any Actor)? = #isolation) async throws(StoreError) -> Value {
    let result = await Waiter<Result<Value, StoreError>>.wait { waiter in
      let result = outcome.withLock { outcome -> Result<Value, StoreError>? in
        if case .known(let result) = outcome { return result }
        outcome = .awaited(waiter)
        return nil
      }
      if let result { waiter.resume(returning: result) }
    }
    return try result.get()
  }
}
