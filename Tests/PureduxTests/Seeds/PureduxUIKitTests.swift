import Puredux
import PureduxTestSupport
import PureduxUI
import Testing

/// The snippets of PureduxUIKit, with a view controller that needs no UIKit.
@Suite(.timeLimit(.minutes(15))) @MainActor struct PureduxUIKitTests {
  struct AppState: Sendable {
    var yourFancyFeatureSubstate = FancyFeatureState()
  }

  struct FancyFeatureState: Sendable {
    var title = "Hello"
    var subtitle = ""
    var taps = 0
  }

  enum Action: Sendable {
    case fancyTap
    case title(String)
    case subtitle(String)
  }

  @MainActor class ViewController {
    func viewDidLoad() {}
  }

  final class FancyViewController: ViewController, Presentable {
    var presenter: Presenter?
    let shown = Record<String>()
    let changed: Gate
    private(set) var props: Props?
    private let last: String

    init(until last: String, changed: Gate = Gate()) {
      self.last = last
      self.changed = changed
    }

    // update views here
    func setProps(_ props: Props) {
      self.props = props
      shown.add(props.title)
      if props.title == last { changed.open() }
    }

    override func viewDidLoad() {
      super.viewDidLoad()
      presenter?.subscribeToStore()
    }
  }

  struct FancyVCPresenter: Sendable {
    // prepare props for your fancy view controller
    func makeProps(
      state: FancyFeatureState, store: Store<FancyFeatureState, Action>
    ) -> FancyViewController.Props {
      FancyViewController.Props(
        title: "\(state.title)\(state.subtitle) \(state.taps)", onTap: { store.dispatch(.fancyTap) })
    }
  }

  let factory = StoreFactory<AppState, Action>(initialState: AppState()) { state, action in
    switch action {
    case .fancyTap: state.yourFancyFeatureSubstate.taps += 1
    case .title(let title): state.yourFancyFeatureSubstate.title = title
    case .subtitle(let subtitle): state.yourFancyFeatureSubstate.subtitle = subtitle
    }
  }

  @Test func `a view controller, connected to a store`() async throws {
    let fancyFeatureStore = factory.scopeStore { $0.yourFancyFeatureSubstate }
    let presenter = FancyVCPresenter()
    let viewController = FancyViewController(until: "Hello 1")
    viewController.with(store: fancyFeatureStore, props: presenter.makeProps)
    viewController.viewDidLoad()
    fancyFeatureStore.dispatch(.fancyTap)
    await viewController.changed.wait()
    viewController.props?.onTap()
    #expect(try await fancyFeatureStore.state.taps == 2)
  }

  @Test func `two that look at different properties of one state`() async throws {
    let fancyFeatureStore = factory.scopeStore { $0.yourFancyFeatureSubstate }
    let presenter = FancyVCPresenter()
    let (first, second) = (FancyViewController(until: "Bye! 1"), FancyViewController(until: "Hello! 1"))
    first.with(
      store: fancyFeatureStore, props: presenter.makeProps, presentationQueue: .mainActor,
      removeStateDuplicates: .equal { $0.title })
    second.with(store: fancyFeatureStore, props: presenter.makeProps, removeStateDuplicates: .equal { $0.subtitle })
    for viewController in [first, second] { viewController.viewDidLoad() }
    fancyFeatureStore.dispatch(.fancyTap)
    fancyFeatureStore.dispatch(.subtitle("!"))
    fancyFeatureStore.dispatch(.title("Bye"))
    await first.changed.wait()
    await second.changed.wait()
    #expect(first.shown.all == ["Hello 0", "Bye! 1"])
    #expect(second.shown.all == ["Hello 0", "Hello! 1"])
  }
}

extension PureduxUIKitTests.FancyViewController {
  struct Props: Sendable {
    let title: String
    let onTap: @MainActor () -> Void
  }
}
