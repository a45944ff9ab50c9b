import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

@testable import Puredux

/// Followers of single keys. Each is notified of writes to its key, and no other write costs it anything.
@Suite(.timeLimit(.minutes(15))) struct KeyedScopeTests {
  private struct Hotel: Sendable {
    var rooms: Keyed<Int, [String]> = [:]
    var name = ""
    var kept: [Keyed<Int, [String]>] = []
  }

  private enum Action: Sendable {
    case add(String, Int), remove(Int), rename(String), addToAll(String), keep, bringBack, nothing(Int), clear
    case all([Action])
  }

  @Sendable private static func reduce(_ state: inout Hotel, _ action: Action) {
    switch action {
    case .add(let guest, let room): state.rooms[room, default: []].append(guest)
    case .remove(let room): state.rooms[room] = nil
    case .rename(let name): state.name = name
    case .addToAll(let guest): for room in state.rooms.keys { state.rooms[room]?.append(guest) }
    case .keep: state.kept.append(state.rooms)
    case .bringBack: if let kept = state.kept.popLast() { state.rooms = kept }
    case .nothing(let room): state.rooms[room]?.append("nobody")
    case .clear: state.rooms.removeAll()
    case .all(let actions): for action in actions { reduce(&state, action) }
    }
  }

  private func hotel(_ rooms: ClosedRange<Int> = 1...3) -> RootStore<Hotel, Action> {
    RootStore(initialState: Hotel(rooms: Keyed(rooms.map { ($0, []) })), reducer: Self.reduce)
  }

  @Test func `a follower gets the writes to its key, and nothing else`() async throws {
    let hotel = hotel()
    let (first, second) = (hotel.scope(to: \.rooms, at: 1).record(), hotel.scope(to: \.rooms, at: 2).record())
    let all = hotel.scope(to: \.rooms.count).record()
    for action: Action in [.add("Ann", 1), .rename("Ritz"), .add("Bob", 2), .add("Cy", 1), .nothing(7), .add("Di", 3)] {
      hotel.dispatch(action)
    }
    await first.expectOnly([], ["Ann"], ["Ann", "Cy"])
    await second.expectOnly([], ["Bob"])
    await all.expectOnly(3, 3, 3, 3, 3, 3, 3)
    await hotel.shutdown()
    await first.expectEnd()
    await second.expectEnd()
  }

  @Test func `a key is removed and returns`() async throws {
    let hotel = hotel()
    let (there, absent) = (hotel.scope(to: \.rooms, at: 1), hotel.scope(to: \.rooms, at: 9))
    let (states, others) = (there.record(), absent.record())
    let values = there.scope(toOptional: { $0 }).record()
    for action: Action in [.remove(1), .add("Ann", 1), .add("Bob", 9), .clear] { try await hotel.send(action) }
    await states.expectOnly([], nil, ["Ann"], nil)
    await others.expectOnly(nil, ["Bob"], nil)
    await values.expectOnly([], ["Ann"])
    #expect(try await there.state == nil)
    #expect(try await absent.send(.add("Cy", 9)) { $0 } == ["Cy"])
    await hotel.shutdown()
    await #expect(throws: StoreError.terminated) { try await there.state }
  }

  @Test func `a commit that writes a key many times is one element`() async throws {
    let hotel = hotel()
    let (first, second) = (hotel.scope(to: \.rooms, at: 1).record(), hotel.scope(to: \.rooms, at: 2).record())
    try await hotel.send(.all([.add("Ann", 1), .add("Bob", 1)]))
    try await hotel.send(.all((0..<10).map { .add("\($0)", 1) } + [.remove(2), .add("Cy", 2)]))
    try await hotel.send(.addToAll("Di"))
    let one = ["Ann", "Bob"] + (0..<10).map { "\($0)" }
    await first.expectOnly([], ["Ann", "Bob"], one, one + ["Di"])
    await second.expectOnly([], ["Cy"], ["Cy", "Di"])
    await hotel.shutdown()
  }

  @Test func `after a restore of a collection, all possible differences are delivered`() async throws {
    let hotel = hotel()
    let states = (1...3).map { hotel.scope(to: \.rooms, at: $0).record() }
    try await hotel.send(.keep)
    try await hotel.send(.add("Ann", 1))
    // After a restore, the writes since the copy are unknown: all keys count as written.
    try await hotel.send(.bringBack)
    try await hotel.send(.add("Bob", 2))
    await states[0].expectOnly([], ["Ann"], [])
    await states[1].expectOnly([], [], ["Bob"])
    await states[2].expectOnly([], [])
    await hotel.shutdown()
  }

  @Test func `after more writes than are remembered, all followers get an element`() async throws {
    let hotel = hotel()
    let states = (1...2).map { hotel.scope(to: \.rooms, at: $0).record() }
    try await hotel.send(.all((0..<200).map { _ in .nothing(1) }))
    await states[0].expectOnly([], Array(repeating: "nobody", count: 200))
    await states[1].expectOnly([], [])
    await hotel.shutdown()
  }

  @Test func `many followers of one key come and go`() async throws {
    let hotel = hotel()
    let scopes = (0..<5).map { _ in hotel.scope(to: \.rooms, at: 1) }
    var sequences = scopes.map { $0.states() as StateSequence<[String]?> }
    let same = scopes[0].states() as StateSequence<[String]?>
    #expect(await hotel.statistics.subscriptions == 6)
    sequences.remove(at: 1)
    sequences.remove(at: 3)
    try await hotel.send(.add("Ann", 1))
    #expect(await hotel.statistics.subscriptions == 4)
    let other = scopes[1].states() as StateSequence<[String]?>
    try await hotel.send(.add("Bob", 1))
    for sequence in sequences + [same] { #expect(await sequence.collect(3) == [[], ["Ann"], ["Ann", "Bob"]]) }
    #expect(await other.collect(2) == [["Ann"], ["Ann", "Bob"]])
    await hotel.shutdown()
  }

  @Test func `scopes of one key share one source`() async throws {
    let hotel = hotel()
    let first = hotel.scope(to: \.rooms, at: 1)
    let (same, other) = (hotel.store().scope(to: \.rooms, at: 1), hotel.scope(to: \.rooms, at: 2))
    #expect(unsafe first.source.unconfined === same.source.unconfined)
    #expect(unsafe first.source.unconfined !== other.source.unconfined)
    await hotel.shutdown()
  }

  @Test func `nothing remains of a former follower`() async throws {
    let hotel = hotel()
    var scope: Store<[String]?, Action>? = hotel.scope(to: \.rooms, at: 1)
    var sequence = scope?.states() as StateSequence<[String]?>?
    #expect(await sequence?.collect(1) == [[]])
    #expect(await hotel.statistics.subscriptions == 1)
    let core = hotel.core
    func isFollowed() async throws -> Bool {
      try await core.node.tree.run { tree throws(StoreError) in core.source(on: tree).hasSubscribers }
    }
    #expect(try await isFollowed())
    sequence = nil
    scope = nil
    #expect(await hotel.statistics.subscriptions == 0)
    #expect(try await !isFollowed())
    await hotel.shutdown()
  }

  @Test func `of a child store, of a projection, of a part that may be absent`() async throws {
    struct City: Sendable { var hotel: Hotel? }
    let city = RootStore<City, Action>(initialState: City(hotel: Hotel(rooms: [1: []]))) { state, action in
      if case .clear = action { return state.hotel = nil }
      if case .keep = action { return state.hotel = Hotel(rooms: [1: ["new"]]) }
      if state.hotel != nil { Self.reduce(&state.hotel!, action) }
    }
    let child = city.childStore(initialState: 0, stateMapping: { city, _ in city }) { _, _ in }
    let stores = [
      city.scope(toOptional: \.hotel).scope(to: \.rooms, at: 1),
      child.scope(toOptional: { $0.hotel }).scope(to: \.rooms, at: 1),
      city.projection(action: { $0 }, state: { $0 }).scope(toOptional: { $0.hotel }).scope(to: \.rooms, at: 1),
    ]
    let states = stores.map { $0.record() }
    for action: Action in [.add("Ann", 1), .clear, .add("Bob", 1)] { try await city.send(action) }
    for store in stores { await #expect(throws: StoreError.stateUnavailable) { try await store.state } }
    for action: Action in [.keep, .add("Cy", 1)] { try await city.send(action) }
    for states in states { await states.expectOnly([], ["Ann"], ["new"], ["new", "Cy"]) }
    await child.shutdown()
    await states[1].expectEnd()
    await city.shutdown()
    await states[0].expectEnd()
  }

  @Test func `a subscriber to an absent collection gets its first element when the collection returns`() async throws {
    struct Door: Sendable {
      var hotel = Hotel(rooms: [1: []])
      var isOpen = true
    }
    let door = RootStore<Door, Bool>(initialState: Door()) { $0.isOpen = $1 }
    let room = door.scope(toOptional: { $0.isOpen ? $0.hotel : nil }).scope(to: \.rooms, at: 1)
    let early = room.record()
    try await door.send(false)
    let late = room.record()
    try await door.send(true)
    try await door.send(true)
    await early.expectOnly([], [])
    await late.expectOnly([])
    try await door.send(false)
    let alone = door.scope(toOptional: { $0.isOpen ? $0.hotel : nil }).scope(to: \.rooms, at: 1).record()
    try await door.send(true)
    await alone.expectOnly([])
    await door.shutdown()
  }

  @Test func `features are lifted to its values`() async throws {
    struct Office: Sendable { var notes: Keyed<Int, String> = [1: "a", 2: "b"] }
    let (edits, absent) = (Record<String>(), Record<Int>())
    let note = Reducer<String, String> { $0 += $1 }
    let telling = Interceptor<String, String>.effects { action, context in
      edits.add(context.state)
      return nil
    }
    let office = RootStore<Office, (Int, String)>(
      initialState: Office(),
      reducers: [
        note.lifted(toElements: \.notes, action: { (id: $0.0, action: $0.1) }, absent: { id, _ in absent.add(id) })
      ],
      interceptors: telling.lifted(elements: { $0.notes }, action: { (id: $0.0, action: $0.1) }, into: { ($0, $1) }),
      .effects(
        ofState: .forEach({ $0.notes }) { key, value in
          .run { _ in edits.add("\(key): \(value)") }.id(key)
        }))
    await office.settled()
    let second = office.scope(to: \.notes, at: 2).record()
    try await office.send((2, "!"))
    try await office.send((3, "?"))
    await office.settled()
    await second.expectOnly("b", "b!")
    #expect(Set(edits.all) == ["1: a", "2: b", "b!", "2: b!"])
    #expect(absent.all == [3])
    await office.shutdown()
  }

  @Test func `a follower holds no store, and no collection`() async throws {
    var hotel: RootStore<Hotel, Action>? = hotel()
    let scope = hotel!.scope(to: \.rooms, at: 1)
    let states = scope.states() as StateSequence<[String]?>
    let weak = Weak(hotel!)
    try await scope.send(.add("Ann", 1))
    hotel = nil
    #expect(weak.object == nil)
    #expect(await states.collect() == [[], ["Ann"]])
    #expect(scope.dispatch(.clear) == .terminated)
  }

  /// Each follower gets exactly the values after the commits that wrote its key, for any number of followers.
  @Test(arguments: [1, 2].map { UInt64($0) } + [UInt64.random(in: .min ... .max)])
  func `random writes among many followers`(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    let keys = 0..<20
    let hotel = hotel(0...9)
    var expected: [Int: [[String]?]] = [:]
    var model: [Int: [String]] = Dictionary(uniqueKeysWithValues: (0...9).map { ($0, []) })
    var followers: [(key: Int, states: StateSequence<[String]?>)] = []
    func follow(_ key: Int) {
      guard !followers.contains(where: { $0.key == key }) else { return }
      followers.append((key, hotel.scope(to: \.rooms, at: key).states()))
      expected[key] = [model[key]]
    }
    for _ in 0..<4 { follow(Int.random(in: keys, using: &random)) }
    for step in 0..<400 {
      if step % 40 == 0 { follow(Int.random(in: keys, using: &random)) }
      var (actions, written): ([Action], Set<Int>) = ([], [])
      for _ in 0..<Int.random(in: 1...3, using: &random) {
        let key = Int.random(in: keys, using: &random)
        if Int.random(in: 0..<4, using: &random) == 0 {
          actions.append(.remove(key))
          if model.removeValue(forKey: key) != nil { written.insert(key) }
        } else {
          actions.append(.add("\(step)", key))
          model[key, default: []].append("\(step)")
          written.insert(key)
        }
      }
      hotel.dispatch(.all(actions))
      for key in written where expected[key] != nil { expected[key]?.append(model[key]) }
    }
    await hotel.shutdown()
    for (key, states) in followers {
      #expect(await states.collect() == expected[key], "seed \(seed), key \(key)")
    }
  }
}
