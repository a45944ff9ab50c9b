/// A type that takes actions. Adopted from SwiftRex.
public protocol ActionHandler<Action>: Sendable {
  /// The actions that it takes.
  associatedtype Action: Sendable

  /// Gives the store an action and returns at once. Synchronous, callable from anywhere, even from a reducer.
  ///
  /// The action has its place in the tree's order when this returns (G1), and will be committed even if the store is
  /// released right after (G9), unless middleware stops it.
  ///
  /// - Returns: `.enqueued`; `.terminated` if the store is shut down or released, `.unmapped` if a projection maps the
  ///   action to nothing, or `.tooDeep` if it lies below the 100th level: in each case the action changes nothing.
  @discardableResult func dispatch(_ action: Action) -> DispatchResult

  /// Gives the store an action and returns after its commit, which comes after that of everything dispatched before.
  ///
  /// Provides the backpressure that `dispatch` lacks. Once sent, an action is committed even if the task is cancelled
  /// in the meantime; but where the store follows a log, a task that is cancelled does not wait for that.
  ///
  /// - Throws: `StoreError.terminated` if the store is shut down or released, `.unmapped` if a projection maps the
  ///   action to nothing, `.tooDeep` if the store lies below the 100th level, `.rejected` if middleware stopped the
  ///   action: in each case it changes nothing (G9). If the store follows a log, and the task is cancelled,
  ///   `.withdrawn` if the log has not been given the action, which changes nothing then, and otherwise
  ///   `.outcomeUnknown`; `.stopped` if the store cannot go on.
  func send(_ action: Action) async throws(StoreError)
}

/// A type whose state can be read and followed. Adopted from SwiftRex.
public protocol StateProvider<State>: Sendable {
  /// The state that it shows.
  associatedtype State: Sendable

  /// The state after everything that was requested of the tree before.
  ///
  /// - Throws: `StoreError.terminated` if the store is shut down or released; `StoreError.tooDeep` if it is a proxy
  ///   below the 100th level; `StoreError.stateUnavailable` if an optional scope has no state at present. The stores
  ///   that own their state do not throw.
  var state: State { get async throws(StoreError) }

  /// The states from now on: the present one, and then one for each commit that the store publishes, in order (G4).
  ///
  /// Subscribes in this call, not when it is first awaited: nothing is lost between the call and the loop (G5). Ends
  /// when its consumer is cancelled or lets go of it, or after the last state of a store that is shut down or released;
  /// it never keeps the store alive (G7). Nobody waits for its consumer (G6).
  ///
  /// - Parameters:
  ///   - bufferingPolicy: What is kept for a consumer that is slower than the commits: every state, the newest or the
  ///     oldest n. A limit below one counts as one. A state is kept once for all consumers that still have to read it.
  ///   - equating: Leaves out a state that equals the one delivered before.
  func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy, removeStateDuplicates equating: Equating<State>
  ) -> AsyncStream<State>
}

/// A store of any kind: `RootStore`, `StateStore` or `Store`. All of them keep the same delivery contract, so that a
/// function can be written once over `some StoreType<State, Action>`.
public protocol StoreType<State, Action>: ActionHandler, StateProvider {
  /// Which store of its tree it is; for a proxy, the store that its actions are given to.
  var id: StoreID { get }

  /// A weak proxy of this store: `Sendable`, cheap to make and to pass on. It never keeps the store alive.
  func store() -> Store<State, Action>

  /// Sends an action and reads the state right after that very commit, before any other.
  ///
  /// The closure reads the state in place, on the tree's executor: it is not copied, so that a large collection in it
  /// stays uniquely referenced. Others wait for the closure: it should be short.
  ///
  /// - Throws: `StoreError.terminated` as `send(_:)` does; `StoreError.stateUnavailable` if an optional scope has no
  ///   state after the commit, which has taken place nevertheless.
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

  /// Like the other `states()`, which is a view of this one: the sequence itself costs less than an `AsyncStream`.
  @_disfavoredOverload @inlinable public func states(
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) -> StateSequence<State> {
    store().states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// A proxy whose state is a part of this store's, or a view of it. Actions go to this store.
  ///
  /// The transform runs on the tree's executor, once per commit for all subscribers of the scope and its copies, and
  /// not at all while there are none.
  @inlinable
  public func scope<Scoped: Sendable>(to transform: @escaping @Sendable (State) -> Scoped) -> Store<Scoped, Action> {
    store().scope(to: transform)
  }

  /// A proxy whose state is a part of this store's that may be absent.
  ///
  /// While the transform returns nil, its sequences deliver nothing, `state` throws `StoreError.stateUnavailable`, and
  /// actions are accepted as usual.
  @_disfavoredOverload @inlinable public func scope<Scoped: Sendable>(
    toOptional transform: @escaping @Sendable (State) -> Scoped?
  ) -> Store<Scoped, Action> {
    store().scope(toOptional: transform)
  }

  /// A proxy whose state is computed by a selector from this store's.
  ///
  /// Proxies of one store by the same selector share one computation per commit.
  @inlinable
  public func scope<Value: Sendable>(selecting selector: StateSelector<State, Value>) -> Store<Value, Action> {
    store().scope(selecting: selector)
  }

  /// A proxy whose state is the part of this store's at a key path. Proxies by the same key path share one computation
  /// per commit.
  @inlinable
  public func scope<Value: Sendable>(to keyPath: any KeyPath<State, Value> & Sendable) -> Store<Value, Action> {
    store().scope(selecting: StateSelector(keyPath))
  }

  /// A proxy whose state is the value of a key in a collection of this store's state; nil while there is none.
  ///
  /// Its sequences deliver the value at the subscription, and then one for each commit that writes the key: that
  /// changes the value in place, sets it, or removes it. Where a commit replaces the collection by one that was not
  /// made from it, brings it or an earlier one back, or writes more keys than `Keyed` remembers, all keys count as
  /// written. A commit costs the followers of the keys that it writes, and nothing of the others.
  ///
  /// For a store of the value itself, without nil, there is `scope(to: \.rooms, at: id).scope(toOptional: { $0 })`.
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

  /// Like the other one, which is a view of this one: the sequence itself costs less than an `AsyncStream`.
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

  /// Like the other one, which is a view of this one: the sequence itself costs less than an `AsyncStream`.
  @_disfavoredOverload @inlinable public func states<Value: Sendable>(
    _ keyPath: any KeyPath<State, Value> & Sendable,
    bufferingPolicy: AsyncStream<Value>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<Value> = .neverEqual
  ) -> StateSequence<Value> {
    scope(to: keyPath).states(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating)
  }

  /// A proxy with other actions and another state: a part of them, or quite different ones. Adopted from SwiftRex.
  ///
  ///     let cart = store.projection(
  ///       action: { (action: CartAction) in action.isAllowed ? AppAction.cart(action) : nil },
  ///       state: { (state: AppState) in CartState(state) })
  ///
  /// For code that should see no more of the whole, and do no more to it. An action that maps to nothing is not
  /// dispatched, and the caller is told: `dispatch` returns `.unmapped`, `send` throws `StoreError.unmapped`. Any store
  /// can be projected, even a scope or another projection.
  ///
  /// - Parameters:
  ///   - toAction: Runs where `dispatch` and `send` are called, before they request anything of the tree.
  ///   - toState: Runs like the transform of a scope: on the tree's executor, once per commit for all subscribers.
  @inlinable public func projection<ViewAction: Sendable, ViewState: Sendable>(
    action toAction: @escaping @Sendable (ViewAction) -> Action?,
    state toState: @escaping @Sendable (State) -> ViewState
  ) -> Store<ViewState, ViewAction> {
    store().projection(action: toAction, state: toState)
  }
}
