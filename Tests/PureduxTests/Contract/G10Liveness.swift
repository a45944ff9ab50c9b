import Puredux
import PureduxTestSupport
import Testing

/// Code that a tree calls may dispatch to that tree.
@Suite(.timeLimit(.minutes(15)), .serialized) struct G10Liveness {
  @Test(arguments: Kind.allCases)
  func `a reducer that dispatches to its own tree is served later in the order`(kind: Kind) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let subject = Subject(kind, reducing: { if $0 < 10 { proxies.all[0].dispatch($0 * 10) } })
    proxies.add(subject.store.store())
    let states = subject.states()
    try await subject.store.send(1)
    #expect(await states.collect(3).map(\.root.last) == [0, 1, 10])
  }

  @Test(arguments: Kind.allCases)
  func `a mapping and a filter that dispatch to their own tree are served later in the order`(kind: Kind) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let subject = Subject(kind)
    proxies.add(subject.store.store())
    let scope = subject.store.scope { snapshot in
      if snapshot.root.last == 1 { proxies.all[0].dispatch(2) }
      return snapshot.root.last
    }
    let filtered = scope.states(
      removeStateDuplicates: Equating { _, new in
        if new == 2 { proxies.all[0].dispatch(3) }
        return false
      })
    subject.store.dispatch(1)
    #expect(await filtered.collect(4) == [0, 1, 2, 3])
  }

  @Test(arguments: Kind.allCases)
  func `a state mapping may dispatch to its own tree`(kind: Kind) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let subject = Subject(kind)
    proxies.add(subject.store.store())
    let child = subject.root.childStore(
      initialState: 0,
      stateMapping: { snapshot, _ in
        if snapshot.root.last == 1 { proxies.all[0].dispatch(2) }
        return snapshot.root.last
      }, reducer: { _, _ in })
    let states = child.states()
    subject.store.dispatch(1)
    #expect(await states.collect(3) == [0, 1, 2])
  }

  /// The publication that replaces a state in a stalled subscriber's buffer releases it outside every lock.
  @Test func `a state that dispatches to its own tree when it is released is served`() async throws {
    let log = Record<Int>()
    let proxies = Record<Store<Farewell, Int>>()
    let root = RootStore<Farewell, Int>(initialState: Farewell(nil), interceptors: .recording(log)) { state, action in
      if action == 1 { state = Farewell(proxies.all[0]) }
    }
    proxies.add(root.store())
    let stalled = root.states(bufferingPolicy: .bufferingNewest(1))
    for _ in 0..<10 { try await root.send(1) }
    _ = await root.state
    #expect(log.all.filter { $0 == 2 }.count == 9)
    withExtendedLifetime(stalled) {}
  }
}

/// A state that dispatches when it is released.
private final class Farewell: Sendable {
  private let proxy: Store<Farewell, Int>?
  init(_ proxy: Store<Farewell, Int>?) { self.proxy = proxy }
  deinit { proxy?.dispatch(2) }
}
