import Observation

/// A store's state on the main actor, for SwiftUI views and other observers: its `state` follows the store.
///
///     @MainActor func show(_ store: Store<Cart, CartAction>) async throws {
///       let cart = try await ObservableStore(store)
///       cart.dispatch(.add("tea"))
///       for await count in Observations({ cart.items.count }) { print(count) }
///     }
///
/// Reading a property of the state through it, as in `cart.items`, observes that property: the reader is notified when
/// it changes, and not when anything else does. That holds for `Equatable` properties; others count as changed at every
/// new state, and so does `state` itself if it is not `Equatable`.
///
/// It follows the newest state: while the main actor is busy, superseded states are skipped. It does not keep the store
/// alive, and stays at the last state when the store ends. The counterpart of SwiftRex's observable view model.
@MainActor @dynamicMemberLookup
public final class ObservableStore<State: Sendable, Action: Sendable>: Observable, ActionHandler {
  private struct Property {
    let isSame: (State, State) -> Bool
    let willSet: (ObservableStore, ObservationRegistrar) -> Void
    let didSet: (ObservableStore, ObservationRegistrar) -> Void
  }

  private nonisolated let store: Store<State, Action>
  private nonisolated let registrar = ObservationRegistrar()
  /// For readers of a property whose change is just being announced: they get the old value, and are notified when the
  /// new one is there.
  private nonisolated let earlyRegistrar = ObservationRegistrar()
  private let connection = Subscription.Holder()
  private var current: State
  /// The next state, while it is being announced, and what has been read too early since.
  private var announced: State?
  private var early: [PartialKeyPath<State>: Property] = [:]
  /// What has been read of the state: its properties, and the state itself.
  private var properties: [PartialKeyPath<State>: Property] = [:]

  /// Follows a store, from an initial state that is shown until the store's own has come.
  public init(_ store: some StoreType<State, Action>, initialState: State) {
    self.store = store.store()
    current = initialState
    connection.subscription = self.store.subscribe(
      observer: Observer(bufferingPolicy: .bufferingNewest(1)) { [weak self] state in
        await MainActor.run {
          guard let self else { return .dead }
          self.update(state)
          return .active
        }
      })
  }

  /// Follows a store, from its present state.
  ///
  /// - Throws: Like reading the state: `StoreError.terminated` if the store has ended, `.stateUnavailable` if an
  ///   optional scope has no state.
  public convenience init(_ store: some StoreType<State, Action>) async throws(StoreError) {
    let proxy = store.store()
    self.init(proxy, initialState: try await proxy.state)
  }

  /// The state. Reading it observes the whole state.
  public var state: State { self[dynamicMember: \.self] }

  /// A property of the state. Reading it observes that property.
  public subscript<Value>(dynamicMember keyPath: KeyPath<State, Value>) -> Value {
    let path: KeyPath<ObservableStore, Value> = \ObservableStore[dynamicMember: keyPath]
    if properties[keyPath] == nil {
      properties[keyPath] = Property {
        areEqual($0[keyPath: keyPath], $1[keyPath: keyPath])
      } willSet: {
        $1.willSet($0, keyPath: path)
      } didSet: {
        $1.didSet($0, keyPath: path)
      }
    }
    if let announced, let property = properties[keyPath], !property.isSame(current, announced) {
      early[keyPath] = property
      earlyRegistrar.access(self, keyPath: path)
    } else {
      registrar.access(self, keyPath: path)
    }
    return current[keyPath: keyPath]
  }

  @discardableResult public nonisolated func dispatch(_ action: Action) -> DispatchResult { store.dispatch(action) }

  @_disfavoredOverload public nonisolated func send(_ action: Action) async throws(StoreError) {
    try await store.send(action)
  }

  /// Like `send(_:)`, straight from the caller's actor and back to it.
  public func send(_ action: Action, isolation: isolated (any Actor)? = #isolation) async throws(StoreError) {
    try await store.send(action, isolation: isolation)
  }

  private func update(_ state: State) {
    let changed = properties.values.filter { !$0.isSame(current, state) }
    announced = state
    for property in changed { property.willSet(self, registrar) }
    announced = nil
    current = state
    for property in changed { property.didSet(self, registrar) }
    let readEarly = early.values
    early = [:]
    for property in readEarly {
      property.willSet(self, earlyRegistrar)
      property.didSet(self, earlyRegistrar)
    }
  }
}

/// Whether two values are equal; false if their type is not `Equatable`.
private func areEqual<Value>(_ lhs: Value, _ rhs: Value) -> Bool {
  func areEqual<Known: Equatable>(_ lhs: Known) -> Bool { lhs == rhs as? Known }
  guard let lhs = lhs as? any Equatable else { return false }
  return areEqual(lhs)
}
