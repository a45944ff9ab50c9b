import PureduxTestSupport
import Testing

@testable import Puredux

@Suite(.timeLimit(.minutes(15))) struct SelectorTests {
  struct Room: Sendable {
    var messages: [String] = []
    var lastRead = 0
    var visits = 0
  }

  enum RoomAction: Sendable {
    case say(String)
    case read
    case visit
  }

  static func room() -> RootStore<Room, RoomAction> {
    RootStore(initialState: Room()) { room, action in
      switch action {
      case .say(let text): room.messages.append(text)
      case .read: room.lastRead = room.messages.count
      case .visit: room.visits += 1
      }
    }
  }

  /// A selector that records each computation.
  static func unread(_ worked: Record<Int>) -> StateSelector<Room, Int> {
    StateSelector("unread", of: \.messages, \.lastRead) { messages, lastRead in
      worked.add(messages.count)
      return messages.count - lastRead
    }
  }

  @Test func `it is a function with a name`() {
    let unread = Self.unread(Record())
    #expect(unread.select(Room(messages: ["a", "b"], lastRead: 1)) == 1)
    #expect(unread.name == "unread")
    #expect("\(unread)" == "unread")
    #expect(
      StateSelector<Room, String>("shout") { $0.messages.joined().uppercased() }.select(Room(messages: ["a"])) == "A")
    #expect(StateSelector(\Room.visits).select(Room(visits: 3)) == 3)
  }

  @Test func `it is computed once per change, for any number and kind of followers`() async throws {
    let worked = Record<Int>()
    let unread = Self.unread(worked)
    let store = Self.room()
    let proxy = store.scope(selecting: unread)
    let sequences =
      (0..<50).map { _ in store.states(unread) } + (0..<50).map { _ in proxy.states() }
      + [
        store.store().states(unread, removeStateDuplicates: .equal),
        store.scope(selecting: unread).scope { $0 }.states(),
      ]
    for _ in 0..<10 { store.dispatch(.visit) }
    store.dispatch(.say("hello"))
    store.dispatch(.visit)
    store.dispatch(.read)
    #expect(try await store.scope(selecting: unread).send(.visit) { $0 } == 0)
    #expect(try await proxy.state == 0)
    await store.shutdown()
    #expect(worked.all == [0, 1, 1])
    for (index, states) in sequences.enumerated() {
      let seen = await states.collect()
      #expect(seen == (index == 100 ? [0, 1, 0] : Array(repeating: 0, count: 11) + [1, 1, 0, 0]))
    }
  }

  @Test(arguments: Kind.allCases)
  func `key paths and selectors behave like any scope, over every kind of store`(kind: Kind) async throws {
    let subject = Subject(kind)
    let sum = StateSelector<Snapshot, Int>("sum", of: \.root.count, \.root.last) { $0 + $1 }
    let (lasts, sums) = (subject.store.states(\.root.last), subject.store.states(sum))
    let odd = subject.store.states(\.root.last, bufferingPolicy: .bufferingNewest(1), removeStateDuplicates: .equal)
    let scoped = subject.store.scope(to: \.root.last)
    for action in [5, 5, 6] { scoped.dispatch(action) }
    #expect(try await scoped.send(7) { $0 } == 7)
    #expect(try await subject.store.scope(selecting: sum).state == 11)
    await subject.root.shutdown()
    #expect(await lasts.collect() == [0, 5, 5, 6, 7])
    #expect(await sums.collect() == [0, 6, 7, 9, 11])
    #expect(await odd.collect() == [7])
  }

  @Test func `selectors by the same key path are shared, and those by different ones are not`() async throws {
    let evaluations = Record<Int>()
    struct Watched: Sendable {
      var value = 0
      var other = 0
      let evaluations: Record<Int>
      var counted: Int {
        evaluations.add(value)
        return value
      }
    }
    let store = RootStore<Watched, Int>(initialState: Watched(evaluations: evaluations)) { $0.value += $1 }
    let sequences = (0..<20).map { _ in store.states(\.counted) }
    let others = store.states(\.other)
    store.dispatch(1)
    await store.shutdown()
    for states in sequences { #expect(await states.collect() == [0, 1]) }
    #expect(await others.collect() == [0, 0])
    #expect(evaluations.all.count == 21, "one for each first element, one for the commit")
  }

  @Test func `its memory is separate for each tree, and is released with the last user`() async throws {
    let worked = Record<Int>()
    let unread = Self.unread(worked)
    let (first, second) = (Self.room(), Self.room())
    let (firstUnread, secondUnread) = (first.scope(selecting: unread), second.scope(selecting: unread))
    try await first.send(.say("a"))
    #expect(try await firstUnread.state == 1)
    #expect(try await secondUnread.state == 0)
    #expect(try await firstUnread.state == 1)
    #expect(try await secondUnread.state == 0)
    #expect(worked.all == [1, 0])
    #expect(try await second.scope(selecting: Self.unread(worked)).state == 0)
    #expect(worked.all == [1, 0, 0], "made alike is not the same")
  }

  @Test func `a selector of the whole state that depends on a part keeps only that part`() async throws {
    struct Held: Sendable {
      var version = 0
      var token = Token()
    }
    let worked = Record<Int>()
    let selector = StateSelector<Held, Int>("version", whenDifferent: \.version) { state in
      worked.add(state.version)
      return state.version * 10
    }
    let store = RootStore<Held, Int>(initialState: Held()) { state, action in
      state.version += action
      state.token = Token()
    }
    var values = store.states(selector).makeAsyncIterator()
    #expect(await values.next() == 0)
    let first = Weak(await store.state.token)
    for action in [0, 0, 1, 0] { try await store.send(action) }
    #expect(first.object == nil)
    for value in [0, 0, 10, 10] { #expect(await values.next() == value) }
    #expect(worked.all == [0, 1])
    #expect(selector.select(Held(version: 7)) == 70)
  }

  /// The argument of a key path's subscript, which calls a closure when it is hashed, compared or released for the last
  /// time.
  struct Asking: Hashable, Sendable {
    final class Ask: Sendable {
      let body: @Sendable () -> Void
      init(_ body: @escaping @Sendable () -> Void) { self.body = body }
      deinit { body() }
    }

    let number: Int
    let ask: Ask

    static func == (lhs: Asking, rhs: Asking) -> Bool {
      lhs.ask.body()
      rhs.ask.body()
      return lhs.number == rhs.number
    }

    func hash(into hasher: inout Hasher) {
      ask.body()
      hasher.combine(number.isMultiple(of: 2))
    }
  }

  struct Numbers: Sendable {
    var offset = 0
    let evaluations = Record<Int>()

    subscript(index: Asking) -> Int {
      evaluations.add(index.number)
      return offset + index.number
    }
  }

  @Test func `a key path may request a scope of the same store while it is looked up, and when it is released`()
    async throws
  {
    let store = RootStore<Numbers, Int>(initialState: Numbers()) { $0.offset += $1 }
    let evaluations = await store.state.evaluations
    let (proxy, isAsking) = (store.store(), Flag())
    let ask: @Sendable () -> Void = {
      if isAsking.isRaised { return }
      isAsking.raise()
      _ = proxy.scope(to: \.offset)
      _ = proxy.scope(to: \.[Asking(number: 7, ask: Asking.Ask {})])
      isAsking.lower()
    }
    let sequences = (0..<20).map { _ in store.states(\.[Asking(number: 7, ask: Asking.Ask(ask))]) }
    var kept: [Store<Int, Int>] = []
    for number in 100..<200 {
      let scope = store.scope(to: \.[Asking(number: number, ask: Asking.Ask(ask))])
      #expect(try await scope.state == number)
      if number.isMultiple(of: 9) { kept.append(scope) }
    }
    #expect(kept.count == 11)
    store.dispatch(1)
    await store.shutdown()
    for states in sequences { #expect(await states.collect() == [7, 8]) }
    #expect(evaluations.all.filter { $0 == 7 }.count == 21, "one for each first element, one for the commit")
  }

  @Test func `two simultaneous requests for one selection share it`() throws {
    let (selections, selector) = (SelectorCache(), SelectorIdentity(\Room.visits))
    func make() -> Confined<Source<Int>> { Confined(Source<Int>(level: 1) { _ in }) }
    var inner: Confined<Source<Int>>?
    let outer = selections.source(of: selector) {
      inner = selections.source(of: selector, orMake: make)
      return make()
    }
    #expect(unsafe outer.unconfined === inner?.unconfined)
    let later = selections.source(of: selector, orMake: make)
    #expect(unsafe later.unconfined === outer.unconfined)
  }

  @Test func `many simultaneous requests for one selection share it`() async {
    let store = RootStore<Numbers, Int>(initialState: Numbers()) { $0.offset += $1 }
    let evaluations = await store.state.evaluations
    let ask = Asking.Ask {}
    await withTaskGroup(of: AsyncStream<Int>.self) { group in
      for _ in 0..<50 { group.addTask { store.states(\.[Asking(number: 3, ask: ask)]) } }
      let sequences = await group.reduce(into: []) { $0.append($1) }
      store.dispatch(1)
      await store.shutdown()
      for states in sequences { #expect(await states.collect() == [3, 4]) }
    }
    #expect(evaluations.all.count == 51)
  }

  @Test func `many selectors that come and go leave nothing behind`() async throws {
    let store = Self.room()
    var kept: [Store<Int, RoomAction>] = []
    for index in 0..<1000 {
      let selector = StateSelector<Room, Int>("\(index)", of: \.visits) { $0 + index }
      let scope = store.scope(selecting: selector)
      if index.isMultiple(of: 100) { kept.append(scope) }
      #expect(try await store.scope(selecting: selector).state == index)
    }
    try await store.send(.visit)
    for (index, scope) in kept.enumerated() { #expect(try await scope.state == index * 100 + 1) }
    let selections = store.store().source.channelOfSource.selectors { SelectorCache() }
    #expect(
      selections.contents.withLock { $0.buckets.count } < 50, "ten are in use, and a few have not been missed yet")
  }
}
