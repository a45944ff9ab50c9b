public import Puredux

/// An object that shows a state on the main actor, in a form made for it, its *props*: a view controller, a window, a
/// terminal. Adopted from PureduxUIKit.
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
  /// What is shown: made of a state, by default not on the main actor.
  associatedtype Props: Sendable

  /// Connects it to a store. Hold it strongly: the connection ends with it.
  var presenter: Presenter? { get set }

  /// Shows new props.
  func setProps(_ props: Props)
}

extension Presentable {
  /// Connects it to a store: sets its presenter, replacing the previous one. `presenter?.subscribeToStore()` starts it.
  ///
  /// For the state at that time and each that follows, props are made, and set on the main actor, one after the other,
  /// the newest last, and none once the presentable is gone. The store never waits for it.
  ///
  /// - Parameters:
  ///   - store: A root or child store is kept for as long as the presenter is: a child store can be made for what is
  ///     shown. A proxy (`store()`, a scope) keeps no store alive.
  ///   - props: Makes the props from a state. A proxy of the store is passed in for dispatching.
  ///   - presentationQueue: Where the props are made: by default not on the main actor.
  ///   - bufferingPolicy: Which states are kept while props are being made and set. `.bufferingNewest(1)` skips those
  ///     that are superseded.
  ///   - equating: Leaves out a state that equals the one before: no props are made from it.
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
          // Checked where neither can be released in between.
          guard let self, connection != nil else { return .dead }
          self.setProps(made)
          return .active
        }
      }
      return store.subscribe(observer: observer)
    }
  }
}

/// Connects a presentable to a store, from `subscribeToStore()` until it is released. Keeps the store that it was
/// given: where that is a root or child store, it lives at least as long as this.
@MainActor public final class Presenter {
  private let store: any Sendable
  private let subscribe: @MainActor (Subscription.Holder) -> Subscription
  private var connection: Subscription.Holder?

  init(of store: any Sendable, subscribe: @escaping @MainActor (Subscription.Holder) -> Subscription) {
    self.store = store
    self.subscribe = subscribe
  }

  /// Starts with the present state. Calling it again starts anew.
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
  /// Cancels a subscription when it is released.
  @MainActor final class Holder {
    var subscription: Subscription?

    deinit { subscription?.cancel() }
  }
}
