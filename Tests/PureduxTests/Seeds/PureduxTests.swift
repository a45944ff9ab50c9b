import Puredux
import PureduxTestSupport
import Testing

/// The snippets of Puredux and PureduxStore, in this library's terms.
@Suite(.timeLimit(.minutes(15))) struct PureduxTests {
  protocol Action: Sendable {}
  struct SomeAction: Action {}
  struct SetTitle: Action { let title: String }

  struct SubState: Sendable, Equatable {
    var title = ""
    var subtitle = ""
  }

  struct AppState: Sendable {
    var subState = SubState()
    var actions = 0

    mutating func reduce(_ action: any Action) {
      actions += 1
      switch action {
      case let action as SetTitle: subState.title = action.title
      case let action as SomeResultAction: subState.subtitle = action.result
      default: break
      }
    }
  }

  struct LocalState: Sendable {
    var actions = 0
    mutating func reduce(_ action: any Action) { actions += 1 }
  }

  /// A service that replies with the reversed text.
  struct Service: Sendable {
    func doTheWork(_ text: String) async throws -> String { String(text.reversed()) }
  }

  struct SomeResultAction: Action { let result: String }

  struct SomeAsyncAction: Action, AsyncAction {
    var service = Service()
    let text: String

    func execute(dispatch: Dispatch<any Action>) async {
      guard let result = try? await service.doTheWork(text) else { return }
      dispatch(SomeResultAction(result: result))
    }
  }

  let initialState = AppState()
  let reducer: @Sendable (inout AppState, any Action) -> Void = { state, action in state.reduce(action) }

  @Test func `the quick start: a factory, a root store, a scoped store`() async throws {
    let factory = StoreFactory<AppState, any Action>(initialState: initialState, reducer: reducer)
    let store = factory.rootStore()
    let scopedStore: Store<SubState, any Action> = factory.scopeStore { appState in appState.subState }
    store.dispatch(SetTitle(title: "new"))
    #expect(try await scopedStore.state.title == "new")
  }

  @Test func `side effects in the interceptor, which answers the store that the action came from`() async throws {
    let factory = StoreFactory<AppState, any Action>(
      initialState: initialState,
      interceptor: { action, dispatch in
        guard let action = action as? SomeAsyncAction else { return }
        await action.execute(dispatch: dispatch)
      },
      reducer: reducer)
    let store = factory.rootStore()
    let states = store.states()
    store.dispatch(SomeAsyncAction(text: "abc"))
    #expect(await states.collect(until: { !$0.subState.subtitle.isEmpty }).last?.subState.subtitle == "cba")
  }

  @Test func `an observer that dispatches, and is dead when it wants no more`() async throws {
    let factory = StoreFactory<AppState, any Action>(initialState: initialState, reducer: reducer)
    let scopedStore = factory.scopeStore { $0.subState }
    let titles = Record<String>()
    let finished = Gate()
    let observer = Observer<SubState> { substate in
      titles.add(substate.title)
      // handle the latest state here, and dispatch some actions to the store
      scopedStore.dispatch(SetTitle(title: substate.title + "x"))
      guard substate.title.count < 3 else {
        finished.open()
        return .dead
      }
      return .active
    }
    scopedStore.subscribe(observer: observer)
    await finished.wait()
    await factory.root.shutdown()
    #expect(titles.all == ["", "x", "xx", "xxx"])
  }

  @Test func `a child store with local state and reducer`() async throws {
    let factory = StoreFactory<AppState, any Action>(initialState: initialState, reducer: reducer)
    let childStore: StateStore<(AppState, LocalState), any Action> = factory.childStore(
      initialState: LocalState(),
      reducer: { localState, action in localState.reduce(action) })
    let seen = Record<[Int]>()
    let done = Gate()
    childStore.subscribe(
      observer: Observer<(AppState, LocalState)> { stateComposition in
        seen.add([stateComposition.0.actions, stateComposition.1.actions])
        if stateComposition.0.actions < 2 { return .active }
        done.open()
        return .dead
      })
    factory.rootStore().dispatch(SomeAction())
    childStore.dispatch(SomeAction())
    await done.wait()
    #expect(seen.all == [[0, 0], [1, 0], [2, 1]])
  }

  @Test func `a root store of one's own, with an interceptor set later`() async throws {
    let rootStore = RootStore<AppState, any Action>(initialState: initialState, reducer: reducer)
    let store = rootStore.store()
    rootStore.interceptActions { action, dispatch in
      guard let action = action as? any AsyncAction<any Action> else { return }
      await action.execute(dispatch: dispatch)
    }
    let storeProxy = store.scope { appState in appState.subState }
    let states = storeProxy.states()
    storeProxy.dispatch(SomeAsyncAction(text: "xyz"))
    #expect(await states.collect(until: { !$0.subtitle.isEmpty }).last?.subtitle == "zyx")
  }

  @Test func `on the main queue, or one's own`() async throws {
    let onMain = RootStore<AppState, any Action>(
      initialState: initialState, options: StoreOptions(executor: .mainActor)
    ) { state, action in
      MainActor.assertIsolated()
      state.reduce(action)
    }
    try await onMain.send(SomeAction())
    let queue = HeldExecutor()
    let onQueue = RootStore<AppState, any Action>(
      initialState: initialState, options: StoreOptions(executor: .serial(queue))
    ) {
      state, action in
      #expect(queue.isCurrent)
      state.reduce(action)
    }
    try await onQueue.send(SomeAction())
  }

  @Test func `two views of one store remove duplicates, each by its own rule`() async throws {
    let factory = StoreFactory<AppState, any Action>(initialState: initialState, reducer: reducer)
    let store = factory.scopeStore { $0.subState }
    let titles = store.states(removeStateDuplicates: .equal { $0.title })
    let both = store.states(removeStateDuplicates: .equal { $0.title } && .equal { $0.subtitle })
    store.dispatch(SetTitle(title: "a"))
    store.dispatch(SomeResultAction(result: "b"))
    store.dispatch(SetTitle(title: "a"))
    await factory.root.shutdown()
    #expect(await titles.collect().map(\.title) == ["", "a"])
    #expect(await both.collect().map(\.subtitle) == ["", "", "b"])
  }
}
