import PureduxLogTesting
import PureduxTestSupport
import PureduxTesting
import Testing

@testable import Puredux

/// Scopes of single keys if some commits are left out, by the store's rule (`emits:`) or by a part above.
@Suite(.timeLimit(.minutes(15))) struct KeyedEmissionTests {
  /// Equality compares the versions only, so that a part leaves out the same commits as the `emits:` rule.
  struct Hotel: Sendable, Equatable {
    var rooms: Keyed<Int, Int> = [1: 0, 2: 0, 3: 0]
    var version = 0
    var kept: Keyed<Int, Int> = [:]

    static func == (lhs: Hotel, rhs: Hotel) -> Bool { lhs.version == rhs.version }
  }

  enum Action: Sendable {
    case write(Int, Int), keep, bringBack, publish
    case all([Action])
  }

  @Sendable static func reduce(_ hotel: inout Hotel, _ action: Action) {
    switch action {
    case .write(let key, let value): hotel.rooms[key] = value
    case .keep: hotel.kept = hotel.rooms
    case .bringBack: hotel.rooms = hotel.kept
    case .publish: hotel.version += 1
    case .all(let actions): for action in actions { reduce(&hotel, action) }
    }
  }

  /// A way to leave out the commits that do not change the version.
  enum Leaving: CaseIterable {
    case rule, ruleOfChild, part

    /// The root store, and a function that makes scopes of a key.
    func make() -> (root: RootStore<Hotel, Action>, scope: (Int) -> Store<Int?, Action>, held: [any Actor & Sendable]) {
      switch self {
      case .rule:
        let root = RootStore(initialState: Hotel(), emits: .whenDifferent { $0.version }, reducer: reduce)
        return (root, { root.scope(to: \.rooms, at: $0) }, [])
      case .ruleOfChild:
        let root = RootStore(initialState: Hotel(), reducer: reduce)
        let child = root.childStore(
          initialState: 0, stateMapping: { hotel, _ in hotel }, emits: .whenDifferent { $0.version }
        ) { _, _ in }
        return (root, { child.scope(to: \.rooms, at: $0) }, [child])
      case .part:
        let root = RootStore(initialState: Hotel(), reducer: reduce)
        let child = root.part(\.self).childStore(initialState: 0, stateMapping: { hotel, _ in hotel }) { _, _ in }
        return (root, { child.scope(to: \.rooms, at: $0) }, [child])
      }
    }
  }

  @Test(arguments: Leaving.allCases)
  func `a write of an omitted commit counts with the next commit`(leaving: Leaving) async throws {
    let (root, scope, held) = leaving.make()
    let states = (1...3).map { scope($0).record() }
    for action: Action in [.write(1, 5), .write(1, 6), .all([.write(2, 7), .publish]), .publish] {
      try await root.send(action)
    }
    await states[0].expectOnly(0, 6)
    await states[1].expectOnly(0, 7)
    await states[2].expectOnly(0)
    await root.shutdown()
    withExtendedLifetime(held) {}
  }

  /// Nothing changes for a follower that has already seen that collection.
  @Test(arguments: Leaving.allCases)
  func `a collection restored before the next commit counts as the one that was shown`(leaving: Leaving)
    async throws
  {
    let (root, scope, held) = leaving.make()
    let states = (1...3).map { scope($0).record() }
    try await root.send(.keep)
    for action: Action in [
      .write(1, 5), .all([.bringBack, .publish]), .write(1, 6), .all([.bringBack, .write(2, 7), .publish]),
    ] { try await root.send(action) }
    await states[0].expectOnly(0)
    await states[1].expectOnly(0, 7)
    await states[2].expectOnly(0)
    await root.shutdown()
    withExtendedLifetime(held) {}
  }

  /// The kind of the late follower, and the key of the earlier one.
  enum Coming: CaseIterable {
    case sameKey, otherKey, scopeOfScope, effect

    func first(_ scope: (Int) -> Store<Int?, Action>) -> any Sendable {
      scope(self == .otherKey ? 2 : 1).states() as StateSequence<Int?>
    }
  }

  /// The follower has seen a value that no longer exists at the next commit. Without an element for that commit, it
  /// would show the value forever.
  @Test(arguments: Leaving.allCases, Coming.allCases)
  func `a follower that has seen a value that a restore removes is told`(leaving: Leaving, coming: Coming) async throws
  {
    for action: Action in [.all([.bringBack, .publish]), .all([.bringBack, .write(3, 1), .publish])] {
      let (root, scope, held) = leaving.make()
      let first = coming.first(scope)
      try await root.send(.all([.keep, .write(1, 5)]))
      let late = Record<Int?>()
      var sequence: StateSequence<Int?>?
      switch coming {
      case .sameKey, .otherKey: sequence = scope(1).states()
      case .scopeOfScope: sequence = scope(1).scope { $0 }.states()
      case .effect:
        scope(1).subscribe(
          effect: .onChange(of: { $0 }) { value in
            late.add(value)
            return nil
          })
      }
      try await root.send(action)
      await root.shutdown()
      if let sequence { for await value in sequence { late.add(value) } }
      #expect(late.all == [5, 0], "\(action)")
      withExtendedLifetime((first, held)) {}
    }
  }

  private struct Name: Hashable, Sendable {
    let number: Int
    let comparisons: Counter

    static func == (one: Name, other: Name) -> Bool {
      one.comparisons.increment()
      return one.number == other.number
    }
    func hash(into hasher: inout Hasher) { hasher.combine(number) }
  }

  private struct Inn: Sendable {
    var rooms: Keyed<Name, Int> = [:]
    var version = 0
  }

  @Test func `a follower does not compare its key with each key that an omitted commit wrote`() async throws {
    let comparisons = Counter()
    let names = (0..<400).map { Name(number: $0, comparisons: comparisons) }
    let root = RootStore<Inn, Bool>(initialState: Inn(), emits: .whenDifferent { $0.version }) { inn, isPublished in
      if isPublished { inn.version += 1 } else { for name in names { inn.rooms[name, default: 0] += 1 } }
    }
    let first = root.scope(to: \.rooms, at: names[0]).states()
    try await root.send(false)
    let before = comparisons.count
    let states = names.map { root.scope(to: \.rooms, at: $0).states() }
    try await root.send(true)
    // Two constant numbers of comparisons for each: when it begins, and when its key is passed on.
    #expect(comparisons.count - before < 40 * names.count)
    await root.shutdown()
    #expect(await first.collect() == [nil, 1])
    for states in states { #expect(await states.collect() == [1, 1]) }
  }

  /// A repeated value is allowed only if an omitted commit wrote the key, and nothing is missing.
  @Test(arguments: [1, 2, 3].map { UInt64($0) } + [UInt64.random(in: .min ... .max)])
  func `random writes, some omitted and some restored`(seed: UInt64) async throws {
    var random = SeededGenerator(seed: seed)
    for leaving in Leaving.allCases {
      let (root, scope, held) = leaving.make()
      var model = Hotel()
      // The values that each follower must have after each commit that is not left out.
      var followers: [(key: Int, states: StateSequence<Int?>, published: [Int?])] = []
      for _ in 0..<300 {
        let action: Action
        switch Int.random(in: 0..<8, using: &random) {
        case 0: action = .keep
        case 1: action = .bringBack
        case 2, 3: action = .publish
        case 4:
          let key = Int.random(in: 1...3, using: &random)
          action = .all([.write(key, Int.random(in: 1...9, using: &random)), .publish])
        default: action = .write(Int.random(in: 1...3, using: &random), Int.random(in: 1...9, using: &random))
        }
        if Int.random(in: 0..<10, using: &random) == 0 {
          let key = Int.random(in: 1...3, using: &random)
          followers.append((key, scope(key).states(), [model.rooms[key]]))
        }
        let version = model.version
        Self.reduce(&model, action)
        try await root.send(action)
        guard model.version > version else { continue }
        for index in followers.indices { followers[index].published.append(model.rooms[followers[index].key]) }
      }
      await root.shutdown()
      for (key, states, published) in followers {
        var read: [Int?] = []
        for await value in states { read.append(value) }
        // The elements are exactly the published changes.
        #expect(read.withoutRepeats == published.withoutRepeats, "seed \(seed), \(leaving), key \(key)")
        #expect(read.count <= published.count, "seed \(seed), \(leaving), key \(key)")
      }
      withExtendedLifetime(held) {}
    }
  }
}

extension [Int?] {
  fileprivate var withoutRepeats: [Int?] {
    reduce(into: []) { if $0.isEmpty || $0[$0.count - 1] != $1 { $0.append($1) } }
  }
}
