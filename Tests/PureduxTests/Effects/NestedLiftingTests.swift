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

/// Interceptors of parts of parts, and what elements and parts leave behind that come back.
@Suite(.timeLimit(.minutes(5))) struct NestedLiftingTests {
  /// Waits, whether it is cancelled or not, and tells what became of what it dispatches then.
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
  func `the effects of a part of an element do not go by what another element lacks`(hasCards: Bool) async throws {
    let feature = Feature()
    let root = house(feature, hasCards: hasCards)
    try await root.send(begin(hasCards: hasCards, inRoom: 1))
    try await root.send(begin(hasCards: hasCards, inRoom: 3))
    // Here there is no such part.
    try await root.send(begin(hasCards: hasCards, inRoom: 2))
    try await root.send(.room(2, .look))
    feature.gate.open()
    await feature.results.untilCount(2)
    #expect(feature.results.all == [.enqueued, .enqueued])
    await root.shutdown()
  }

  /// Whatever the action is for that takes it away.
  @Test(arguments: [false, true])
  func `the effects of a part of an element go with the part, and those of others stay`(hasCards: Bool) async throws {
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

  @Test func `the effects of a part go with the element that it is a part of`() async throws {
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

  /// One that goes and comes back is another one, even if the effects of the first have not returned yet.
  @Test(arguments: [
    EffectPolicy.latest, .first, .inTurn(), .inTurn(limit: 0), .concurrent(limit: 1), .throttled(for: .seconds(10)),
    .debounced(for: .seconds(1)),
  ])
  func `no effect of an element that is gone keeps those of the next from beginning`(policy: EffectPolicy) async throws
  {
    let (clock, gate, begun) = (ManualClock(), Gate(), Record<Int>())
    let feature = Interceptor<Room, RoomAction>.effects { _, _ in
      .run { _ in
        begun.add(0)
        await gate.wait()
      }.id("load", policy)
    }
    let root = RootStore<House, HouseAction>(
      initialState: House(rooms: [1: Room()]), clock: clock,
      interceptors: feature.lifted(elements: { (house: House) in house.rooms }) { (action: HouseAction) in
        if case .room(let number, let action) = action { (number, action) } else { nil }
      } into: {
        .room($0, $1)
      }, reducer: reduce)
    for count in 1...3 {
      // The second waits, is held or is left out.
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
  }

  /// Also where the effect has ended, and only its time has not.
  @Test func `a throttled effect of an element that is gone does not throttle those of the next`() async throws {
    let (clock, begun) = (ManualClock(), Record<Int>())
    let feature = Interceptor<Room, RoomAction>.effects { _, _ in
      .run { _ in begun.add(0) }.id("load", .throttled(for: .seconds(10)))
    }
    let root = RootStore<House, HouseAction>(
      initialState: House(rooms: [1: Room(), 2: Room()]), clock: clock,
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
    // One that stays goes on being throttled.
    for _ in 1...3 { try await root.send(.room(2, .look)) }
    await root.settled()
    #expect(begun.all.count == 101)
    clock.advance(by: .seconds(10))
    await root.settled()
    #expect(begun.all.count == 102)
    await root.shutdown()
  }
}
