public import Puredux

/// An object on the main actor that shows a state as *props*, a value made for it, such as a view controller.
///
///     final class CartScreen: Presentable {
///       struct Props: Sendable {
///         let title: String
///         let pay: @MainActor () -> Void
///       }
///       var presenter: Presenter?
///       func setProps(_ props: Props) { … }
///     }
///
///     screen.with(store: store.scope(to: \.cart), props: { cart, store in
///       CartScreen.Props(title: "\(cart.count) things", pay: { store.dispatch(.pay) })
///     })
///     screen.presenter?.subscribeToStore()
@MainActor public protocol Presentable: AnyObject, Sendable {
  /// The value that is shown, made from a state, by default not on the main actor.
  associatedtype Props: Sendable

  /// The connection to a store. Hold it strongly: the connection ends with it.
  var presenter: Presenter? { get set }

  /// Shows new props.
  func setProps(_ props: Props)
}

extension Presentable {
  /// Sets a presenter that connects this object to a store, and replaces the previous one.
  /// `presenter?.subscribeToStore()` starts it.
  ///
  /// Props are made from the present state and from each later one, and set on the main actor in that order, never
  /// after this object is released. The store never waits for it.
  ///
  /// - Parameters:
  ///   - store: The presenter keeps a root or child store alive, so a child store can be made for one screen; a proxy
  ///     keeps none alive.
  ///   - props: Makes the props from a state. Its second argument is a proxy of the store, for dispatching.
  ///   - presentationQueue: The executor that makes the props: by default not the main actor.
  ///   - bufferingPolicy: The states kept while props are being made and set. `.bufferingNewest(1)` skips superseded
  ///     states.
  ///   - equating: Omits a state that equals the previous one.
  public func with<State, Action>(
    store: some StoreType<State, Action>, props: @escaping @Sendable (State, Store<State, Action>) -> Props,
    presentationQueue: StoreExecutor = .own,
    bufferingPolicy: AsyncStream<State>.Continuation.BufferingPolicy = .unbounded,
    removeStateDuplicates equating: Equating<State> = .neverEqual
  ) {
    let owner = store
    let store = store.store()
    let make = presentationQueue.running { (state: State) in props(state, store) }
    presenter = Presenter(of: owner) { [weak self] connection in
      let observer = Observer(bufferingPolicy: bufferingPolicy, removeStateDuplicates: equating) {
        [weak self, weak connection] state in
        guard self != nil else { return .dead }
        let made = await make(state)
        return await MainActor.run {
          // On the main actor, where neither can be released in between.
          guard let self, connection != nil else { return .dead }
          self.setProps(made)
          return .active
        }
      }
      return store.subscribe(observer: observer)
    }
  }
}

/// Connects a presentable to a store, from `subscribeToStore()` until its own release. Keeps a root or child store
/// alive.
@MainActor public final class Presenter {
  private let store: any Sendable
  private let subscribe: @MainActor (Subscription.Holder) -> Subscription
  private var connection: Subscription.Holder?

  init(of store: any Sendable, subscribe: @escaping @MainActor (Subscription.Holder) -> Subscription) {
    self.store = store
    self.subscribe = subscribe
  }

  /// Starts with the present state. A further call starts again.
  public func subscribeToStore() {
    let connection = Subscription.Holder()
    connection.subscription = subscribe(connection)
    self.connection = connection
  }

  /// Ends the connection: no more props are set.
  public func unsubscribeFromStore() {
    connection = nil
  }
}

extension Subscription {
  /// Cancels a subscription when released.
  @MainActor final class Holder {
    var subscription: Subscription?

    deinit { subscription?.cancel() }
  }
}
