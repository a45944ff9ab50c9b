/// Side effects: asynchronous work that an action sets off.
///
/// Every action of the tree, whichever store it was given to, reaches its interceptor once, after the reducers, in
/// commit order. For an action that is for it the interceptor starts a task, which belongs to the store that the action
/// was given to: it is cancelled when that store ends and never outlives it, and the actions it dispatches go to that
/// store (G8). No commit waits for it. Tasks are started in commit order, and run side by side: they may come to their
/// dispatches in any order.
///
///     let interceptor = Interceptor<AppAction>(for: Search.self) { search, dispatch in
///       dispatch(SearchResult(await index.find(search.text)))
///     }
///
/// Starting a task costs a microsecond or two. Saying that an action is not for it costs an interceptor nanoseconds,
/// which is what the initializers with a condition, a type or a pattern are for.
public struct Interceptor<Action: Sendable>: Sendable {
  @usableFromInline typealias Effect = @Sendable (Dispatch<Action>) async -> Void

  /// Given the action in its place, as reducers are.
  @usableFromInline let effects: @Sendable (inout Action) -> [Effect]

  @inlinable init(effects: @escaping @Sendable (inout Action) -> [Effect]) {
    self.effects = effects
  }

  /// Runs for every action.
  @inlinable public init(_ run: @escaping @Sendable (Action, Dispatch<Action>) async -> Void) {
    self.init { action in [{ [action] dispatch in await run(action, dispatch) }] }
  }

  /// Runs for the actions that a condition holds for. The condition is asked on the tree's executor: it should be
  /// cheap.
  @inlinable public init(
    where isMeant: @escaping @Sendable (Action) -> Bool,
    _ run: @escaping @Sendable (Action, Dispatch<Action>) async -> Void
  ) {
    self.init { action in isMeant(action) ? [{ [action] dispatch in await run(action, dispatch) }] : [] }
  }

  /// Runs for the actions of one type.
  @inlinable public init<Meant: Sendable>(
    for type: Meant.Type, _ run: @escaping @Sendable (Meant, Dispatch<Action>) async -> Void
  ) {
    self.init(matching: { $0 as? Meant }, run)
  }

  /// Runs for the actions that a pattern finds something in, and is handed what it found.
  ///
  ///     Interceptor(matching: { if case .load(let id) = $0 { id } else { nil } }) { id, dispatch in … }
  @inlinable public init<Found: Sendable>(
    matching pattern: @escaping @Sendable (Action) -> Found?,
    _ run: @escaping @Sendable (Found, Dispatch<Action>) async -> Void
  ) {
    self.init { action in
      guard let found = pattern(action) else { return [] }
      return [{ dispatch in await run(found, dispatch) }]
    }
  }

  /// Several interceptors as one: each of them is asked, in order, and starts a task of its own.
  @inlinable public init(combining interceptors: [Interceptor]) {
    self = Self.all(nil, interceptors) ?? Interceptor { _ in [] }
  }

  /// Those that a store is made with; none where there are none.
  @inlinable static func all(
    _ run: (@Sendable (Action, Dispatch<Action>) async -> Void)?, _ others: [Interceptor]
  ) -> Interceptor? {
    let first = run.map { Interceptor($0) }
    return others.isEmpty ? first : joined(first, others)
  }

  @usableFromInline static func joined(_ first: Interceptor?, _ others: [Interceptor]) -> Interceptor? {
    guard let others = combined(others[...]) else { return first }
    return first?.and(others) ?? others
  }

  /// Halves, so that any number of them may be asked and released by recursion.
  private static func combined(_ interceptors: ArraySlice<Interceptor>) -> Interceptor? {
    guard interceptors.count > 1 else { return interceptors.first }
    let middle = interceptors.startIndex + interceptors.count / 2
    guard let first = combined(interceptors[..<middle]), let second = combined(interceptors[middle...]) else {
      return nil
    }
    return first.and(second)
  }

  @inlinable func and(_ other: Interceptor) -> Interceptor {
    // One within the other: what a closure has captured is called without counting references.
    Interceptor { [first = effects, second = other.effects] action in
      let effects = first(&action)
      let others = second(&action)
      return effects.isEmpty ? others : others.isEmpty ? effects : effects + others
    }
  }

  /// Runs the actions that are an `AsyncAction`.
  @inlinable public static var asyncActions: Interceptor {
    Interceptor(matching: { $0 as? any AsyncAction<Action> }) { action, dispatch in
      await action.execute(dispatch: dispatch)
    }
  }
}

/// An action that carries its own asynchronous work. `Interceptor.asyncActions` runs it. Adopted from Puredux.
///
///     struct Refresh: AppAction, AsyncAction {
///       func execute(dispatch: Dispatch<any AppAction>) async {
///         dispatch(Refreshed(items: await service.items()))
///       }
///     }
public protocol AsyncAction<Action>: Sendable {
  associatedtype Action: Sendable
  func execute(dispatch: Dispatch<Action>) async
}
