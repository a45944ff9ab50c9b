public import Puredux

/// A store with scripted states that records its actions.
///
///     let store = ScriptedStore<Room, RoomAction>(Room(), Room(topic: "Swift"))
///     let page = Page(store.store())
///     page.tapped()  // Gives the store an action: the next state of the script follows.
///     #expect(await store.actions == [.say("Hello")])
///     await store.publish(Room(isClosed: true))
///     await store.end()
///
/// Instead of a reducer, the next state of the script answers each action. After the script's end, actions are only
/// recorded. Otherwise the store, its proxies and its scopes fulfil the contract. It ends when it is released.
public final class ScriptedStore<State: Sendable, Action: Sendable>: StoreType {
  private enum Entry: Sendable {
    case action(Action)
    case publish(State)
    case script([State])
  }

  private struct Contents: Sendable {
    var state: State
    var version = 0
    var script: ArraySlice<State>
    var actions: [Action] = []

    mutating func publish(_ state: State) {
      self.state = state
      version += 1
    }
  }

  private let root: RootStore<Contents, Entry>
  private let proxy: Store<State, Action>
  private let refusal: Refusal

  private final class Refusal: Sendable {
    let error = LockedValue<StoreError?>(nil)
  }

  /// - Parameters:
  ///   - initialState: The first state.
  ///   - script: The answers to the first actions, one for each.
  public init(_ initialState: State, _ script: State...) {
    root = RootStore(
      initialState: Contents(state: initialState, script: script[...]), emits: .whenDifferent { $0.version }
    ) { contents, entry in
      switch entry {
      case .action(let action):
        contents.actions.append(action)
        if let state = contents.script.popFirst() { contents.publish(state) }
      case .publish(let state): contents.publish(state)
      case .script(let states): contents.script += states
      }
    }
    let refusal = Refusal()
    self.refusal = refusal
    proxy = root.store().scripted(
      action: { .action($0) }, from: { if case .action(let action) = $0 { action } else { nil } }, state: { $0.state },
      refusing: { refusal.error.withLock { $0 } })
  }

  public func store() -> Store<State, Action> { proxy }

  public var state: State { get async throws(StoreError) { try await proxy.state } }

  // MARK: The script

  /// All actions given before this call, in order.
  public var actions: [Action] { get async { await root.state.actions } }

  /// Delivers states in order, and returns when they are published; after the end, at once.
  public func publish(_ states: State...) async {
    for state in states { try? await root.send(.publish(state)) }
  }

  /// Appends states to the script.
  public func answer(with states: State...) { root.dispatch(.script(states)) }

  /// Makes the store, its proxies, scopes and projections refuse every action, until the error is nil. Every form of
  /// `send`, and `perform`, throws the error; `dispatch` returns its counterpart. Refused actions are not recorded.
  public func refuse(with error: StoreError?) { refusal.error.withLock { $0 = error } }

  /// Ends the store: its sequences end after their last state, and it accepts no more actions. `actions` can still be
  /// read.
  public func end() async { await root.shutdown() }
}
