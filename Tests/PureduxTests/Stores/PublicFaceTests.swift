import PureduxTestSupport
import Testing

@testable import Puredux

/// The consistency of the public interface, and the operations of generic code on stores.
@Suite(.timeLimit(.minutes(15))) struct PublicFaceTests {
  struct Hotel: Sendable {
    var rooms = ["lobby": 1]
    let looks = Record<Int>()
    var lobby: Int? { rooms["lobby"] }
    var count: Int {
      looks.add(rooms.count)
      return rooms.count
    }
  }

  /// The states of a `Store<Int?, Int>` include nil. A store made with `toOptional:` waits until there is a value.
  @Test func `a closure without a label keeps nil`() async throws {
    let factory = StoreFactory<Hotel, Int>(initialState: Hotel()) { hotel, number in
      hotel.rooms["lobby"] = number > 0 ? number : nil
    }
    let root = factory.root
    let all: [StateSequence<Int?>] = [
      factory.scopeStore { $0.rooms["lobby"] }.states(), root.scope { $0.rooms["lobby"] }.states(),
      root.store().scope { $0.lobby }.states(), root.scope(to: \.lobby).states(),
    ]
    let present: StateSequence<Int> = root.scope(toOptional: { $0.lobby }).states()
    for number in [0, 2] { try await root.send(number) }
    for states in all { #expect(await states.collect(3) == [1, nil, 2]) }
    #expect(await present.collect(2) == [1, 2])
  }

  @Test func `a factory's scope by a key path is the root store's, computed once a commit for both`() async throws {
    let factory = StoreFactory<Hotel, Int>(initialState: Hotel()) { hotel, number in hotel.rooms["\(number)"] = number }
    let looks = await factory.root.state.looks
    let both: [StateSequence<Int>] = [
      factory.scopeStore(to: \.count).states(), factory.root.scope(to: \.count).states(),
    ]
    try await factory.root.send(1)
    let before = looks.all.count
    try await factory.root.send(2)
    #expect(looks.all.count == before + 1)
    for states in both { #expect(await states.collect(3) == [1, 2, 3]) }
  }

  @Test func `a factory's scope at a key is the root store's`() async throws {
    let factory = StoreFactory<Keyed<String, Int>, Int>(initialState: [:]) { $0["\($1)"] = $1 }
    let both: [StateSequence<Int?>] = [
      factory.scopeStore(to: \.self, at: "2").states(), factory.root.scope(to: \.self, at: "2").states(),
    ]
    for number in [1, 2] { try await factory.root.send(number) }
    for states in both { #expect(await states.collect(2) == [nil, 2]) }
  }

  @Test(arguments: [0, 1, 3])
  func `a store takes a closure and any number of interceptors, and calls them in order`(count: Int) async {
    let asked = Record<Int>()
    let ran = Record<Int>()
    let others = (0..<count).map { number in
      Interceptor<Int, Int>(where: { _ in asked.add(number) == () }) { _, _ in ran.add(number) }
    }
    let root = RootStore<Int, Int>(
      initialState: 0, interceptor: { _, _ in ran.add(-1) }, interceptors: Interceptor(combining: others),
      reducer: { $0 += $1 })
    root.dispatch(1)
    await root.shutdown(interceptors: .finish(within: .seconds(60)))
    #expect(asked.all == Array(0..<count))
    #expect(ran.all.sorted() == Array(-1..<count))
  }

  @Test func `every way to make a store takes the same arguments`() async throws {
    let reducers = [Reducer<Int, Int>("add") { $0 += $1 }, Reducer<Int, Int>("double") { state, _ in state *= 2 }]
    let history = History<Int, Int>(limit: 9)
    let declining = Interceptor<Int, Int>(where: { _ in false }) { _, _ in }
    let root = RootStore(
      initialState: 1, reducers: reducers, options: StoreOptions(executor: .own, priority: .medium),
      interceptor: { _, _ in },
      interceptors: declining, declining, middleware: [], emits: .whenDifferent, history: history)
    let factory = StoreFactory(
      initialState: 1, reducers: reducers, options: StoreOptions(executor: .own, priority: .medium),
      interceptor: { _, _ in },
      interceptors: declining, declining, middleware: [], emits: .whenDifferent, history: history)
    #expect(try await root.send(1) { $0 } == 4)
    #expect(try await factory.rootStore().send(1) { $0 } == 4)
    let sum = try await withStore(
      initialState: 1, reducers: reducers, options: StoreOptions(executor: .own, priority: .medium),
      interceptor: { _, _ in },
      interceptors: declining, declining, middleware: [], emits: .whenDifferent, history: history
    ) { try await $0.send(1) { $0 } }
    #expect(sum == 4)
    let child = root.childStore(
      initialState: 1, reducers: reducers, stateMapping: { [$0, $1] }, middleware: [], emits: .whenDifferent,
      history: History(limit: 1))
    #expect(try await child.send(1) { $0 } == [10, 4])
    #expect(history.entries.map { $0.steps.map(\.reducer) } == Array(repeating: ["add", "double"], count: 4))
    await root.shutdown()
    await factory.root.shutdown()
  }

  @Test func `any number of interceptors combine into one`() async throws {
    let asked = Record<Int>()
    let root = RootStore<Int, Int>(
      initialState: 0,
      interceptors: Interceptor(
        combining: (0..<100_000).map { number in
          Interceptor(where: { _ in number % 25_000 == 0 ? asked.add(number) != () : false }) { _, _ in }
        })
    ) { $0 += $1 }
    try await root.send(1)
    #expect(asked.all == [0, 25_000, 50_000, 75_000])
    await root.shutdown()
  }

  /// Replaces its store while another task reads the previous one.
  actor Game: OwningStore {
    typealias State = Int
    typealias Action = Int
    private nonisolated let round = LockedValue(RootStore<Int, Int>(initialState: 7) { $0 += $1 })
    nonisolated var anchor: StoreAnchor<Int, Int> { round.withLock { $0.anchor } }

    nonisolated func startOver() {
      let fresh = RootStore<Int, Int>(initialState: 7) { $0 += $1 }
      // The previous store is released outside the lock.
      _ = round.withLock { round in
        defer { round = fresh }
        return round
      }
    }
  }

  @Test func `a read returns the state of the store at the time of the call`() async throws {
    let game = Game()
    let reader = Task {
      var sum = 0
      for _ in 0..<2000 { sum += await game.state }
      return sum
    }
    for _ in 0..<2000 { game.startOver() }
    #expect(await reader.value == 14_000)
  }

  struct Lobby: StoreParent {
    let root: RootStore<[Int], Int>
    var anchor: StoreAnchor<[Int], Int> { root.anchor }
  }

  @Test func `a custom type has child stores, and generic code can use any store that owns its state`() async throws {
    func use(_ store: some OwningStore<[Int], Int>) async throws -> [Int] {
      try await store.send(2)
      let grandchild = store.childStore(initialState: 0, stateMapping: { $0 + [$1] }) { count, _ in count += 1 }
      try await grandchild.send(3)
      let state = await grandchild.state
      await store.shutdown()
      #expect(grandchild.dispatch(4) == .terminated)
      return state
    }
    var lobby: Lobby? = Lobby(root: RootStore(initialState: []) { $0.append($1) })
    let child = lobby!.childStore(initialState: 7, stateMapping: { $0 + [$1] }) { _, _ in }
    lobby = nil
    try await child.send(1)
    #expect(try await use(child) == [1, 2, 3, 7, 1])
    let root = RootStore<[Int], Int>(initialState: []) { $0.append($1) }
    #expect(try await use(root) == [2, 3, 1])
    let erased: any OwningStore<[Int], Int> = root
    #expect(await erased.state == [2, 3])
  }
}
