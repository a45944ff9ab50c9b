import PureduxTestSupport
import Testing

@testable import Puredux

/// Programs that call a tree at once, in the middle of a commit, isolated to the executor that the commit runs on. Each
/// call waits for its turn.
@Suite(.timeLimit(.minutes(15))) struct ReentryPrograms {
  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `an action that a reducer sends at once is committed after its own`(way: Way, start: Start) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) {
      trace, action in
      var reduced = trace
      if action == 1 { user.sends(2) }
      reduced.append(action)
      trace = reduced
    }
    user.holds(root)
    let states = root.states()
    try await start.give(1, to: root)
    #expect(await states.collect(3) == [[], [1], [1, 2]])
    #expect(await user.untilDone() == [[1, 2]])
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `an action that a state mapping sends at once is published after its own`(way: Way, start: Start) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) { $0.append($1) }
    user.holds(root)
    let child = root.childStore(
      initialState: 0,
      stateMapping: { trace, count in
        if trace == [1] { user.sends(2) }
        return trace + [count]
      }, reducer: { count, _ in count += 1 })
    let (roots, states) = (root.states(), child.states())
    try await start.give(1, to: child)
    #expect(await roots.collect(3) == [[], [1], [1, 2]])
    #expect(await states.collect(3) == [[0], [1, 1], [1, 2, 1]])
    #expect(await user.untilDone() == [[1, 2]])
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `an action that a scope sends at once is published after its own`(way: Way, start: Start) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) { $0.append($1) }
    user.holds(root)
    let scope = root.scope { trace in
      if trace == [1] { user.sends(2) }
      return trace.count
    }
    let (before, states, after) = (root.states(), scope.states(), scope.states(removeStateDuplicates: .equal))
    try await start.give(1, to: root)
    #expect(await before.collect(3) == [[], [1], [1, 2]])
    #expect(await states.collect(3) == [0, 1, 2])
    #expect(await after.collect(3) == [0, 1, 2])
    #expect(await user.untilDone() == [[1, 2]])
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `an action that middleware sends at once is handled after its own`(way: Way, start: Start) async throws {
    let user = User(way)
    let history = History<[Int], Int>(limit: 10)
    let sending = Middleware<[Int], Int> { action, context, next in
      if action == 1 { user.sends(2) }
      next(action)
      if action == 1 {
        user.sends(3)
        #expect(context.isCommitted)
        #expect(context.state == [1])
      }
    }
    let root = RootStore<[Int], Int>(
      initialState: [], options: StoreOptions(executor: user.executor), middleware: [sending], history: history
    ) { $0.append($1) }
    user.holds(root)
    let states = root.states()
    try await start.give(1, to: root)
    let got = await states.collect(4)
    #expect(got == [[], [1], [1, 2], [1, 2, 3]])
    let done = await user.untilDone()
    #expect(done == [[1, 2], [1, 2, 3]])
    #expect(history.entries.map(\.position) == [1, 2, 3])
    #expect(await root.statistics.commits == 3)
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `nobody reads a state that a reducer has not finished`(way: Way, start: Start) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) {
      trace, action in
      trace.append(action)
      user.reads()
      trace.append(action)
    }
    user.holds(root)
    try await start.give(1, to: root)
    _ = await root.state
    #expect(await user.untilDone() == [[1, 1]])
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `actions that each send the next at once are committed one after the other`(
    way: Way, start: Start
  ) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) {
      trace, action in
      if action < 2000 { user.sends(action + 1) }
      trace = [trace.count, action]
    }
    user.holds(root)
    let states = root.states(removeStateDuplicates: Equating { $1[1] != 2000 })
    try await start.give(1, to: root)
    #expect(await states.collect(2).last == [2, 2000])
    #expect(await user.untilDone().count == 1999)
    #expect(await root.statistics.commits == 2000)
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `actions that a reducer sends at once keep their order`(way: Way, start: Start) async throws {
    for _ in 0..<20 {
      let user = User(way)
      let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) {
        trace, action in
        if action == 1 {
          for next in 2...10 { user.sends(next) }
        }
        trace = trace + [action]
      }
      user.holds(root)
      let states = root.states()
      try await start.give(1, to: root)
      #expect(await states.collect(11).last == Array(1...10))
      let seen = await user.untilDone()
      #expect(seen == (2...10).map { Array(1...$0) })
      await root.shutdown()
    }
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `an action that a reducer sends at once is committed despite a shutdown right after`(
    way: Way, start: Start
  ) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) {
      trace, action in
      if action == 1 {
        user.dispatchesAndShutsDown(2, sending: 3)
        user.sends(4)
      }
      trace = trace + [action]
    }
    user.holds(root)
    let states = root.states()
    try await start.give(1, to: root)
    #expect(await states.collect() == [[], [1], [1, 2], [1, 2, 3]])
    #expect(await user.untilDone() == [[1, 2, 3]])
  }

  @Test @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `an action sent at once to a child is committed though the child is released right after`() async throws {
    let children = LockedValue<[StateStore<Int, Int>]>([])
    let sent = LockedValue<[Task<Int, any Error>]>([])
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: .mainActor)) { trace, action in
      trace.append(action)
      guard action == 1, let proxy = children.withLock({ $0.first?.store() }) else { return }
      let task = MainActor.assumeIsolated { Task.immediate { @MainActor in try await proxy.send(2) { $0 } } }
      sent.withLock { $0.append(task) }
      _ = children.withLock { children in
        defer { children = [] }
        return children
      }
      #expect(proxy.dispatch(3) == .terminated)
    }
    children.withLock { $0 = [root.childStore(initialState: 0, stateMapping: { $1 }) { count, _ in count += 1 }] }
    try await root.send(1)
    for task in sent.withLock({ $0 }) { #expect(try await task.value == 1) }
    #expect(await root.state == [1, 2])
    await root.shutdown()
  }

  /// The address of the elements, which are not read.
  private func place(of array: [Int]) -> Int {
    unsafe array.withUnsafeBufferPointer { Int(bitPattern: $0.baseAddress) }
  }

  /// As with every `reading:` closure, nothing else holds the state meanwhile, so no reducer copies it.
  @Test @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `a send at once reads the state in place`() async throws {
    let places = Record<Int>()
    let tasks = LockedValue<[Task<Void, any Error>]>([])
    let proxies = Record<Store<[Int], Int>>()
    let root = RootStore<[Int], Int>(initialState: Array(repeating: 0, count: 1000)) { state, action in
      state[action] += 1
      guard action == 0 else { return }
      for next in 1...100 {
        let task = Task.immediate {
          try await proxies.all[0].send(next) { [self] in places.add(place(of: $0)) }
        }
        tasks.withLock { $0.append(task) }
      }
    }
    proxies.add(root.store())
    let first = try await root.send(0) { [self] in place(of: $0) }
    for task in tasks.withLock({ $0 }) { try await task.value }
    #expect(places.all == Array(repeating: first, count: 100))
    await root.shutdown()
  }

  @Test(arguments: Way.allCases, Start.allCases)
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  func `a reducer may shut its own tree down at once, and actions dispatched before are committed`(
    way: Way, start: Start
  ) async throws {
    let user = User(way)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: user.executor)) {
      trace, action in
      let reduced = trace + [action]
      if action == 1 { user.dispatchesAndShutsDown(2) }
      trace = reduced
    }
    user.holds(root)
    let states = root.states()
    try await start.give(1, to: root)
    #expect(await states.collect() == [[], [1], [1, 2]])
    #expect(await user.untilDone() == [])
    #expect(root.dispatch(3) == .terminated)
  }

  /// The drain that a dispatch has scheduled waits after a send. The send first performs the dispatched action, whose
  /// reducer makes the executor run the waiting drain while there is work for it.
  @Test func `a drain that is run inside a commit does not disturb it`() async throws {
    let executor = ManualExecutor(isStepByStep: false)
    let proxies = Record<Store<[Int], Int>>()
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: .serial(executor))) {
      trace, action in
      let reduced = trace + [action]
      if action == 1 {
        proxies.all[0].dispatch(3)
        executor.run()
      }
      trace = reduced
    }
    let (states, proxy) = (root.states(), root.store())
    proxies.add(proxy)
    _ = await root.state
    await root.core.node.tree.untilIdle()
    await executor.untilIdle()
    executor.hold()
    let send = Task { try await proxy.send(2) { $0 } }
    await executor.untilWaiting(1)
    root.dispatch(1)
    await executor.untilWaiting(2)
    executor.letGo()
    #expect(try await send.value == [1, 2])
    #expect(await states.collect(4) == [[], [1], [1, 2], [1, 2, 3]])
    await root.shutdown()
  }

  @Test func `a send and a read that are run inside a commit wait for it`() async throws {
    let executor = ManualExecutor(isStepByStep: false)
    let root = RootStore<[Int], Int>(initialState: [], options: StoreOptions(executor: .serial(executor))) {
      trace, action in
      let reduced = trace + [action]
      if action == 1 { executor.run() }
      trace = reduced
    }
    let (states, proxy) = (root.states(), root.store())
    _ = await root.state
    await root.core.node.tree.untilIdle()
    await executor.untilIdle()
    executor.hold()
    root.dispatch(1)
    await executor.untilWaiting(1)
    let send = Task { try await proxy.send(2) { $0 } }
    await executor.untilWaiting(2)
    let read = Task { try await proxy.state }
    await executor.untilWaiting(3)
    executor.letGo()
    #expect(try await send.value == [1, 2])
    let got = try await read.value
    #expect(got == [1, 2])
    #expect(await states.collect(3) == [[], [1], [1, 2]])
    await root.shutdown()
  }

  /// How a program reaches the executor of its tree.
  enum Way: CaseIterable, Sendable {
    case mainActor, own, serial
  }

  /// Whether a drain or a visitor makes the first commit.
  enum Start: CaseIterable, Sendable {
    case dispatch, send

    func give(_ action: Int, to store: some StoreType<[Int], Int>) async throws {
      switch self {
      case .dispatch: store.dispatch(action)
      case .send: try await store.send(action)
      }
    }
  }

  /// Calls a tree from tasks that run at once, and records the states that they saw.
  @available(macOS 26, iOS 26, tvOS 26, watchOS 26, visionOS 26, *)
  final class User: Sendable {
    private struct Weakly: Sendable {
      weak var root: RootStore<[Int], Int>?
    }
    private let way: Way
    private let held = HeldExecutor()
    private let store = LockedValue(Weakly())
    private let tasks = LockedValue<[Task<[Int]?, Never>]>([])

    init(_ way: Way) { self.way = way }

    var executor: StoreExecutor {
      switch way {
      case .mainActor: .mainActor
      case .own: .own
      case .serial: .serial(held)
      }
    }

    func holds(_ root: RootStore<[Int], Int>) { store.withLock { $0.root = root } }

    func sends(_ action: Int) {
      guard let root = store.withLock({ $0.root }) else { return }
      let task =
        if way == .mainActor {
          MainActor.assumeIsolated { Task.immediate { @MainActor in try? await root.send(action) { $0 } } }
        } else {
          root.assumeIsolated { root in Task.immediate { try? await root.send(action) { $0 } } }
        }
      tasks.withLock { $0.append(task) }
    }

    func reads() {
      guard let root = store.withLock({ $0.root }) else { return }
      let task: Task<[Int]?, Never> =
        if way == .mainActor {
          MainActor.assumeIsolated { Task.immediate { @MainActor in await root.state } }
        } else {
          root.assumeIsolated { root in Task.immediate { await root.state } }
        }
      tasks.withLock { $0.append(task) }
    }

    func dispatchesAndShutsDown(_ action: Int, sending other: Int? = nil) {
      guard let root = store.withLock({ $0.root }) else { return }
      root.dispatch(action)
      if let other { sends(other) }
      let task: Task<[Int]?, Never> =
        if way == .mainActor {
          MainActor.assumeIsolated {
            Task.immediate { @MainActor in
              await root.shutdown()
              return nil
            }
          }
        } else {
          root.assumeIsolated { root in
            Task.immediate {
              await root.shutdown()
              return nil
            }
          }
        }
      tasks.withLock { $0.append(task) }
    }

    /// The states that the tasks saw, in the order in which the tasks were made.
    func untilDone() async -> [[Int]] {
      var seen: [[Int]] = []
      var done = 0
      while let task = tasks.withLock({ $0.dropFirst(done).first }) {
        if let trace = await task.value { seen.append(trace) }
        done += 1
      }
      return seen
    }
  }
}
