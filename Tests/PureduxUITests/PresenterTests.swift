import Dispatch
import Puredux
import PureduxTestSupport
import PureduxUI
import Testing

@Suite(.timeLimit(.minutes(15))) @MainActor struct PresenterTests {
  /// A presentable that records its props.
  final class Screen: Presentable {
    struct Props: Sendable {
      let count: Int
      let tap: @MainActor () -> Void
    }

    var presenter: Presenter?
    let shown: Record<Int>
    let last: Gate
    let lastCount: Int
    let gone = Token()
    private(set) var props: Props?

    /// Opens `last` when it shows `lastCount`.
    init(_ shown: Record<Int> = Record(), until lastCount: Int = .max, last: Gate = Gate()) {
      self.shown = shown
      self.last = last
      self.lastCount = lastCount
    }

    func setProps(_ props: Props) {
      MainActor.assertIsolated()
      self.props = props
      shown.add(props.count)
      if props.count == lastCount { last.open() }
    }
  }

  nonisolated static func props(_ state: Snapshot, _ store: Store<Snapshot, Int>) -> Screen.Props {
    Screen.Props(count: state.root.count) { store.dispatch(7) }
  }

  @Test(arguments: Kind.allCases)
  func `it shows the state now and then every commit, in order, from the subscription on`(kind: Kind) async throws {
    let subject = Subject(kind)
    let screen = Screen(until: 10)
    screen.with(store: subject.store.store(), props: Self.props)
    for action in 1...5 { try await subject.store.send(action) }
    #expect(screen.shown.all.isEmpty)
    screen.presenter?.subscribeToStore()
    for action in 6...10 { subject.store.dispatch(action) }
    await screen.last.wait()
    #expect(screen.shown.all == Array(5...10))
    screen.props?.tap()
    #expect(try await subject.store.state.root.last == 7, "what its props do reaches the store")
  }

  @Test(arguments: Kind.allCases)
  func `props are made on the requested queue, and by default not on the main actor`(kind: Kind) async throws {
    let subject = Subject(kind)
    let queue = HeldExecutor()
    _ = mainKey
    for (executor, expected) in [(StoreExecutor?.none, "off main"), (.mainActor, "main"), (.serial(queue), "own")] {
      let places = Record<String>()
      let screen = Screen(until: 0)
      let make: @Sendable (Snapshot, Store<Snapshot, Int>) -> Screen.Props = { state, store in
        places.add(queue.isCurrent ? "own" : isOnMainActor() ? "main" : "off main")
        return Self.props(state, store)
      }
      if let executor {
        screen.with(store: subject.store.store(), props: make, presentationQueue: executor)
      } else {
        screen.with(store: subject.store.store(), props: make)
      }
      screen.presenter?.subscribeToStore()
      await screen.last.wait()
      #expect(places.all == [expected])
    }
  }

  @Test(arguments: Kind.allCases)
  func `slow props delay neither the store nor the main actor, and none is skipped`(kind: Kind)
    async throws
  {
    let subject = Subject(kind)
    let held = HeldExecutor()
    let screen = Screen(until: 20)
    screen.with(store: subject.store.store(), props: Self.props, presentationQueue: .serial(held))
    held.hold()
    screen.presenter?.subscribeToStore()
    for action in 1...20 { try await subject.store.send(action) }
    #expect(screen.shown.all.isEmpty)
    held.letGo()
    await screen.last.wait()
    #expect(screen.shown.all == Array(0...20))
  }

  @Test(arguments: Kind.allCases)
  func `superseded states are skipped on request`(kind: Kind) async throws {
    let subject = Subject(kind)
    let (held, began) = (HeldExecutor(), Gate())
    let screen = Screen(until: 20)
    screen.with(
      store: subject.store.store(),
      props: { state, store in
        began.open()
        return Self.props(state, store)
      }, presentationQueue: .serial(held), bufferingPolicy: .bufferingNewest(1))
    screen.presenter?.subscribeToStore()
    await began.wait()
    held.hold()
    // The presenter computes props for one of these states; the last state supersedes the others.
    for action in 1...20 { try await subject.store.send(action) }
    held.letGo()
    await screen.last.wait()
    #expect(screen.shown.all.count <= 3)
    #expect(screen.shown.all.first == 0 && screen.shown.all.last == 20)
  }

  @Test(arguments: Kind.allCases)
  func `a presentable released during the making of props is not set any`(kind: Kind) async throws {
    let subject = Subject(kind)
    let held = HeldExecutor()
    let shown = Record<Int>()
    let made = Record<Int>()
    let began = Gate()
    var screen: Screen? = Screen(shown)
    let gone = try #require(screen).gone.gone
    let release = Latch()
    screen?.with(
      store: subject.store.store(),
      props: { state, store in
        began.open()
        release.wait()
        made.add(state.root.count)
        return Self.props(state, store)
      }, presentationQueue: .serial(held))
    screen?.presenter?.subscribeToStore()
    await began.wait()
    screen = nil
    await gone.wait()
    release.open()
    try await subject.store.send(1)
    await subject.root.shutdown()
    #expect(made.all == [0], "those under way were made")
    #expect(shown.all == [])
  }

  @Test(arguments: Kind.allCases)
  func `connected again, it shows the new store, and nothing more of the old one`(kind: Kind) async throws {
    let (old, new) = (Subject(kind), Subject(kind))
    let (began, release) = (Gate(), Latch())
    let screen = Screen(until: 3)
    screen.with(
      store: old.store.store(),
      props: { state, store in
        began.open()
        release.wait()
        return Screen.Props(count: -1) {}
      }, presentationQueue: .serial(HeldExecutor()))
    screen.presenter?.subscribeToStore()
    await began.wait()
    for action in 1...3 { try await new.store.send(action) }
    screen.with(store: new.store.store(), props: Self.props)
    screen.presenter?.subscribeToStore()
    await screen.last.wait()
    release.open()
    try await old.store.send(1)
    await old.root.shutdown()
    await new.root.shutdown()
    #expect(screen.shown.all == [3])
  }

  @Test(arguments: Kind.allCases)
  func `two presenters of one store omit states by their own equality`(kind: Kind) async throws {
    let subject = Subject(kind)
    let (tens, fives) = (Screen(until: 20), Screen(until: 20))
    tens.with(
      store: subject.store.store(), props: Self.props, removeStateDuplicates: .equal { $0.root.count / 10 })
    fives.with(
      store: subject.store.store(), props: Self.props,
      removeStateDuplicates: .equal { $0.root.count / 5 } && .equal { $0.locals.count })
    tens.presenter?.subscribeToStore()
    fives.presenter?.subscribeToStore()
    for action in 1...22 { subject.store.dispatch(action) }
    await tens.last.wait()
    await fives.last.wait()
    await subject.root.shutdown()
    #expect(tens.shown.all == [0, 10, 20])
    #expect(fives.shown.all == [0, 5, 10, 15, 20])
  }

  @Test(arguments: Kind.allCases)
  func `subscribed again it shows the state now again, and unsubscribed nothing`(kind: Kind) async throws {
    let subject = Subject(kind)
    let screen = Screen(until: 2)
    screen.with(store: subject.store.store(), props: Self.props)
    screen.presenter?.subscribeToStore()
    screen.presenter?.subscribeToStore()
    for action in 1...2 { try await subject.store.send(action) }
    await screen.last.wait()
    #expect(screen.shown.all == [0, 1, 2])
    screen.presenter?.unsubscribeFromStore()
    try await subject.store.send(3)
    await subject.root.shutdown()
    #expect(screen.shown.all == [0, 1, 2])
  }

  @Test(arguments: [false, true])
  func `a store that owns its state is kept alive by its presenter`(isChild: Bool) async throws {
    let screen = Screen(until: 2)
    var root: RootStore<Int, Int>? = RootStore(initialState: 0) { $0 += $1 }
    let anchor = Weak(try #require(root))
    let props: @Sendable (Int, Store<Int, Int>) -> Screen.Props = { count, store in
      Screen.Props(count: count) { store.dispatch(1) }
    }
    if isChild {
      let child = try #require(root).childStore(initialState: 0, stateMapping: { $0 + $1 }, reducer: { _, _ in })
      screen.with(store: child, props: props)
    } else {
      screen.with(store: try #require(root), props: props)
    }
    root = nil
    screen.presenter?.subscribeToStore()
    #expect(anchor.object?.dispatch(1) == .enqueued)
    #expect(anchor.object?.dispatch(1) == .enqueued)
    await screen.last.wait()
    screen.props?.tap()
    screen.presenter = nil
    #expect(anchor.object == nil)
  }

  @Test(arguments: Kind.allCases)
  func `it keeps neither its store nor its presentable alive, and gets every published state`(kind: Kind)
    async throws
  {
    var subject: Subject? = Subject(kind)
    var screen: Screen? = Screen(until: 3)
    let (last, shown, gone) = (try #require(screen).last, try #require(screen).shown, try #require(screen).gone.gone)
    screen?.with(store: try #require(subject).store.store(), props: Self.props)
    screen?.presenter?.subscribeToStore()
    for action in 1...3 { subject?.store.dispatch(action) }
    subject = nil
    await last.wait()
    #expect(shown.all == [0, 1, 2, 3])
    screen = nil
    await gone.wait()
  }
}

private func isOnMainActor() -> Bool {
  DispatchQueue.getSpecific(key: mainKey) != nil
}

private let mainKey: DispatchSpecificKey<Void> = {
  let key = DispatchSpecificKey<Void>()
  DispatchQueue.main.setSpecific(key: key, value: ())
  return key
}()
