/// A light proxy of a root or child store, or of a part of its state: pass it wherever it is needed.
///
/// It never keeps its store alive. Once the store is shut down or released, `dispatch` answers `.terminated`, `send` and `state`
/// throw, and `states()` ends. Copies share what they have in common: a scope is worked out once a commit for all of them.
public struct Store<State: Sendable, Action: Sendable>: StoreType {
  @usableFromInline
  let origin: Origin<Action>
  @usableFromInline
  let feed: Feed<State>

  @inlinable
  init(origin: Origin<Action>, feed: Feed<State>) {
    self.origin = origin
    self.feed = feed
  }

  @inlinable
  public func store() -> Store { self }

  @discardableResult
  @inlinable
  public func dispatch(_ action: Action) -> DispatchResult {
    origin.dispatch(action)
  }

  @inlinable
  public nonisolated(nonsending) func send(_ action: Action) async throws(StoreError) {
    origin.tree.announceVisit()
    try await origin.tree.send(action, from: origin)
  }

  @inlinable
  public nonisolated(nonsending) func send<Result: Sendable>(
    _ action: Action, reading: @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    try await origin.tree.visit { [origin, feed] tree throws(StoreError) in
      try tree.accept(action, from: origin)
      return try feed.read(on: tree, reading)
    }
  }

  @inlinable
  public nonisolated(nonsending) var state: State {
    get async throws(StoreError) {
      try await origin.tree.visit { [origin, feed] tree throws(StoreError) in
        guard !origin.isClosed else { throw .terminated }
        return try feed.read(on: tree) { $0 }
      }
    }
  }

  @inlinable
  public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> AsyncStream<State> {
    let feed = equating.isNeverEqual ? feed : feed.removingDuplicates(equating)
    return feed.subscribe(bufferingPolicy, through: origin)
  }

  @inlinable
  public func scope<Scoped: Sendable>(to transform: @escaping @Sendable (State) -> Scoped) -> Store<Scoped, Action> {
    Store<Scoped, Action>(origin: origin, feed: feed.scope { .some(transform($0)) })
  }

  @inlinable
  public func scope<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    Store<Scoped, Action>(origin: origin, feed: feed.scope(transform))
  }
}
