import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// A recorder gets exactly the states of any kind of store, and describes unexpected ones.
@Suite(.timeLimit(.minutes(15))) struct RecorderTests {
  struct Count: Sendable, Equatable {
    var count = 0
    var name = "a"
  }

  /// Adds up the actions. An effect adds actions above a hundred a second later.
  static func root(_ clock: ManualClock = ManualClock()) -> RootStore<Count, Int> {
    RootStore(
      initialState: Count(), options: StoreOptions(clock: clock),
      interceptors: .effects { action, _ in
        action > 100 ? .run { $0(action - 100) }.after(.seconds(1)).id("later", .concurrent(limit: .max)) : nil
      }
    ) { state, action in
      if action < 100 { state.count += action }
    }
  }

  enum Kind: CaseIterable {
    case root, proxy, scope, selected, projection, child, scopeOfChild

    func store(of root: RootStore<Count, Int>) -> (any StoreType<Count, Int>, owner: (any Sendable)?) {
      switch self {
      case .root: (root, nil)
      case .proxy: (root.store(), nil)
      case .scope: (root.scope { $0 }, nil)
      case .selected: (root.scope(to: \.self), nil)
      case .projection: (root.projection(action: { $0 }, state: { $0 }), nil)
      case .child, .scopeOfChild: child(of: root)
      }
    }

    private func child(of root: RootStore<Count, Int>) -> (any StoreType<Count, Int>, owner: (any Sendable)?) {
      let child = root.childStore(initialState: 0, stateMapping: { root, _ in root }, reducer: { $0 += $1 })
      return (self == .child ? child : child.scope { $0 }, child)
    }
  }

  private func counts(_ counts: Int...) -> [Count] { counts.map { Count(count: $0) } }

  @Test func `equal states can be left out`() async {
    let store = RootStore<(text: String, count: Int), Int>(initialState: ("a", 0)) { state, count in
      state.count = count
      if count == 2 { state.text = "b" }
    }
    let text = store.scope { $0.text }
    let (all, changes) = (text.record(), text.record(removeStateDuplicates: .equal))
    for count in 1...3 { store.dispatch(count) }
    await all.expectOnly("a", "a", "b", "b")
    await changes.expectOnly("a", "b")
    await store.shutdown()
  }

  @Test(arguments: Kind.allCases) func `states of every kind of store, in order and without gaps`(kind: Kind)
    async throws
  {
    let root = Self.root()
    let (store, owner) = kind.store(of: root)
    let states = store.record()
    store.dispatch(1)
    try await store.send(2)
    root.dispatch(3)
    await states.expect(contentsOf: counts(0, 1))
    #expect(await states.next() == Count(count: 3))
    await states.expectOnly(contentsOf: counts(6))
    await states.expectOnly(contentsOf: [])
    await root.shutdown()
    await states.expectEnd()
    withExtendedLifetime(owner) {}
  }

  @Test(arguments: Kind.allCases) func `a missing state is reported at once`(kind: Kind) async throws {
    let clock = ManualClock()
    let root = Self.root(clock)
    let (store, owner) = kind.store(of: root)
    let states = store.record()
    await states.expect(contentsOf: counts(0))
    await expectFailure {
      await states.next()
    } matching: {
      $0.says("No state comes: the store is at rest.")
    }
    store.dispatch(101)
    store.dispatch(102)
    await states.expect(contentsOf: counts(0, 0))
    await expectFailure {
      await states.expect(contentsOf: counts(1))
    } matching: {
      $0.says(
        #"Expected the next state, Count(count: 1, name: "a"), and none comes: the store is at rest. These effects wait: "later" (2)."#
      )
    }
    await expectFailure {
      await states.expectEnd()
    } matching: {
      $0.says(#"The end does not come: the store is at rest. These effects wait: "later" (2)."#)
    }
    await clock.advance(by: .seconds(1), settling: root)
    await states.next { $0.count == 3 }
    await root.shutdown()
    await expectFailure {
      await states.next()
    } matching: {
      $0.says("No state comes: the store has ended.")
    }
    withExtendedLifetime(owner) {}
  }

  @Test func `differences are shown`() async throws {
    let root = Self.root()
    let states = root.record()
    for action in [1, 2, 3] { root.dispatch(action) }
    await expectFailure {
      await states.expect(contentsOf: counts(0, 1, 4))
    } matching: {
      $0.says("State 3 of 3 is not as expected.\n  count: expected 4, is 3")
    }
    await expectFailure {
      await states.expectOnly(contentsOf: counts(6, 7))
    } matching: {
      $0.says(
        #"The states are not exactly those that were expected."# + "\n" + #"  [1]: missing Count(count: 7, name: "a")"#)
    }
    root.dispatch(1)
    await expectFailure {
      await states.next { $0.count == 100 }
    } matching: {
      $0.says(
        "No such state comes: the store is at rest.\n" + #"  1 others came, the last: Count(count: 7, name: "a")"#)
    }
    root.dispatch(1)
    await root.shutdown()
    await expectFailure {
      await states.expectEnd()
    } matching: {
      $0.says("The end has not come: there are states before it.\n" + #"  Count(count: 8, name: "a")"#)
    }
  }

  @Test func `a running effect is waited for`() async throws {
    let gate = Gate(isWork: true)
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptor: { action, dispatch in
        if action == 1 {
          await gate.wait()
          dispatch(2)
        }
      }
    ) { $0 = $1 }
    let states = root.record()
    root.dispatch(1)
    await states.expect(0, 1)
    async let next = states.next()
    gate.open()
    #expect(await next == 2)
    await root.shutdown()
  }

  @Test func `an endless effect delays a test only up to the limit`() async throws {
    let root = RootStore<Int, Int>(
      initialState: 0, interceptors: .effects { _, _ in .run { _ in await untilCancelled() }.id("endless") }
    ) { $0 = $1 }
    let (states, limits) = (root.record(limit: .seconds(3)), ManualClock())
    root.dispatch(1)
    await WaitingClock.$current.withValue(limits) {
      await states.expect(0, 1)
      await expectFailure {
        async let next = states.next()
        await limits.passes(.seconds(3))
        #expect(await next == nil)
      } matching: {
        $0.says(#"No state comes: after 3.0 seconds it is not at rest. These effects have not ended: "endless"."#)
      }
    }
    await root.shutdown()
  }

  @Test func `a stopped tree does not delay a test, either`() async throws {
    let executor = ManualExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 = $1 }
    executor.hold()
    let (states, limits) = (root.record(limit: .seconds(3)), ManualClock())
    await WaitingClock.$current.withValue(limits) {
      await expectFailure {
        async let next = states.next()
        await limits.passes(.seconds(3))
        // The tree, which is stopped, cannot name the running effects either.
        await limits.passes(.seconds(1))
        #expect(await next == nil)
      } matching: {
        $0.says(
          "No state comes: after 3.0 seconds it is not at rest. The tree could not be asked for its effects.")
      }
      executor.letGo()
      await states.expect(0)
    }
    await root.shutdown()
  }

  @Test func `the record of a stopped tree is not mistaken for complete`() async throws {
    let executor = ManualExecutor()
    let root = RootStore<Int, Int>(initialState: 0, options: StoreOptions(executor: .serial(executor))) { $0 = $1 }
    let (states, limits) = (root.record(limit: .seconds(3)), ManualClock())
    await WaitingClock.$current.withValue(limits) {
      await states.expectOnly(0)
      executor.hold()
      root.dispatch(1)
      for states in [states, root.record(limit: .seconds(3))] {
        await expectFailure {
          async let check: Void = states.expectOnly(contentsOf: [])
          await limits.passes(.seconds(3))
          await check
        } matching: {
          $0.says("After 3.0 seconds the tree has not committed every request.")
        }
      }
      let cancelled = Task { await states.expectOnly(9) }
      cancelled.cancel()
      await cancelled.value
      executor.letGo()
      await states.expectOnly(1)
    }
    await root.shutdown()
  }

  @Test func `effects that dispatch endlessly delay a test only up to the limit`() async throws {
    let root = RootStore<Int, Int>(initialState: 0, interceptors: .effects { _, _ in .run { $0(1) } }) { $0 += $1 }
    let (states, limits) = (root.record(limit: .seconds(3)), ManualClock())
    root.dispatch(1)
    await WaitingClock.$current.withValue(limits) {
      await expectFailure {
        async let next = states.next { $0 < 0 }
        await limits.passes(.seconds(3))
        #expect(await next == nil)
      } matching: {
        $0.text.hasPrefix("No such state comes: after 3.0 seconds it is not at rest.")
      }
      await expectFailure {
        async let end: Void = states.expectEnd()
        await limits.passes(.seconds(3))
        await end
      } matching: {
        $0.text.hasPrefix("The end has not come: there are states before it.")
      }
    }
    await root.shutdown()
  }

  @Test func `of many states before the end, the first are shown`() async throws {
    let root = Self.root()
    let states = root.record()
    for _ in 1...10 { root.dispatch(1) }
    await root.shutdown()
    await expectFailure {
      await states.expectEnd()
    } matching: {
      $0.text.hasSuffix("\n  Count(count: 7, name: \"a\")\n  and 3 more")
    }
  }

  @Test func `with patience, other tasks may dispatch while the store is at rest`() async throws {
    let root = Self.root()
    let states = root.record()
    await states.expect(contentsOf: counts(0))
    async let next = states.next(within: .seconds(100))
    root.dispatch(5)
    #expect(await next == Count(count: 5))
    await WaitingClock.$current.withValue(ManualClock()) {
      await expectFailure {
        async let next = states.next(within: .seconds(5))
        await (WaitingClock.current as? ManualClock)?.passes(.seconds(5))
        #expect(await next == nil)
      } matching: {
        $0.says("No state comes: none has come within 5.0 seconds.")
      }
    }
    await root.shutdown()
  }

  @Test func `a store that is released ends, and a recorder does not hold it`() async throws {
    var root: RootStore<Count, Int>? = Self.root()
    let released = Weak(root!)
    let states = root!.record()
    root!.dispatch(1)
    root = nil
    await states.expect(contentsOf: counts(0, 1))
    await states.expectEnd()
    #expect(released.object == nil)
  }

  @Test func `a recorder that is stopped gets nothing more`() async throws {
    let root = Self.root()
    let states = root.record()
    root.dispatch(1)
    states.stop()
    states.stop()
    root.dispatch(2)
    try await root.send(3)
    await states.expectOnly(contentsOf: counts(0, 1))
    await root.shutdown()
  }

  @Test func `an optional scope, and a store that emits differences`() async throws {
    let root = RootStore<Int, Int>(initialState: 0, emits: .whenDifferent) { $0 = $1 }
    let positive = root.scope(toOptional: { $0 > 0 ? $0 : nil }).record()
    let all = root.record()
    for state in [0, 1, 1, 2, -1, 3] { root.dispatch(state) }
    await all.expectOnly(0, 1, 2, -1, 3)
    await positive.expectOnly(1, 2, 3)
    await root.shutdown()
  }

  @Test func `several tasks share the states`() async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let states = root.record()
    for action in 1...999 { root.dispatch(action) }
    let read = Record<Int>()
    await withDiscardingTaskGroup { tasks in
      for _ in 1...4 {
        tasks.addTask { for _ in 1...250 { if let state = await states.next() { read.add(state) } } }
      }
    }
    #expect(read.all.sorted() == Array(0...999))
    await root.shutdown()
  }

  @Test func `an effect records its own store`() async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let seen = Record<Int>()
    let store = root.store()
    root.interceptActions(
      with: .effects { action, _ in
        guard action == 1 else { return nil }
        return .run { dispatch in
          let states = store.record()
          dispatch(2)
          for state in [await states.next(), await states.next()] { seen.add(state ?? -1) }
        }
      })
    root.dispatch(1)
    await root.settled()
    #expect(seen.all == [1, 2])
    await root.shutdown()
  }

  @Test func `a reader that is cancelled reports nothing`() async throws {
    let root = RootStore<Int, Int>(initialState: 0, interceptor: { _, _ in await untilCancelled() }) { $0 = $1 }
    let states = root.record()
    root.dispatch(1)
    await states.expect(0, 1)
    let reader = Task { await states.next() }
    reader.cancel()
    #expect(await reader.value == nil)
    await root.shutdown()
  }

  @Test func `a stopped recorder does not mistake that for the end of the store`() async throws {
    let root = RootStore<Int, Int>(initialState: 0) { $0 = $1 }
    let states = root.record()
    await states.expect(0)
    states.stop()
    await expectFailure {
      await states.expectEnd()
    } matching: {
      $0.says("The end does not come: recording was stopped.")
    }
    await root.shutdown()
  }
}
