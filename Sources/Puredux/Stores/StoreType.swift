/// A type that takes actions.
public protocol ActionHandler<Action>: Sendable {
  /// The actions that it takes.
  associatedtype Action: Sendable

  /// Submits an action and returns at once, from anywhere, even from a reducer.
  ///
  /// The action then has its place in the tree's order (G1). It will be committed, even if the store is released (G9),
  /// unless middleware stops it.
  ///
  /// - Returns: `.enqueued`, or why the action changes nothing: `.terminated` if the store is shut down or released,
  ///   `.unmapped` if a projection maps the action to nil, `.tooDeep` if the store is below the 100th level. A store
  ///   that follows a log also returns `.overloaded` or `.stopped`.
  @discardableResult func dispatch(_ action: Action) -> DispatchResult

  /// Submits an action and returns after its commit, which follows everything dispatched before.
  ///
  /// Provides back-pressure. The action is committed even if the task is cancelled, unless the store follows a log.
  ///
  /// - Throws: If the action changes nothing (G9): `StoreError.terminated`, `.unmapped` or `.tooDeep`, as `dispatch`
  ///   returns them; `.rejected` if middleware stopped the action. A store that follows a log throws `.stopped` if it
  ///   cannot go on. In a cancelled task, it throws `.withdrawn` if the log has not received the action, which changes
  ///   nothing, or `.outcomeUnknown`.
  func send(_ action: Action) async throws(StoreError)
}

/// A type whose state can be read and followed.
public protocol StateProvider<State>: Sendable {
  /// The state that it shows.
  associatedtype State: Sendable

  /// The state after everything that was requested of the tree before.
  ///
  /// - Throws: `StoreError.terminated` if the store is shut down or released, `.tooDeep` if it is a proxy below the
  ///   100th level, `.stateUnavailable` if an optional scope has no state. Stores that own their state do not throw.
  var state: State { get async throws(StoreError) }

  /// The present state, and then one for each commit that the store publishes, in order (G4).
  ///
  /// Subscribes in this call, so no later state is lost (G5). The sequence ends when its consumer is cancelled or
  /// releases it, and after the store's last state. It never keeps the store alive (G7), and delays nobody (G6).
  ///
  /// - Parameters:
  ///   - bufferingPolicy: Which states are buffered for a slow consumer (G6): all, the newest n or the oldest n. A limit
  ///     below one counts as one. A state is stored at most twice, however many consumers there are: once for those
  ///     with `.bufferingOldest` that have room, and once for all others. A large limit stores nothing for a small one.
  ///   - equating: Leaves out a state that equals the state before it. It compares before the buffer: a state that a
  ///     bounded buffer drops still counts as the state before.
  func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy, removeStateDuplicates equating: Equating<State>
  ) -> AsyncStream<State>
}

/// A store of any kind: `RootStore`, `StateStore` or `Store`. All have the same delivery contract.
public protocol StoreType<State, Action>: ActionHandler, StateProvider {
  /// Identifies the store within its tree; for a proxy, the store that its actions are given to.
  var id: StoreID { get }

  /// A weak proxy of this store, cheap to make and to pass on.
  func store() -> Store<State, Action>

  /// Sends an action and reads the state right after that commit.
  ///
  /// The closure runs on the tree's executor, in place and without a copy, and should be short.
  ///
  /// - Throws: The errors of `send(_:)`; `StoreError.stateUnavailable` if an optional scope has no state after the
  ///   commit, which has taken place.
  func send<Result: Sendable>(
    _ action: Action, reading: @escaping @Sendable (State) -> Result
  ) async throws(StoreError) -> Result
}

extension StoreType {
  @inlinable public var id: StoreID { store().id }

  @discardableResult @inlinable public func dispatch(_ action: Action) -> DispatchResult {
    store().dispatch(action)
  }

  @_disfavoredOverload @inline(__always) @inlinable public func send(_ action: Action) async throws(StoreError) {
    try await store().send(action, isolation: nil)
  }

  @_disfavoredOverload @inline(__always) @inlinable public func send<Result: Sendable>(
    _ action: Action, reading: @escaping @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    try await store().send(action, isolation: nil, reading: reading)
  }

  /// Like `send(_:)`, from the caller's actor and back to it.
  @inline(__always) @inlinable
  public func send(_ action: Action, isolation: isolated (any Actor)? = #isolation) async throws(StoreError) {
    try await store().send(action, isolation: isolation)
  }

  /// Like `send(_:reading:)`, from the caller's actor and back to it.
  @inline(__always) @inlinable public func send<Result: Sendable>(
    _ action: Action, isolation: isolated (any Actor)? = #isolation, reading: @escaping @Sendable (State) -> Result
  ) async throws(StoreError) -> Result {
    try await store().send(action, isolation: isolation, reading: reading)
  }

  @inlinable public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> AsyncStream<State> {
    store().states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// The sequence behind the other `states()`; it costs less than an `AsyncStream`.
  @_disfavoredOverload @inlinable public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> StateSequence<State> {
    store().states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// A proxy of a part or view of this store's state. Actions go to this store.
  ///
  /// The transform runs on the tree's executor, once per commit for all subscribers of the scope and its copies.
  @inlinable
  public func scope<Scoped: Sendable>(to transform: @escaping @Sendable (State) -> Scoped) -> Store<Scoped, Action> {
    store().scope(to: transform)
  }

  /// A proxy of a part of this store's state that may be absent.
  ///
  /// While the transform returns nil, sequences deliver nothing, `state` throws `StoreError.stateUnavailable`, and
  /// actions are accepted as usual.
  @_disfavoredOverload @inlinable public func scope<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    store().scope(toOptional: transform)
  }

  /// A proxy whose state a selector computes. A store's proxies by the same selector share one computation per commit.
  @inlinable
  public func scope<Value: Sendable>(selecting selector: StateSelector<State, Value>) -> Store<Value, Action> {
    store().scope(selecting: selector)
  }

  /// A proxy of the part at a key path. Proxies by the same key path share one computation per commit.
  @inlinable
  public func scope<Value: Sendable>(to keyPath: any KeyPath<State, Value> & Sendable) -> Store<Value, Action> {
    store().scope(selecting: StateSelector(keyPath))
  }

  /// A proxy of a key's value in a collection of this store's state; nil while the key is absent.
  ///
  /// Its sequences deliver the value at the subscription, and then one for each commit that writes the key (G4): that
  /// changes the value in place, sets it, even to an equal value, or removes it. A commit costs only the followers of
  /// the keys that it writes. The scope retains no value between commits.
  ///
  /// All keys count as written if:
  ///
  /// - a commit replaces the collection by one that was not made from it; every collection counts as made from the
  ///   empty one;
  /// - a commit restores a collection that the replaced one was made from;
  /// - more was written, since the last commit that reached the scope, than `Keyed` remembers (at least 64 keys);
  /// - more than eight copies of the collection were made between its writes since that commit.
  ///
  /// The write of a commit that is left out, by `emits:` or by a part above the key, counts with the next one that is
  /// not (G4), with two exceptions:
  ///
  /// - If that commit restores the very collection that the scope has shown last, the scope may deliver nothing.
  /// - A subscriber that subscribed in between may get its first element once more.
  ///
  /// In both cases the last element is the value after the last commit that was not left out.
  ///
  /// For a store of the value without nil, use `scope(to: \.rooms, at: id).scope(toOptional: { $0 })`.
  @inlinable public func scope<Key: Hashable & Sendable, Value: Sendable>(
    to keyPath: any KeyPath<State, Keyed<Key, Value>> & Sendable, at key: Key
  ) -> Store<Value?, Action> {
    store().scope(to: keyPath, at: key)
  }

  /// A selector's values, one for each commit, as `states()` delivers them.
  @inlinable public func states<Value: Sendable>(
    _ selector: StateSelector<State, Value>,
    bufferingPolicy: AsyncStream<Value>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<Value> = .neverEqual
  ) -> AsyncStream<Value> {
    scope(selecting: selector).states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// The sequence behind the other `states`; it costs less than an `AsyncStream`.
  @_disfavoredOverload @inlinable public func states<Value: Sendable>(
    _ selector: StateSelector<State, Value>,
    bufferingPolicy: AsyncStream<Value>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<Value> = .neverEqual
  ) -> StateSequence<Value> {
    scope(selecting: selector).states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// The parts at a key path, one for each commit, as `states()` delivers them.
  @inlinable public func states<Value: Sendable>(
    _ keyPath: any KeyPath<State, Value> & Sendable,
    bufferingPolicy: AsyncStream<Value>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<Value> = .neverEqual
  ) -> AsyncStream<Value> {
    scope(to: keyPath).states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// The sequence behind the other `states`; it costs less than an `AsyncStream`.
  @_disfavoredOverload @inlinable public func states<Value: Sendable>(
    _ keyPath: any KeyPath<State, Value> & Sendable,
    bufferingPolicy: AsyncStream<Value>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<Value> = .neverEqual
  ) -> StateSequence<Value> {
    scope(to: keyPath).states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// A proxy with other actions and another state, for code that should see and do no more than its part.
  ///
  ///     let cart = store.projection(
  ///       action: { (action: CartAction) in action.isAllowed ? AppAction.cart(action) : nil },
  ///       state: { (state: AppState) in CartState(state) })
  ///
  /// If an action maps to nil, `dispatch` returns `.unmapped`, and `send` throws `StoreError.unmapped`. Any store can
  /// be projected.
  ///
  /// - Parameters:
  ///   - toAction: Runs in the caller of `dispatch` and `send`, before anything is requested of the tree.
  ///   - toState: Runs on the tree's executor, once per commit for all subscribers.
  @inlinable public func projection<ViewAction: Sendable, ViewState: Sendable>(
    action toAction: @escaping @Sendable (ViewAction) -> Action?,
    state toState: @escaping @Sendable (State) -> ViewState
  ) -> Store<ViewState, ViewAction> {
    store().projection(action: toAction, state: toState)
  }
}

extension Sequence {
  /// Sends the actions of a history to a store, in order. A new store with the same reducers, whose initial state is
  /// the first entry's `stateBefore`, passes through the same states.
  ///
  /// The store should have no middleware and no interceptor: the history has actions as middleware passed them on, and
  /// those that an interceptor dispatched.
  ///
  /// - Throws: The errors of the store's `send`.
  public func replay<State, Action>(
    into store: some ActionHandler<Action>, isolation: isolated (any Actor)? = #isolation
  ) async throws(StoreError) where Element == History<State, Action>.Entry {
    for entry in self { try await store.send(entry.action) }
  }
}
