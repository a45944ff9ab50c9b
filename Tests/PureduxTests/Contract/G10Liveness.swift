import Foundation
import Puredux
import Testing

/// Under a flood reads and sends still come through; whoever is called by a tree may dispatch to it.
@Suite(.timeLimit(.minutes(15)), .serialized) struct G10Liveness {
  /// The inbox is never empty, as the producers are always a thousand actions ahead; a bound to that keeps the test
  /// small.
  @Test(arguments: Kind.allCases)
  func `a flood comes through by itself, also when there were sends and reads before it`(kind: Kind) async throws {
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    try await subject.store.send(1)
    _ = try await subject.store.state
    let states = subject.states(bufferingPolicy: .bufferingNewest(1))
    executor.hold()
    for action in 2...5000 { subject.store.dispatch(action) }
    executor.letGo()
    #expect(await states.collect { $0.root.last == 5000 }.last?.root.count == 5000)
  }

  @Test(arguments: Kind.allCases, [TaskPriority.background, .medium, .high])
  func `sends and reads of any priority come through a flood`(kind: Kind, priority: TaskPriority) async throws {
    let reduced = Counter()
    let isDone = Flag()
    let subject = Subject(kind, reducing: { _ in reduced.increment() })
    // On threads of their own: the readers shall have to do with the tree's fairness, not with that of the thread pool.
    let producers = (0..<2).map { DispatchQueue(label: "producer \($0)") }
    let given = Counter()
    for producer in producers {
      producer.async {
        while !isDone.isRaised {
          if given.count - reduced.count < 1000 {
            given.increment()
            subject.store.dispatch(1)
          } else {
            sched_yield()
          }
        }
      }
    }
    await Task(priority: priority) {
      for _ in 0..<5 {
        _ = try? await subject.store.send(1) { $0.root.count }
        _ = try? await subject.store.state
      }
    }.value
    isDone.raise()
    for producer in producers { producer.sync {} }
  }

  /// A tree that feeds itself: every action dispatches the next one, so that its inbox is never empty.
  @Test(arguments: Kind.allCases)
  func `sends and reads come through a tree that never stops by itself`(kind: Kind) async throws {
    let proxies = Record<Store<Snapshot, Int>>()
    let isDone = Flag()
    let subject = Subject(
      kind,
      reducing: { action in
        if action == 1, !isDone.isRaised { proxies.all[0].dispatch(1) }
      })
    proxies.add(subject.store.store())
    subject.store.dispatch(1)
    for _ in 0..<20 {
      #expect(try await subject.store.send(2) { $0.root.last } == 2)
      _ = try await subject.store.state
    }
    isDone.raise()
  }

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

  /// A state goes where a publication replaces it in a stalled subscriber's buffer: outside every lock.
  @Test func `a state that dispatches to its own tree when it goes is served`() async throws {
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

/// Dispatches when it goes.
private final class Farewell: Sendable {
  private let proxy: Store<Farewell, Int>?
  init(_ proxy: Store<Farewell, Int>?) { self.proxy = proxy }
  deinit { proxy?.dispatch(2) }
}
