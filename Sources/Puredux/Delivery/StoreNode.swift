/// A store with state of its own, as an action on its path meets it. Lives on its tree's executor.
protocol StoreNode<Action>: AnyObject {
  associatedtype Action: Sendable

  /// The store above; none above the root.
  var parent: (any StoreNode<Action>)? { get }

  func reduce(_ action: Action)

  /// Hands the state to everybody who watches, here and below.
  func publish()

  /// Ends the sequences of this store and of everything below it.
  func end()

  /// The store itself is gone.
  func release()
}

/// The root store's state and reducer.
final class RootNode<State: Sendable, Action: Sendable>: StoreNode, StateSource {
  var outlet = Outlet<State>()
  private var state: State?
  private let reducer: @Sendable (inout State, Action) -> Void

  init(state: State, reducer: @escaping @Sendable (inout State, Action) -> Void) {
    self.state = state
    self.reducer = reducer
  }

  var parent: (any StoreNode<Action>)? { nil }

  func reduce(_ action: Action) {
    guard state != nil else { return }
    reducer(&state!, action)
  }

  func publish() {
    guard let state else { return }
    outlet.publish(state)
  }

  func withState(_ body: (State) -> Void) {
    if let state { body(state) }
  }

  func attach() {}

  func detachIfUnwatched() { outlet.releaseChannelIfIdle() }

  func end() { outlet.end() }

  func release() { state = nil }
}

/// A child store's local state and reducer, and how its state is composed with its parent's.
final class ChildNode<Parent: Sendable, Local: Sendable, State: Sendable, Action: Sendable>: StoreNode, DerivedSource {
  var outlet = Outlet<State>()
  var place: Int?
  let parent: (any StoreNode<Action>)?
  let upstream: any StateSource<Parent>
  private var local: Local?
  private let stateMapping: @Sendable (Parent, Local) -> State
  private let reducer: @Sendable (inout Local, Action) -> Void

  init(
    parent: any StoreNode<Action>, upstream: any StateSource<Parent>, local: Local,
    stateMapping: @escaping @Sendable (Parent, Local) -> State,
    reducer: @escaping @Sendable (inout Local, Action) -> Void
  ) {
    self.parent = parent
    self.upstream = upstream
    self.local = local
    self.stateMapping = stateMapping
    self.reducer = reducer
  }

  func reduce(_ action: Action) {
    guard local != nil else { return }
    reducer(&local!, action)
  }

  func publish() {
    withState { outlet.publish($0) }
  }

  func receive(_ parentState: Parent) {
    guard let local else { return }
    outlet.publish(stateMapping(parentState, local))
  }

  func withState(_ body: (State) -> Void) {
    guard let local else { return }
    upstream.withState { body(stateMapping($0, local)) }
  }

  func end() {
    outlet.end()
    upstream.outlet.remove(self)
    upstream.detachIfUnwatched()
  }

  func release() { local = nil }
}
