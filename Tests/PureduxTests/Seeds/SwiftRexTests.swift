import Observation
import Puredux
import PureduxTestSupport
import PureduxUI
import Testing

/// The snippets of SwiftRex's store type, in this library's terms.
@Suite(.timeLimit(.minutes(15))) struct SwiftRexTests {
  struct AppState: Sendable, Equatable {
    struct Foo: Sendable, Equatable {
      struct Bar: Sendable, Equatable {
        var title = "Swift"
      }
      var bar = Bar()
    }
    var foo = Foo()
    var timers = 0
    var isStarted = false
    static let initial = AppState()
  }

  enum AppAction: Sendable {
    enum Lifecycle: Sendable {
      case start
    }
    enum Foo: Sendable {
      enum Bar: Sendable {
        case startTimer
        case rename(String)
      }
      case bar(Bar)
    }
    case lifecycle(Lifecycle)
    case foo(Foo)
  }

  enum AppModule {
    @Sendable static func appReducer(_ state: inout AppState, _ action: AppAction) {
      switch action {
      case .lifecycle(.start): state.isStarted = true
      case .foo(.bar(.startTimer)): state.timers += 1
      case .foo(.bar(.rename(let title))): state.foo.bar.title = title
      }
    }

    static func appMiddleware(_ log: Record<String>) -> [Middleware<AppState, AppAction>] {
      [.logging { log.add("\($0.action)") }]
    }
  }

  static func createStore(_ log: Record<String> = Record()) -> RootStore<AppState, AppAction> {
    let store = RootStore(
      initialState: .initial, middleware: AppModule.appMiddleware(log), emits: .whenDifferent,
      reducer: AppModule.appReducer)
    store.dispatch(.lifecycle(.start))
    return store
  }

  struct ContentViewState: Equatable, Sendable {
    let title: String
    static let empty = ContentViewState(title: "")

    static func from(globalState: AppState) -> ContentViewState {
      ContentViewState(title: "Good morning, \(globalState.foo.bar.title)")
    }
  }

  enum ContentViewAction: Sendable {
    case onAppear
    case didScroll

    func toAppAction() -> AppAction? {
      switch self {
      case .onAppear: .foo(.bar(.startTimer))
      case .didScroll: nil
      }
    }
  }

  @Test func `a real store with middleware that emits differences`() async throws {
    let log = Record<String>()
    let store = Self.createStore(log)
    let states = store.states()
    store.dispatch(.lifecycle(.start))
    store.dispatch(.foo(.bar(.startTimer)))
    await store.shutdown()
    #expect(await states.collect().map(\.timers) == [0, 1])
    #expect(log.all.count == 3)
  }

  @Test @MainActor func `a projection, as an observable view model`() async throws {
    let store = Self.createStore()
    let projection = store.projection(
      action: { (viewAction: ContentViewAction) -> AppAction? in viewAction.toAppAction() },
      state: { (globalState: AppState) -> ContentViewState in ContentViewState.from(globalState: globalState) })
    let viewModel = ObservableStore(projection, initialState: .empty)
    #expect(viewModel.title == "")
    let titles = Task {
      var titles: [String] = []
      for await title in Observations({ viewModel.title }) {
        titles.append(title)
        if title.hasSuffix("Rex") { break }
      }
      return titles
    }
    #expect(viewModel.dispatch(.onAppear) == .enqueued)
    #expect(viewModel.dispatch(.didScroll) == .unmapped)
    try await viewModel.send(.onAppear)
    #expect(await store.state.timers == 2)
    store.dispatch(.foo(.bar(.rename("Rex"))))
    #expect(await titles.value.last == "Good morning, Rex")
  }

  @Test func `a projection of a projection`() async throws {
    let store = Self.createStore()
    let foo = store.projection(action: { AppAction.foo($0) }, state: { $0.foo })
    let bar = foo.projection(action: { (action: AppAction.Foo.Bar) in .bar(action) }, state: { $0.bar })
    #expect(try await bar.send(.rename("new")) { $0.title } == "new")
  }

  /// A function for any `StoreType` takes all kinds of stores.
  private func title(of store: some StoreType<AppState, AppAction>) async throws -> String {
    try await store.state.foo.bar.title
  }

  @Test func `a store type is an action handler and a state provider`() async throws {
    let store = Self.createStore()
    let child = store.childStore(
      initialState: 0, stateMapping: { state, _ in state }, reducer: { count, _ in count += 1 })
    #expect(try await title(of: store) == "Swift")
    #expect(try await title(of: store.store()) == "Swift")
    #expect(try await title(of: child) == "Swift")
  }
}
