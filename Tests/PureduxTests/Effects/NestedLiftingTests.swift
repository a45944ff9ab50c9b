import PureduxTestSupport
import Testing

@testable import Puredux

private struct House: Sendable {
  var rooms: [Int: Room] = [:]
  var visits = 0
}

private struct Room: Sendable {
  var guest: Int?
  var cards: [String: Int] = [:]
}

private enum HouseAction: Sendable {
  case room(Int, RoomAction), furnish(Int, Room?), other
}

private enum RoomAction: Sendable {
  case guest(Int), card(String, Int), look
}

private func reduce(_ house: inout House, _ action: HouseAction) {
  switch action {
  case .room(_, .guest), .room(_, .card): house.visits += 1
  case .furnish(let number, let room): house.rooms[number] = room
  default: break
  }
}

/// Interceptors of parts of parts, and of elements and parts that are removed and return.
@Suite(.timeLimit(.minutes(15))) struct NestedLiftingTests {
  /// Waits even if it is cancelled, and then records the result of a dispatch.
  private struct Feature {
    let begun = Record<Int>()
    let gate = Gate()
    let results = Record<DispatchResult>()

    var interceptor: Interceptor<Int, Int> {
      .effects { [self] step, _ in
        guard step == 1 else { return nil }
        return .run { dispatch in
          begun.add(step)
          await gate.wait()
          results.add(dispatch(2))
        }
      }
    }
  }

  private func house(_ feature: Feature, hasCards: Bool) -> RootStore<House, HouseAction> {
    let room: Interceptor<Room, RoomAction> =
      if hasCards {
        feature.interceptor.lifted(elements: { $0.cards }) {
          if case .card(let name, let step) = $0 { (name, step) } else { nil }
        } into: {
          .card($0, $1)
        }
      } else {
        feature.interceptor.lifted(
          state: { $0.guest }, action: { if case .guest(let step) = $0 { step } else { nil } }, into: { .guest($0) })
      }
    let whole = room.lifted(elements: { (house: House) in house.rooms }) { (action: HouseAction) in
      if case .room(let number, let action) = action { (number, action) } else { nil }
    } into: {
      .room($0, $1)
    }
    let full = Room(guest: 0, cards: ["a": 0])
    return RootStore(
      initialState: House(rooms: [1: full, 2: Room(cards: ["b": 0]), 3: full]), interceptors: whole, reducer: reduce)
  }

  private func begin(hasCards: Bool, inRoom number: Int) -> HouseAction {
    .room(number, hasCards ? .card("a", 1) : .guest(1))
  }

  @Test(arguments: [false, true])
  func `the effects of a part of an element do not depend on another element's absent part`(hasCards: Bool) async throws
  {
    let feature = Feature()
    let root = house(feature, hasCards: hasCards)
    try await root.send(begin(hasCards: hasCards, inRoom: 1))
    try await root.send(begin(hasCards: hasCards, inRoom: 3))
    // This element lacks the part.
    try await root.send(begin(hasCards: hasCards, inRoom: 2))
    try await root.send(.room(2, .look))
    feature.gate.open()
    await feature.results.untilCount(2)
    #expect(feature.results.all == [.enqueued, .enqueued])
    await root.shutdown()
  }

  /// Holds for any action that removes the part.
  @Test(arguments: [false, true])
  func `the effects of a part of an element end with the part, and those of other elements stay`(hasCards: Bool)
    async throws
  {
    let feature = Feature()
    let root = house(feature, hasCards: hasCards)
    try await root.send(begin(hasCards: hasCards, inRoom: 1))
    await feature.begun.untilCount(1)
    try await root.send(.furnish(1, Room()))
    feature.gate.open()
    await feature.results.untilCount(1)
    #expect(feature.results.all == [.terminated])
    try await root.send(begin(hasCards: hasCards, inRoom: 3))
    await feature.results.untilCount(2)
    #expect(feature.results.all == [.terminated, .enqueued])
    await root.shutdown()
  }

  @Test func `the effects of a part end with the element of the part`() async throws {
    let feature = Feature()
    let root = house(feature, hasCards: true)
    try await root.send(begin(hasCards: true, inRoom: 1))
    await feature.begun.untilCount(1)
    try await root.send(.furnish(1, nil))
    try await root.send(.furnish(1, Room(cards: ["a": 0])))
    feature.gate.open()
    await feature.results.untilCount(1)
    #expect(feature.results.all == [.terminated])
    await root.shutdown()
  }

  /// An element that is removed and added again is a new one, even if the effects of the first have not returned yet.
  @Test(arguments: [
    EffectPolicy.latest, .first, .inTurn(), .inTurn(limit: 0), .concurrent(limit: 1), .throttled(for: .seconds(10)),
    .debounced(for: .seconds(1)),
  ])
  func `no effect of a removed element blocks those of the next`(policy: EffectPolicy) async throws {
    let (clock, gate, begun) = (ManualClock(), Gate(), Record<Int>())
    let reports = Record<EffectReport>()
    let feature = Interceptor<Room, RoomAction>.effects { _, _ in
      .run { _ in
        begun.add(0)
        await gate.wait()
      }.id("load", policy)
    }
    let root = RootStore<House, HouseAction>(
      initialState: House(rooms: [1: Room()]), options: StoreOptions(clock: clock, reporting: { reports.add($0) }),
      interceptors: feature.lifted(elements: { (house: House) in house.rooms }) { (action: HouseAction) in
        if case .room(let number, let action) = action { (number, action) } else { nil }
      } into: {
        .room($0, $1)
      }, reducer: reduce)
    for count in 1...3 {
      // The second action's effect waits, is held or is left out.
      try await root.send(.room(1, .look))
      if case .debounced = policy {
        await clock.untilAsleep(1)
        clock.advance(by: .seconds(1))
      }
      await begun.untilCount(count)
      if case .latest = policy {} else { try await root.send(.room(1, .look)) }
      try await root.send(.furnish(1, nil))
      #expect(await root.statistics.effects.isEmpty)
      try await root.send(.furnish(1, Room()))
    }
    gate.open()
    await root.shutdown()
    #expect(begun.all.count == 3)
    #expect(reports.all.count == (policy == .inTurn(limit: 0) ? 3 : 0))
  }

  /// Holds also if the effect has ended and only its window has not.
  @Test func `a throttled effect of a removed element does not throttle those of the next`() async throws {
    let (clock, begun) = (ManualClock(), Record<Int>())
    let feature = Interceptor<Room, RoomAction>.effects { _, _ in
      .run { _ in begun.add(0) }.id("load", .throttled(for: .seconds(10)))
    }
    let root = RootStore<House, HouseAction>(
      initialState: House(rooms: [1: Room(), 2: Room()]), options: StoreOptions(clock: clock),
      interceptors: feature.lifted(elements: { (house: House) in house.rooms }) { (action: HouseAction) in
        if case .room(let number, let action) = action { (number, action) } else { nil }
      } into: {
        .room($0, $1)
      }, reducer: reduce)
    for count in 1...100 {
      try await root.send(.room(1, .look))
      await root.settled()
      #expect(begun.all.count == count)
      try await root.send(.furnish(1, nil))
      try await root.send(.furnish(1, Room()))
    }
    // An element that stays remains throttled.
    for _ in 1...3 { try await root.send(.room(2, .look)) }
    await root.settled()
    #expect(begun.all.count == 101)
    clock.advance(by: .seconds(10))
    await root.settled()
    #expect(begun.all.count == 102)
    await root.shutdown()
  }

  @Test func `a throttled effect that a newer one has cancelled does not throttle those of the next element`()
    async throws
  {
    let begun = Record<EffectPolicy>()
    let policies: [EffectPolicy] = [
      .throttled(for: .seconds(10)), .newest(limit: 1), .throttled(for: .seconds(10), latest: false),
    ]
    let given = Record<Void>()
    let feature = Interceptor<Room, RoomAction>.effects { _, _ in
      let policy = policies[given.all.count]
      given.add(())
      return .run { _ in
        begun.add(policy)
        await untilCancelled()
      }.id("load", policy)
    }
    let root = RootStore<House, HouseAction>(
      initialState: House(rooms: [1: Room()]), options: StoreOptions(clock: ManualClock()),
      interceptors: feature.lifted(elements: { (house: House) in house.rooms }) { (action: HouseAction) in
        if case .room(let number, let action) = action { (number, action) } else { nil }
      } into: {
        .room($0, $1)
      }, reducer: reduce)
    for count in 1...2 {
      try await root.send(.room(1, .look))
      await begun.untilCount(count)
    }
    try await root.send(.furnish(1, nil))
    try await root.send(.furnish(1, Room()))
    try await root.send(.room(1, .look))
    await begun.untilCount(3)
    #expect(begun.all == policies)
    await root.shutdown()
  }

  /// Neither begins in place of the other.
  @Test(arguments: [false, true])
  func `parts removed in one commit end together`(isNested: Bool) async throws {
    let gate = Gate()
    let begun = Record<String>()
    func feature(_ name: String) -> Interceptor<Int, Int> {
      .effects { _, _ in
        .run { _ in
          begun.add(name)
          await gate.wait()
        }.id("load", .inTurn())
      }
    }
    func lifted(_ name: String) -> Interceptor<Room, RoomAction> {
      feature(name).lifted(
        state: { $0.guest }, action: { if case .guest(let step) = $0 { step } else { nil } }, into: { .guest($0) })
    }
    func whole(_ room: Interceptor<Room, RoomAction>) -> Interceptor<House, HouseAction> {
      room.lifted(elements: { (house: House) in house.rooms }) { (action: HouseAction) in
        if case .room(let number, let action) = action { (number, action) } else { nil }
      } into: {
        .room($0, $1)
      }
    }
    let interceptors =
      isNested
      ? whole(Interceptor(combining: [lifted("a"), lifted("b")]))
      : Interceptor(combining: [whole(lifted("a")), whole(lifted("b"))])
    for _ in 1...50 {
      let root = RootStore<House, HouseAction>(
        initialState: House(rooms: [1: Room(guest: 0)]), interceptors: interceptors, reducer: reduce)
      try await root.send(.room(1, .guest(1)))
      try await root.send(.furnish(1, isNested ? Room() : nil))
      await root.settled()
      #expect(await root.statistics.effects.isEmpty)
    }
    gate.open()
    #expect(begun.all.allSatisfy { $0 == "a" })
  }

  private struct Item: Sendable, Identifiable {
    let number: Int
    let looks: Record<Int>
    var id: Int {
      looks.add(number)
      return number
    }
    var part: Int? { id }
  }

  /// A store of `count` items, each with a running effect of its part, that records each read of a part.
  private func items(_ count: Int, _ gate: Gate, _ looks: Record<Int>) async throws -> RootStore<[Item], [Int]> {
    let feature = Interceptor<Int, Int>.effects(before: { $0 }) { step, _, _ in
      step == 1 ? .run { _ in await gate.wait() } : nil
    }
    let items = feature.lifted(state: { (item: Item) in item.part }, action: { (step: Int) in step }, into: { $0 })
      .lifted(elements: { (items: [Item]) in items }) { (action: [Int]) in
        action.isEmpty ? nil : (action[0], action[1])
      } into: {
        [$0, $1]
      }
    let root = RootStore<[Item], [Int]>(
      initialState: (0..<count).map { Item(number: $0, looks: looks) }, interceptors: items
    ) { _, _ in }
    for id in 0..<count { try await root.send([id, 1]) }
    return root
  }

  /// One scan of an array is enough for all its elements.
  @Test func `the time to find absent parts is in proportion to the running effects`() async throws {
    let (gate, looks) = (Gate(), Record<Int>())
    let root = try await items(200, gate, looks)
    let before = looks.all.count
    for _ in 1...10 { try await root.send([]) }
    #expect(looks.all.count - before <= 10 * 200 * 3)
    gate.open()
    await root.shutdown()
  }

  @Test func `nothing is read while no effect runs, whichever actions were decided`() async throws {
    let looks = Record<Int>()
    let gate = Gate()
    gate.open()
    let root = try await items(100, gate, looks)
    await root.settled()
    // Later effects have replaced the entries of those that are over.
    for step in [1, 0] { for id in 0..<100 { try await root.send([id, step]) } }
    await root.settled()
    for id in 0..<100 { try await root.send([id, 0]) }
    let before = looks.all.count
    for _ in 1...10 { try await root.send([]) }
    #expect(looks.all.count - before <= 10 * 100 * 3)
    await root.shutdown()

    // Here all actions were declined from the beginning.
    let idle = try await items(0, gate, looks)
    for id in 0..<100 { try await idle.send([id, 0]) }
    let idleBefore = looks.all.count
    for _ in 1...10 { try await idle.send([]) }
    #expect(looks.all.count == idleBefore)
    await idle.shutdown()
  }

  /// Composing a child store's state calls its user's code.
  @Test func `the state of a child store is not composed while no part has effects`() async throws {
    let composed = Record<Int>()
    let root = RootStore<Int, Int>(initialState: 0) { $0 += $1 }
    let feature = Interceptor<Int, Int>.effects { step, _ in step == 5 ? .run { _ in await untilCancelled() } : nil }
    let child = root.childStore(
      initialState: 0,
      stateMapping: { (whole: Int, _: Int) -> Int? in
        composed.add(whole)
        return whole
      }, interceptors: feature.lifted(state: { $0 }, action: { $0 == 1 ? nil : $0 }, into: { $0 }),
      reducer: { $0 += $1 })
    for _ in 1...10 { try await child.send(1) }
    #expect(composed.all.isEmpty)
    try await child.send(5)
    let before = composed.all.count
    try await child.send(1)
    #expect(composed.all.count == before + 1)
    await root.shutdown()
  }
}

/// The actions of a cancelled effect are not committed, whatever ends in between.
@Suite(.timeLimit(.minutes(15))) struct LateCancellationTests {
  private enum Action: Sendable { case start, cancel, tick }

  @Test(arguments: [false, true], [false, true])
  func `an effect is cancelled in its turn, though its store has been closed and it has returned`(
    isReleased: Bool, goesWithPart: Bool
  ) async throws {
    let executor = HeldExecutor()
    let (dispatches, dispatched, returns, returned) = (Gate(), Gate(), Gate(), Gate())
    let committed = Record<Action>()
    let feature = Interceptor<Int, Action>.effects { action, _ in
      switch action {
      case .start:
        .run { dispatch in
          defer { returned.open() }
          await dispatches.wait()
          dispatch(.tick)
          dispatched.open()
          await returns.wait()
        }.id("load")
      case .cancel: goesWithPart ? nil : .cancel("load")
      case .tick: nil
      }
    }
    var root: RootStore<Int?, Action>? = RootStore(
      initialState: 0, options: StoreOptions(executor: .serial(executor)),
      interceptors: feature.lifted(state: { (part: Int?) in part }, action: { $0 }, into: { $0 })
    ) { part, action in
      committed.add(action)
      if goesWithPart, case .cancel = action { part = nil }
    }
    let node = try #require(root?.core.node)
    try await root?.send(.start)
    executor.hold()
    root?.dispatch(.cancel)
    dispatches.open()
    await dispatched.wait()
    var ending: Task<Void, Never>?
    if isReleased {
      root = nil
    } else {
      ending = Task { [root] in await root?.shutdown() }
    }
    while !node.isClosed { await Task.yield() }
    returns.open()
    // The effect is counted until its end has a place in the order, which the held executor delays.
    await returned.wait()
    executor.letGo()
    await ending?.value
    await node.tree.untilIdle()
    #expect(committed.all == [.start, .cancel])
  }
}
