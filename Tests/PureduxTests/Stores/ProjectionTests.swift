import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ProjectionTests {
  enum ViewAction: Sendable {
    case count(Int)
    case tap
  }

  @Test(arguments: Kind.allCases)
  func `states are mapped down and actions up, and an unmapped action is reported and changes nothing`(kind: Kind)
    async throws
  {
    let subject = Subject(kind)
    let projection = subject.store.projection(
      action: { (action: ViewAction) -> Int? in if case .count(let number) = action { number } else { nil } },
      state: { "\($0.root.count): \($0.root.last)" })
    let states = projection.states()
    #expect(projection.dispatch(.count(5)) == .enqueued)
    #expect(projection.dispatch(.tap) == .unmapped)
    await #expect(throws: StoreError.unmapped) { try await projection.send(.tap) }
    await #expect(throws: StoreError.unmapped) { try await projection.send(.tap) { $0 } }
    try await projection.send(.count(6))
    #expect(try await projection.send(.count(7)) { $0 } == "3: 7")
    #expect(try await projection.state == "3: 7")
    #expect(projection.id == subject.store.id)
    await subject.root.shutdown()
    #expect(await states.collect() == ["0: 0", "1: 5", "2: 6", "3: 7"])
    #expect(projection.dispatch(.count(8)) == .terminated)
    #expect(projection.dispatch(.tap) == .unmapped)
    await #expect(throws: StoreError.terminated) { try await projection.send(.count(8)) }
    await #expect(throws: StoreError.terminated) { try await projection.send(.count(8)) { $0 } }
    await #expect(throws: StoreError.terminated) { try await projection.state }
  }

  @Test(arguments: Kind.allCases)
  func `a projection of a projection maps twice`(kind: Kind) async throws {
    let subject = Subject(kind)
    let inner = subject.store.projection(action: { $0 < 100 ? $0 + 1 : nil }, state: { $0.root })
    let outer = inner.projection(action: { (text: String) in Int(text) }, state: { "\($0.last)" })
    #expect(outer.dispatch("1") == .enqueued)
    #expect(outer.dispatch("100") == .unmapped)
    #expect(outer.dispatch("x") == .unmapped)
    await #expect(throws: StoreError.unmapped) { try await outer.send("100") { $0 } }
    #expect(try await outer.send("7") { $0 } == "8")
    #expect(try await subject.store.state == subject.expected(after: [2, 8]))
  }

  @Test(arguments: Kind.allCases)
  func `a projection of an optional scope takes actions while there is no state`(kind: Kind) async throws {
    let subject = Subject(kind)
    let even = subject.store.scope(toOptional: { $0.root.last.isMultiple(of: 2) ? $0.root.last : nil })
    let projection = even.projection(action: { (text: String) in Int(text) }, state: { "\($0)" })
    let states = projection.states()
    projection.dispatch("1")
    await #expect(throws: StoreError.stateUnavailable) { try await projection.state }
    await #expect(throws: StoreError.stateUnavailable) { try await projection.send("3") { $0 } }
    #expect(try await projection.send("4") { $0 } == "4")
    #expect(projection.dispatch("four") == .unmapped)
    projection.dispatch("5")
    projection.dispatch("6")
    await subject.root.shutdown()
    #expect(await states.collect() == ["0", "4", "6"])
  }

  @Test(arguments: Kind.allCases)
  func `it maps in the call, and so keeps the caller's order across proxies`(kind: Kind)
    async throws
  {
    let executor = HeldExecutor()
    let subject = Subject(kind, executor: .serial(executor))
    let mapped = Record<Int>()
    let projection = subject.store.projection(
      action: { (action: Int) in
        mapped.add(action)
        return action
      }, state: { $0 })
    let states = projection.states()
    executor.hold()
    for action in 1...10 {
      if action.isMultiple(of: 2) { projection.dispatch(action) } else { subject.store.dispatch(action) }
    }
    #expect(mapped.all == [2, 4, 6, 8, 10])
    executor.letGo()
    await subject.root.shutdown()
    #expect(await states.collect() == subject.expectedStates(during: Array(1...10)))
  }

  @Test(arguments: Kind.allCases)
  func `its mapping of states is called once a commit for all followers`(kind: Kind) async throws {
    let subject = Subject(kind)
    let asked = Record<Int>()
    let projection = subject.store.projection(
      action: { (action: Int) in action },
      state: { state in
        asked.add(state.root.count)
        return state.root.count
      })
    let sequences = (0..<10).map { _ in projection.states() }
    try await projection.send(1)
    #expect(asked.all.filter { $0 == 1 }.count == 1)
    await subject.root.shutdown()
    for states in sequences { #expect(await states.collect() == [0, 1]) }
  }

  @Test(arguments: Kind.allCases)
  func `an interceptor dispatches to the underlying store, with that store's actions`(kind: Kind) async throws {
    let subject = Subject(kind, interceptors: Interceptor(where: { $0 == 1 }) { _, dispatch in dispatch(2) })
    let projection = subject.store.projection(action: { (text: String) in Int(text) }, state: { $0 })
    let states = projection.states()
    projection.dispatch("1")
    #expect(await states.collect(3) == subject.expectedStates(during: [1, 2]))
  }
}
