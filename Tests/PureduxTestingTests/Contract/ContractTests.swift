import Puredux
import PureduxTestSupport
import PureduxTesting
import Testing

/// Stores that keep the contract pass. For other stores, the violation is named.
@Suite(.timeLimit(.minutes(15))) struct ContractTests {
  @Test(arguments: Fault.allCases) func `each fault of a store is found under its name`(fault: Fault) async {
    let (stalled, limits) = (Gate(), ManualClock())
    var clock: any Clock<Duration> = ContinuousClock()
    if fault.stalls { clock = limits }
    await WaitingClock.$current.withValue(clock) {
      await expectFailure {
        async let check: Void = checkDeliveryContract(
          of: {
            let store = BrokenStore(fault, stalled: stalled)
            return StoreUnderTest(store) { await store.end() }
          },
          intercepted: {
            let store = BrokenStore(fault, with: $0, stalled: stalled)
            return StoreUnderTest(store) { await store.end() }
          }, given: [1, 2, 3], within: .seconds(280)
        ) { $0.append($1) }
        if fault.stalls {
          await stalled.wait()
          await limits.passes(.seconds(280))
        }
        await check
      } matching: { failure in
        failure.text.hasPrefix(fault.guarantee)
      }
    }
  }

  @Test func `the report on a store`() async {
    func issue(_ fault: Fault, _ text: String) async {
      await expectFailure {
        await checkDeliveryContract(
          of: {
            let store = BrokenStore(fault, stalled: Gate())
            return StoreUnderTest(store) { await store.end() }
          }, given: [1, 2, 3], within: .seconds(280)
        ) { $0.append($1) }
      } matching: {
        $0.says(text)
      }
    }
    await issue(
      .takesAfterTheEnd,
      "G9 Nothing lost in silence: After the end `dispatch` returns .enqueued, and not .terminated.")
    await issue(.losesSends, "G9 Nothing lost in silence: 1 was accepted and not committed: [1]: missing 1")
    await issue(
      .leavesOutTheFirst,
      "G5 The first element: The first element is not the state at its subscription: [0][0]: unexpected 1")
  }

  @Test(arguments: [Fault.losesSends, .leavesOutTheFirst, .deliversAfterTheEnd])
  func `a store that breaks the contract is shut down`(fault: Fault) async {
    let made = Record<BrokenStore>()
    await expectFailure {
      await checkDeliveryContract(
        of: {
          let store = BrokenStore(fault, stalled: Gate())
          made.add(store)
          return StoreUnderTest(store) { await store.end() }
        }, given: [1, 2, 3]
      ) { $0.append($1) }
    }
    for store in made.all { #expect(store.base.dispatch(1) == .terminated) }
  }

  enum Kind: CaseIterable {
    case root, onMain, onAnExecutor, proxy, scope, projection, child, grandchild, wrapped

    func make(with interceptor: Interceptor<[Int], Int> = Interceptor(combining: [])) -> StoreUnderTest<[Int], Int> {
      let executor: StoreExecutor =
        switch self {
        case .onMain: .mainActor
        case .onAnExecutor: .serial(ManualExecutor())
        default: .own
        }
      let isChild = self == .child || self == .grandchild
      let root = RootStore<[Int], Int>(
        initialState: [], options: StoreOptions(executor: executor),
        interceptors: isChild ? Interceptor(combining: []) : interceptor
      ) { $0.append($1) }
      let end: @Sendable () async -> Void = { await root.shutdown() }
      switch self {
      case .root, .onMain, .onAnExecutor: return StoreUnderTest(root)
      case .proxy: return StoreUnderTest(root.store(), end: end)
      case .scope: return StoreUnderTest(root.scope { $0 }, end: end)
      case .projection: return StoreUnderTest(root.projection(action: { $0 }, state: { $0 }), end: end)
      case .child: return StoreUnderTest(Self.child(of: root, with: interceptor))
      case .grandchild: return StoreUnderTest(Self.child(of: Self.child(of: root), with: interceptor))
      case .wrapped:
        // Any store that is a proxy of another one.
        return StoreUnderTest(Wrapped(root: root), end: end)
      }
    }

    private static func child(
      of parent: some StoreParent<[Int], Int>, with interceptor: Interceptor<[Int], Int> = Interceptor(combining: [])
    ) -> StateStore<[Int], Int> {
      parent.childStore(
        initialState: 0, stateMapping: { states, _ in states }, interceptors: interceptor, reducer: { $0 += $1 })
    }
  }

  private struct Wrapped: StoreType {
    typealias State = [Int]
    typealias Action = Int
    let root: RootStore<[Int], Int>
    func store() -> Store<[Int], Int> { root.store() }
    var state: [Int] { get async throws(StoreError) { await root.state } }
  }

  @Test(arguments: Kind.allCases) func `every kind of store keeps the contract`(kind: Kind) async {
    await checkDeliveryContract(
      of: { kind.make() }, intercepted: { kind.make(with: $0) }, given: [1, 2, 3], within: .seconds(280)
    ) { $0.append($1) }
  }

  @Test func `a check without actions, and one without a store`() async {
    await expectFailure {
      await checkDeliveryContract(of: { Kind.root.make() }, given: []) { $0.append($1) }
    } matching: {
      $0.says("The contract cannot be checked without actions.")
    }
    await expectFailure {
      await checkDeliveryContract(of: Self.makeNone, given: [1]) { $0.append($1) }
    } matching: {
      $0.says("G10 Liveness: it throws CancellationError().")
    }
  }

  @Sendable private static func makeNone() async throws -> StoreUnderTest<[Int], Int> { throw CancellationError() }

  @Test func `a reducer with another effect is found`() async {
    await expectFailure {
      await checkDeliveryContract(of: { Kind.root.make() }, given: [1, 2]) { $0.append(-$1) }
    } matching: {
      $0.text.hasPrefix("G1 One order: The state is not that after the actions in their order")
    }
  }
}
