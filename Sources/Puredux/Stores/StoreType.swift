/// A type that takes actions. Adopted from SwiftRex.
public protocol ActionHandler<Action>: Sendable {
  /// The actions that it takes.
  associatedtype Action: Sendable

  /// Gives the store an action and returns at once. Can be called from anywhere, even from a reducer.
  ///
  /// When this returns, the action has its place in the tree's order (G1). It will be committed even if the store is
  /// released right after (G9), unless middleware stops it.
  ///
  /// - Returns: `.enqueued`, or a reason why the action changes nothing: `.terminated` if the store is shut down or
  ///   released, `.unmapped` if a projection maps the action to nil, `.tooDeep` if the store lies below the 100th
  ///   level. A store that follows a log also returns `.overloaded` or `.stopped`.
  @discardableResult func dispatch(_ action: Action) -> DispatchResult

  /// Gives the store an action and returns after its commit, which follows the commits of everything dispatched before.
  ///
  /// Provides the back-pressure that `dispatch` lacks. A sent action is committed even if the task is cancelled
  /// meanwhile. If the store follows a log, a cancelled task does not wait for that.
  ///
  /// - Throws: `StoreError.terminated` if the store is shut down or released; `.unmapped` if a projection maps the
  ///   action to nil; `.tooDeep` if the store lies below the 100th level; `.rejected` if middleware stopped the action.
  ///   In each case the action changes nothing (G9). A store that follows a log throws `.stopped` if it cannot go on.
  ///   If the task is cancelled, such a store throws `.withdrawn` if its log has not received the action, which changes
  ///   nothing, and otherwise `.outcomeUnknown`.
  func send(_ action: Action) async throws(StoreError)
}

/// A type whose state can be read and followed. Adopted from SwiftRex.
public protocol StateProvider<State>: Sendable {
  /// The state that it shows.
  associatedtype State: Sendable

  /// The state after everything that was requested of the tree before.
  ///
  /// - Throws: `StoreError.terminated` if the store is shut down or released, `.tooDeep` if it is a proxy below the
  ///   100th level, `.stateUnavailable` if an optional scope has no state at present. Stores that own their state do
  ///   not throw.
  var state: State { get async throws(StoreError) }

  /// The states from now on: the present one, and then one for each commit that the store publishes, in order (G4).
  ///
  /// Subscribes in this call, not at the first `await`: no state is lost between the call and the loop (G5). The
  /// sequence ends when its consumer is cancelled or releases it, and after the last state of a store that is shut down
  /// or released. It never keeps the store alive (G7). A slow consumer delays nobody (G6).
  ///
  /// - Parameters:
  ///   - bufferingPolicy: Which states are buffered for a slow consumer: all, the newest n or the oldest n. A limit
  ///     below one counts as one. A state is stored at most twice, however many consumers there are:
  ///     once for those with `.bufferingOldest` that have room, to each of which the commit adds it, and once for all
  ///     others. A large limit, or `.unbounded`, stores nothing for a consumer with a small one.
  ///   - equating: Leaves out a state that equals the one delivered before.
  func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy, removeStateDuplicates equating: Equating<State>
  ) -> AsyncStream<State>
}

/// A store of any kind: `RootStore`, `StateStore` or `Store`. All have the same delivery contract, so a function can
/// take `some StoreType<State, Action>`.
public protocol StoreType<State, Action>: ActionHandler, StateProvider {
  /// Identifies the store within its tree; for a proxy, the store that its actions are given to.
  var id: StoreID { get }

  /// A weak proxy of this store: `Sendable`, cheap to make and to pass on. It never keeps the store alive.
  func store() -> Store<State, Action>

  /// Sends an action and reads the state right after that commit, before any other.
  ///
  /// The closure runs on the tree's executor and should be short: the tree waits for it. It reads the state in place,
  /// without a copy, so a large collection stays uniquely referenced.
  ///
  /// - Throws: The errors of `send(_:)`; `StoreError.stateUnavailable` if an optional scope has no state after the
  ///   commit, which has taken place nevertheless.
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

  /// Like `send(_:)`, straight from the caller's actor and back to it.
  @inline(__always) @inlinable
  public func send(_ action: Action, isolation: isolated (any Actor)? = #isolation) async throws(StoreError) {
    try await store().send(action, isolation: isolation)
  }

  /// Like `send(_:reading:)`, straight from the caller's actor and back to it.
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
  /// The transform runs on the tree's executor, once per commit for all subscribers of the scope and its copies, if
  /// any.
  @inlinable
  public func scope<Scoped: Sendable>(to transform: @escaping @Sendable (State) -> Scoped) -> Store<Scoped, Action> {
    store().scope(to: transform)
  }

  /// A proxy of a part of this store's state that may be absent.
  ///
  /// While the transform returns nil, its sequences deliver nothing, `state` throws `StoreError.stateUnavailable`, and
  /// actions are accepted as usual.
  @_disfavoredOverload @inlinable public func scope<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    store().scope(toOptional: transform)
  }

  /// A proxy whose state a selector computes from this store's. Proxies of one store by the same selector share one
  /// computation per commit.
  @inlinable
  public func scope<Value: Sendable>(selecting selector: StateSelector<State, Value>) -> Store<Value, Action> {
    store().scope(selecting: selector)
  }

  /// A proxy of the part of this store's state at a key path. Proxies by the same key path share one computation per
  /// commit.
  @inlinable
  public func scope<Value: Sendable>(to keyPath: any KeyPath<State, Value> & Sendable) -> Store<Value, Action> {
    store().scope(selecting: StateSelector(keyPath))
  }

  /// A proxy of a key's value in a collection of this store's state; nil while the key is absent.
  ///
  /// Its sequences deliver the value at the subscription, and then one for each commit that writes the key: that
  /// changes the value in place, sets it, even to an equal value, or removes it. A commit costs the followers of the
  /// keys that it writes, and no others. The scope retains no value between
  /// commits.
  ///
  /// All keys count as written if:
  ///
  /// - a commit replaces the collection by one that was not made from it; every collection counts as made from the
  ///   empty one;
  /// - a commit restores a collection that the replaced one was made from;
  /// - more was written, since the last commit that reached the scope, than `Keyed` remembers (at least 64 keys);
  /// - more than eight copies of the collection were made between its writes since that commit.
  ///
  /// A commit may be left out, by `emits:` or by a part above the key. Its write then counts with the next commit that
  /// is not left out (G4). There are two exceptions:
  ///
  /// - If that next commit restores the very collection that the scope has shown last, the scope may deliver nothing,
  ///   as nothing has changed.
  /// - A subscriber that subscribed in between may get its first element once more.
  ///
  /// In both cases the subscriber's last element is the value after the last commit that was not left out.
  ///
  /// For a store of the value without nil, use `scope(to: \.rooms, at: id).scope(toOptional: { $0 })`.
  @inlinable public func scope<Key: Hashable & Sendable, Value: Sendable>(
    to keyPath: any KeyPath<State, Keyed<Key, Value>> & Sendable, at key: Key
  ) -> Store<Value?, Action> {
    store().scope(to: keyPath, at: key)
  }

  /// The values that a selector computes from the states, one for each commit, as `states()` delivers them.
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

  /// The parts of the states at a key path, one for each commit, as `states()` delivers them.
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

  /// A proxy with other actions and another state, for code that should see and do no more than its part. Adopted from
  /// SwiftRex.
  ///
  ///     let cart = store.projection(
  ///       action: { (action: CartAction) in action.isAllowed ? AppAction.cart(action) : nil },
  ///       state: { (state: AppState) in CartState(state) })
  ///
  /// If an action maps to nil, it is not dispatched: `dispatch` returns `.unmapped`, `send` throws
  /// `StoreError.unmapped`. Any store can be projected, even a scope or another projection.
  ///
  /// - Parameters:
  ///   - toAction: Runs in the caller of `dispatch` and `send`, before anything is requested of the tree.
  ///   - toState: Like the transform of a scope: on the tree's executor, once per commit for all subscribers.
  @inlinable public func projection<ViewAction: Sendable, ViewState: Sendable>(
    action toAction: @escaping @Sendable (ViewAction) -> Action?,
    state toState: @escaping @Sendable (State) -> ViewState
  ) -> Store<ViewState, ViewAction> {
    store().projection(action: toAction, state: toState)
  }
}
