public import Observation
public import Puredux

/// A store's state on the main actor, observable by SwiftUI views and others.
///
///     @MainActor func show(_ store: Store<Cart, CartAction>) async throws {
///       let cart = try await ObservableStore(store)
///       cart.dispatch(.add("tea"))
///       for await count in Observations({ cart.items.count }) { print(count) }
///     }
///
/// Reading a property of the state, as in `cart.items`, observes it: the reader is notified only when that property
/// changes.
///
/// - This holds for stored `Equatable` properties of a structure, for values read through them (`cart.items.count` and
///   `cart.items[2]` observe `items`), and for `state` itself if it is `Equatable`.
/// - Everything else counts as changed by every new state: properties of other types, and computed values. These
///   include an element (`list[2]`) and a property with a getter or an observer.
/// - Nothing is computed unless it is read. Use a projection for an expensive value, or for one to be observed on its
///   own.
///
/// Cost: a new state takes time only for each stored property read since it last changed.
///
/// While the main actor is busy, superseded states are skipped. The object does not keep the store alive, and stays at
/// the last state when the store ends.
@MainActor @dynamicMemberLookup
public final class ObservableStore<State: Sendable, Action: Sendable>: Observable, ActionHandler {
  /// Its values are compared only if it is stored: a computed one could trap.
  private struct Property {
    /// In the order of reads.
    let number: Int
    let isSame: (State, State) -> Bool
    let willSet: (ObservableStore, ObservationRegistrar) -> Void
    let didSet: (ObservableStore, ObservationRegistrar) -> Void
  }

  private nonisolated let store: Store<State, Action>
  private nonisolated let registrar = ObservationRegistrar()
  /// For reads while a change is announced: they get the old value, and are notified of the new one.
  private nonisolated let earlyRegistrar = ObservationRegistrar()
  private let connection = Subscription.Holder()
  private var current: State
  private var announced: State?
  private var lastNumber = 0
  private var early: [PartialKeyPath<ObservableStore>: Property] = [:]
  /// The properties read since they were last announced: stored ones, whose number the type limits, the state itself,
  /// and `computed`.
  private var observed: [PartialKeyPath<ObservableStore>: Property] = [:]
  /// Everything that is not stored in the state: its readers are notified of every state.
  private var computed: Void { () }

  /// Follows a store, and shows an initial state until the store's own arrives.
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
  /// - Throws: The errors of reading the state: `StoreError.terminated` if the store has ended, `.stateUnavailable` if
  ///   an optional scope has no state.
  public convenience init(_ store: some StoreType<State, Action>) async throws(StoreError) {
    let proxy = store.store()
    self.init(proxy, initialState: try await proxy.state)
  }

  /// The state. Reading it observes the whole state.
  public var state: State { self[dynamicMember: \.self] }

  /// A property of the state. Reading it observes that property.
  public subscript<Value>(dynamicMember keyPath: KeyPath<State, Value>) -> Value {
    if MemoryLayout<State>.offset(of: keyPath) != nil {
      observe(\ObservableStore[dynamicMember: keyPath]) { areEqual($0[keyPath: keyPath], $1[keyPath: keyPath]) }
    } else {
      observe(\ObservableStore.computed) { _, _ in false }
    }
    return current[keyPath: keyPath]
  }

  private func observe<Value>(
    _ path: KeyPath<ObservableStore, Value>, isSame: @escaping (State, State) -> Bool
  ) {
    var property: Property {
      lastNumber += 1
      return Property(
        number: lastNumber, isSame: isSame, willSet: { $1.willSet($0, keyPath: path) },
        didSet: { $1.didSet($0, keyPath: path) })
    }
    if let announced, !isSame(current, announced) {
      early[path] = property
      earlyRegistrar.access(self, keyPath: path)
    } else {
      if observed[path] == nil { observed[path] = property }
      registrar.access(self, keyPath: path)
    }
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
    let changed = observed.filter { !$0.value.isSame(current, state) }.sorted { $0.value.number < $1.value.number }
    for (path, _) in changed { observed[path] = nil }
    announced = state
    for (_, property) in changed { property.willSet(self, registrar) }
    announced = nil
    current = state
    for (_, property) in changed { property.didSet(self, registrar) }
    let readEarly = early.values.sorted { $0.number < $1.number }
    early = [:]
    for property in readEarly {
      property.willSet(self, earlyRegistrar)
      property.didSet(self, earlyRegistrar)
    }
  }
}

/// False if their type is not `Equatable`.
private func areEqual<Value>(_ lhs: Value, _ rhs: Value) -> Bool {
  func areEqual<Known: Equatable>(_ lhs: Known) -> Bool { lhs == rhs as? Known }
  guard let lhs = lhs as? any Equatable else { return false }
  return areEqual(lhs)
}
