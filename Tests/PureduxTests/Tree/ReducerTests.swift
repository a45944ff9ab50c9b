import Puredux
import PureduxTestSupport
import Testing

@Suite(.timeLimit(.minutes(15))) struct ReducerTests {
  static let add = Reducer<Int, Int>("add") { $0 += $1 }
  static let double = Reducer<Int, Int>("double") { state, _ in state *= 2 }
  static let square = Reducer<Int, Int> { state, _ in state *= state }

  @Test func `several reducers run in order, each on the result of the previous ones`() async throws {
    let store = RootStore(initialState: 1, reducers: [Self.add, Self.double, Self.square])
    let states = store.states()
    #expect(try await store.send(2) { $0 } == 36)
    #expect(await states.collect(2) == [1, 36], "and nobody sees what is between")
  }

  @Test func `a reducer is a function, and several are one`() {
    let all = Reducer(combining: [Self.add, Reducer(combining: [Self.double, Self.square]), Reducer(combining: [])])
    var state = 1
    all.reduce(&state, 2)
    #expect(state == 36)
    let none = Reducer<Int, Int>(combining: [])
    none.reduce(&state, 1)
    #expect(state == 36)
    #expect(Self.add.name == "add")
    #expect(Self.square.name == nil)
  }

  @Test func `a child's reducers run in order, and before its parent's`() async throws {
    let order = Record<String>()
    func note<State>(_ name: String) -> Reducer<State, Int> { Reducer(name) { _, _ in order.add(name) } }
    let root = RootStore(initialState: 0, reducers: [note("root 1"), note("root 2")])
    let child = root.childStore(
      initialState: 0, reducers: [note("child 1"), note("child 2")], stateMapping: { ($0, $1) })
    let mapped = child.childStore(initialState: 0, reducers: [note("grandchild")], stateMapping: { $1 })
    try await mapped.send(1)
    #expect(order.all == ["grandchild", "child 1", "child 2", "root 1", "root 2"])
  }

  @Test func `a factory takes several, and makes children with several`() async throws {
    let factory = StoreFactory(initialState: 1, reducers: [Self.add, Self.double])
    let child = factory.childStore(
      initialState: 1, reducers: [Self.add, Self.square], stateMapping: { ($0, $1) })
    let state = try await child.send(2) { $0 }
    #expect(state == (6, 9))
    let sum = try await withStore(initialState: 1, reducers: [Self.add, Self.double]) { store in
      try await store.send(2) { $0 }
    }
    #expect(sum == 6)
  }
}
