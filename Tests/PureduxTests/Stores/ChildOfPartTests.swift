import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

@testable import Puredux

/// Child stores that depend on a part of their parent's state. Each is notified of commits that change the part, and of
/// its own actions.
@Suite(.timeLimit(.minutes(15))) struct ChildOfPartTests {
  private struct Hotel: Sendable, Equatable {
    var name = "Ritz"
    var rooms: Keyed<Int, [String]> = [1: [], 2: []]
    var commits = 0
  }

  private enum Action: Sendable {
    case rename(String), add(String, Int), remove(Int), note(String)
  }

  private struct Visit<Part: Sendable & Equatable>: Sendable, Equatable {
    var part: Part
    var notes: [String] = []

    init(_ part: Part, _ notes: [String] = []) {
      self.part = part
      self.notes = notes
    }
  }

  private func hotel(middleware: [Middleware<Hotel, Action>] = []) -> RootStore<Hotel, Action> {
    RootStore(initialState: Hotel(), middleware: middleware) { state, action in
      state.commits += 1
      switch action {
      case .rename(let name): state.name = name
      case .add(let guest, let room): state.rooms[room, default: []].append(guest)
      case .remove(let room): state.rooms[room] = nil
      case .note: break
      }
    }
  }

  @Sendable private static func note(_ notes: inout [String], _ action: Action) {
    if case .note(let note) = action { notes.append(note) }
  }

  private func visit<Part: Equatable>(
    _ parent: some StoreParent<Part, Action>, counting count: Record<Int>? = nil,
    interceptors: Interceptor<Visit<Part>, Action> = .effects { _, _ in nil },
    middleware: [Middleware<Visit<Part>, Action>] = [],
    emits: Emission<Visit<Part>> = .always, history: History<[String], Action>? = nil
  ) -> StateStore<Visit<Part>, Action> {
    parent.childStore(
      initialState: [String](),
      stateMapping: { part, notes in
        count?.add(1)
        return Visit(part, notes)
      }, interceptors: interceptors, middleware: middleware, emits: emits, history: history, reducer: Self.note)
  }

  @Test func `it gets commits that change the part, and its own actions`() async throws {
    let hotel = hotel()
    let named = visit(hotel.part(\.name))
    let (first, second) = (visit(hotel.part(\.rooms, at: 1)), visit(hotel.part(\.rooms, at: 2)))
    let names = named.record()
    let (firsts, seconds) = (first.record(), second.record())
    let all = hotel.scope(to: \.commits).record()
    hotel.dispatch(.add("Ann", 1))
    named.dispatch(.note("a"))
    first.dispatch(.note("b"))
    hotel.dispatch(.rename("Ritz"))
    hotel.dispatch(.rename("Savoy"))
    named.dispatch(.rename("Grand"))
    second.dispatch(.add("Bob", 2))
    second.dispatch(.note("c"))
    hotel.dispatch(.remove(1))
    await names.expectOnly(Visit("Ritz"), Visit("Ritz", ["a"]), Visit("Savoy", ["a"]), Visit("Grand", ["a"]))
    await firsts.expectOnly(Visit([]), Visit(["Ann"]), Visit(["Ann"], ["b"]), Visit(nil, ["b"]))
    await seconds.expectOnly(Visit([]), Visit(["Bob"]), Visit(["Bob"], ["c"]))
    await all.expectOnly(contentsOf: Array(0...9))
    #expect(await first.state == Visit(nil, ["b"]))
    #expect(try await first.store().send(.add("Cy", 1)) { $0 } == Visit(["Cy"], ["b"]))
    await hotel.shutdown()
    await firsts.expect(Visit(["Cy"], ["b"]))
    await firsts.expectEnd()
    withExtendedLifetime((named, second)) {}
  }

  @Test func `no state is composed for a commit that leaves its part unchanged`() async throws {
    let hotel = hotel()
    let (names, rooms) = (Record<Int>(), Record<Int>())
    let named = (0..<10).map { _ in visit(hotel.part(\.name), counting: names) }
    let roomed = (1...2).map { visit(hotel.part(\.rooms, at: $0), counting: rooms) }
    let subscriptions = named.map { $0.states() as StateSequence }
    let others = roomed.map { $0.states() as StateSequence }
    _ = await hotel.state
    #expect(names.all.count == 10)
    #expect(rooms.all.count == 2)
    for _ in 0..<100 { try await hotel.send(.note("")) }
    #expect(names.all.count == 10)
    #expect(rooms.all.count == 2)
    try await hotel.send(.add("Ann", 2))
    #expect(names.all.count == 10)
    #expect(rooms.all.count == 3)
    try await roomed[0].send(.note("a"))
    #expect(rooms.all.count == 4)
    try await hotel.send(.rename("Savoy"))
    #expect(names.all.count == 20)
    await hotel.shutdown()
    for states in subscriptions { #expect(await states.collect().count == 2) }
    for states in others { #expect(await states.collect().count == 2) }
    withExtendedLifetime((named, roomed)) {}
  }

  @Test func `an action given to a store below it is its commit, too`() async throws {
    let hotel = hotel()
    let named = visit(hotel.part(\.name))
    let below = visit(named)
    let part = visit(named.part(\.part))
    let lowest = visit(part.part(\.notes))
    let (names, belows) = (named.record(), below.record())
    let (parts, lowests) = (part.record(), lowest.record())
    try await below.send(.note("a"))
    try await lowest.send(.note("b"))
    try await hotel.send(.note("c"))
    try await hotel.send(.rename("Savoy"))
    let (first, all) = (Visit("Ritz", ["a"]), Visit("Ritz", ["a", "b"]))
    await names.expectOnly(Visit("Ritz"), first, all, Visit("Savoy", ["a", "b"]))
    await belows.expectOnly(
      Visit(Visit("Ritz")), Visit(first, ["a"]), Visit(all, ["a"]), Visit(Visit("Savoy", ["a", "b"]), ["a"]))
    await parts.expectOnly(Visit("Ritz"), Visit("Ritz", ["b"]), Visit("Savoy", ["b"]))
    await lowests.expectOnly(Visit([]), Visit(["b"], ["b"]))
    await hotel.shutdown()
    withExtendedLifetime((below, lowest)) {}
  }

  @Test func `with middleware, histories, a rule of emission, and interceptors`() async throws {
    let twice = Middleware<Visit<String>, Action> { action, _, next in
      next(action)
      next(action)
    }
    let history = History<[String], Action>(limit: 10)
    let asked = Record<Visit<String>>()
    let hotel = hotel(middleware: [Middleware { action, _, next in next(action) }])
    let named = visit(
      hotel.part(\.name),
      interceptors: .effects { _, context in
        asked.add(context.state)
        return nil
      }, middleware: [twice], emits: .whenDifferent(\.notes), history: history)
    let names = named.record()
    for action: Action in [.note("a"), .rename("Savoy"), .note("b")] { try await named.send(action) }
    await names.expectOnly(
      Visit("Ritz"), Visit("Ritz", ["a"]), Visit("Ritz", ["a", "a"]), Visit("Savoy", ["a", "a", "b"]),
      Visit("Savoy", ["a", "a", "b", "b"]))
    #expect(asked.all.count == 6)
    #expect(asked.all.last == Visit("Savoy", ["a", "a", "b", "b"]))
    #expect(history.entries.map(\.position) == Array(1...6))
    await hotel.shutdown()
    withExtendedLifetime(named) {}
  }

  @Test func `its effects follow its states`() async throws {
    let hotel = hotel()
    let begun = Record<String>()
    let room = hotel.part(\.rooms, at: 1).childStore(
      initialState: 0, stateMapping: { guests, count in (guests?.count ?? -1) * 10 + count },
      interceptors: .effects(ofState: .onChange(of: { $0 }) { state in .run { _ in begun.add("\(state)") } })
    ) { count, action in
      if case .note = action { count += 1 }
    }
    await hotel.settled()
    for action: Action in [.add("Ann", 1), .add("Bob", 2), .note(""), .remove(1)] {
      try await hotel.send(action)
      await hotel.settled()
    }
    try await room.send(.note(""))
    await hotel.settled()
    #expect(begun.all == ["0", "10", "-10", "-9"])
    await hotel.shutdown()
    withExtendedLifetime(room) {}
  }

  @Test func `a part without followers is neither compared nor retained`() async throws {
    final class Name: Sendable, Equatable {
      let compared: Record<Int>

      init(_ compared: Record<Int>) { self.compared = compared }

      static func == (lhs: Name, rhs: Name) -> Bool {
        lhs.compared.add(1)
        return lhs === rhs
      }
    }
    struct State: Sendable { var name: Name }
    let compared = Record<Int>()
    let root = RootStore<State, Int>(initialState: State(name: Name(compared))) { state, _ in
      state.name = Name(compared)
    }
    let child = root.part(\.name).childStore(initialState: 0, stateMapping: { name, _ in Weak(name) }) { $0 += $1 }
    var states: StateSequence<Weak<Name>>? = child.states()
    let first = await states?.collect(1).first
    #expect(first?.object != nil)
    try await root.send(1)
    #expect(compared.all.count == 1)
    states = nil
    try await root.send(1)
    try await root.send(1)
    #expect(compared.all.count == 1)
    #expect(first?.object == nil)
    await root.shutdown()
    withExtendedLifetime(child) {}
  }

  @Test func `children of one part share its source, as long as there are any`() async throws {
    let hotel = hotel()
    do {
      let (one, other) = (visit(hotel.part(\.name)), visit(hotel.part(\.name)))
      #expect(unsafe hotel.part(\.name).core.source.unconfined === hotel.part(\.name).core.source.unconfined)
      let key = hotel.part(\.rooms, at: 1).core.source
      #expect(unsafe key.unconfined === hotel.scope(to: \.rooms, at: 1).source.unconfined)
      #expect(await one.state == other.state)
    }
    try await hotel.send(.note(""))
    weak let source = unsafe hotel.part(\.name).core.source.unconfined
    #expect(source == nil)
    await hotel.shutdown()
  }

  @Test func `a part of a part, under a root store that has a history and publishes little`() async throws {
    let history = History<Visit<Hotel>, Action>(limit: 10)
    let root = RootStore<Visit<Hotel>, Action>(
      initialState: Visit(Hotel()), emits: .when { _, _ in false }, history: history
    ) { state, action in
      if case .rename(let name) = action { state.part.name = name }
      if case .add(let guest, let room) = action { state.part.rooms[room, default: []].append(guest) }
    }
    let named = visit(root.part(\.part).part(\.name))
    let room = visit(root.part(\.part).part(\.rooms, at: 1))
    let (names, rooms) = (named.record(), room.record())
    for action: Action in [.rename("Savoy"), .add("Ann", 1), .note("a")] { try await root.send(action) }
    try await named.send(.note("b"))
    try await room.send(.note("c"))
    await names.expectOnly(Visit("Ritz"), Visit("Savoy"), Visit("Savoy", ["b"]))
    await rooms.expectOnly(Visit([]), Visit(["Ann"]), Visit(["Ann"], ["c"]))
    #expect(history.entries.count == 5)
    await root.shutdown()
    withExtendedLifetime((named, room)) {}
  }

  @Test func `it keeps its parent alive, and is released after its accepted actions`() async throws {
    var hotel: RootStore<Hotel, Action>? = hotel()
    let weak = Weak(hotel!)
    var room: StateStore<Visit<[String]?>, Action>? = visit(hotel!.part(\.rooms, at: 1))
    let states = room!.record()
    hotel = nil
    #expect(weak.object != nil)
    room!.dispatch(.add("Ann", 1))
    room!.dispatch(.note("a"))
    let proxy = room!.store()
    room = nil
    await states.expect(Visit([]), Visit(["Ann"]), Visit(["Ann"], ["a"]))
    await states.expectEnd()
    #expect(proxy.dispatch(.note("b")) == .terminated)
    #expect(weak.object == nil)
  }

  @Test func `children of parts of children, a hundred deep`() async throws {
    struct Level: Sendable, Equatable {
      var depth = 0
      var count = 0
    }
    let root = RootStore<Level, Int>(initialState: Level()) { $0.count += $1 }
    var lowest: StateStore<Level, Int>?
    for depth in 1...100 {
      let mapping: @Sendable (Level, Int) -> Level = { Level(depth: depth, count: $0.count * 0 + $1) }
      lowest =
        lowest?.part(\.self).childStore(initialState: 0, stateMapping: mapping) { $0 += $1 }
        ?? root.part(\.self).childStore(initialState: 0, stateMapping: mapping) { $0 += $1 }
    }
    let states = try #require(lowest).states() as StateSequence
    try await root.send(5)
    try await lowest?.send(1)
    try await lowest?.send(0)
    lowest = nil
    #expect(await states.collect() == [0, 1, 1].map { Level(depth: 100, count: $0) })
    await root.shutdown()
  }

  // MARK: At random

  /// Compares a tree of stores of parts of a hall, and of parts of these, with a model.
  @Test(arguments: 0..<20) func `a random run agrees with the sequential model`(round: Int) async throws {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SeededGenerator(seed: seed)
    var model = HallModel()
    let root = RootStore<Hall, Int>(initialState: Hall()) { $0.enter($1) }
    var stores: [Int: StateStore<HallView, Int>] = [:]
    var sequences: [(states: StateSequence<HallView>, id: Int)] = []
    for action in 1...400 {
      let id = stores.keys.sorted().randomElement(using: &random)
      let isOfRoot = id == nil || Bool.random(using: &random)
      switch Int.random(in: 0..<20, using: &random) {
      case 0..<5:
        root.dispatch(action)
        model.commit(action, to: nil)
      case 5..<10:
        guard let id else { continue }
        stores[id]?.dispatch(action)
        model.commit(action, to: id)
      case 10..<12:
        guard let id, let store = stores[id] else { continue }
        model.commit(action, to: id)
        let state = try await store.store().send(action) { $0 }
        #expect(state == model.view(of: id), "seed \(seed)")
      case 12..<16:
        guard let id, let store = stores[id] else { continue }
        sequences.append((store.states(), model.subscribe(to: id)))
      case 16, 17:
        let key = Int.random(in: 0..<4, using: &random)
        let part: HallPart =
          isOfRoot
          ? [.whole, .bell, .door(key), .name].randomElement(using: &random)!
          : [.whole, .first].randomElement(using: &random)!
        let made: StateStore<HallView, Int>
        if isOfRoot {
          made =
            switch part {
            case .whole: root.viewChild { [$0.last, $0.bell, $0.name] }
            case .bell: root.part { $0.bell }.viewChild { [$0] }
            case .door(let key): root.part(\.doors, at: key).viewChild { [$0 ?? -1] }
            default: root.part(\.name).viewChild { [$0] }
            }
        } else {
          guard let id, let parent = stores[id] else { continue }
          made = part == .whole ? parent.viewChild { $0.all } : parent.part(\.first).viewChild { [$0] }
        }
        stores[model.add(part, below: isOfRoot ? nil : id)] = made
      case 18:
        guard let id else { continue }
        stores[id] = nil
        model.release(id)
      default:
        guard let id, let store = stores[id] else { continue }
        #expect(await store.state == model.view(of: id), "seed \(seed)")
      }
    }
    await root.shutdown()
    for sequence in sequences {
      #expect(await sequence.states.collect() == model.deliveries[sequence.id], "seed \(seed)")
    }
  }
}

private struct Hall: Sendable, Equatable {
  var last = 0
  var bell = 0
  var doors: Keyed<Int, Int> = [:]
  var name = 0

  mutating func enter(_ action: Int) {
    last = action
    if action.isMultiple(of: 3) { bell += 1 }
    let key = action % 7
    if key < 3 { doors[key] = action.isMultiple(of: 5) ? nil : action }
  }

  /// Whether an action changes, sets or removes the value of a key of this hall.
  func writes(_ key: Int, _ action: Int) -> Bool {
    action % 7 == key && key < 3 && (doors[key] != nil || !action.isMultiple(of: 5))
  }
}

private struct HallView: Sendable, Equatable {
  var part: [Int]
  var own = 0

  var first: Int { part[0] }
  var all: [Int] { part + [own] }
}

private enum HallPart: Equatable { case whole, bell, name, first, door(Int) }

extension StoreParent where Action == Int {
  fileprivate func viewChild(_ view: @escaping @Sendable (State) -> [Int]) -> StateStore<HallView, Int> {
    childStore(initialState: 0, stateMapping: { HallView(part: view($0), own: $1) }, reducer: { $0 += $1 })
  }
}

/// A sequential model of a tree of children of parts.
private struct HallModel {
  private struct Child {
    var part: HallPart
    var parent: Int?
    var own = 0
    var isHeld = true
  }

  private var hall = Hall()
  private var children: [Int: Child] = [:]
  private var subscriptions: [(store: Int, id: Int)] = []
  private(set) var deliveries: [[HallView]] = []
  private var childCount = 0

  func view(of id: Int) -> HallView { view(of: id, hall, children) }

  private func view(of id: Int, _ hall: Hall, _ children: [Int: Child]) -> HallView {
    let child = children[id]!
    let parent = child.parent.map { view(of: $0, hall, children) }
    let part: [Int] =
      switch child.part {
      case .whole: parent?.all ?? [hall.last, hall.bell, hall.name]
      case .bell: [hall.bell]
      case .name: [hall.name]
      case .first: [parent!.first]
      case .door(let key): [hall.doors[key] ?? -1]
      }
    return HallView(part: part, own: child.own)
  }

  mutating func commit(_ action: Int, to id: Int?) {
    let (before, childrenBefore) = (hall, children)
    var path: Set<Int> = []
    var next = id
    while let id = next {
      path.insert(id)
      children[id]?.own += action
      next = children[id]?.parent
    }
    hall.enter(action)
    func delivers(_ id: Int) -> Bool {
      let child = children[id]!
      if path.contains(id) { return true }
      switch child.part {
      case .whole: return child.parent.map(delivers) ?? true
      case .bell: return before.bell != hall.bell
      case .name: return before.name != hall.name
      case .door(let key): return before.writes(key, action)
      case .first:
        return view(of: child.parent!, before, childrenBefore).first != view(of: child.parent!).first
      }
    }
    for subscription in subscriptions where delivers(subscription.store) {
      deliveries[subscription.id].append(view(of: subscription.store))
    }
  }

  mutating func subscribe(to id: Int) -> Int {
    deliveries.append([view(of: id)])
    subscriptions.append((id, deliveries.count - 1))
    return deliveries.count - 1
  }

  mutating func add(_ part: HallPart, below parent: Int?) -> Int {
    childCount += 1
    children[childCount] = Child(part: part, parent: parent)
    return childCount
  }

  mutating func release(_ id: Int) {
    children[id]?.isHeld = false
    var next: Int? = id
    while let id = next, let child = children[id], !child.isHeld, !children.values.contains(where: { $0.parent == id })
    {
      children[id] = nil
      subscriptions.removeAll { $0.store == id }
      next = child.parent
    }
  }
}
