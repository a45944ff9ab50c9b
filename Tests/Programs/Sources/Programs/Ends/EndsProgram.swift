/// A random program of effects that end each other's stores, in one tree or several. Every call returns long before the
/// time limit of shutdowns that let effects finish.
public struct EndsProgram: Codable, Sendable, Equatable {
  /// The first is the root of the first tree; each further store without a parent is the root of another.
  public var stores: [Place] = [Place()]
  public var tasks: [[Step]] = []

  public init() {}

  public struct Place: Codable, Sendable, Equatable {
    public var parent = -1
    public var isOfPart = false
    /// The acts of the effect of its last action.
    public var atEnd: [Act]?
    /// The acts of the effect of its state, while that is odd.
    public var whileOdd: [Act]?
    /// The acts of its observer at the first state.
    public var observing: [Act]?

    public init(parent: Int = -1) { self.parent = parent }
  }

  public enum Way: Int, Codable, Sendable, CaseIterable {
    case cancelling, finishing
  }

  /// The task in which an effect shuts down a store.
  public enum Position: Int, Codable, Sendable, CaseIterable {
    case itself, childTask, task
    /// A task that the effect does not await.
    case left
  }

  public indirect enum Act: Codable, Sendable, Equatable {
    case yield(Int)
    /// Follows the states of a store to their end.
    case follow(Int)
    /// Follows the states until there have been `count`.
    case await(Int, count: Int)
    case dispatch([Act], to: Int)
    case send(to: Int)
    case end(Int, Way, Position)
    case release(Int)
    /// Performs acts in the body of `withStore`, or in an effect of that store.
    case within([Act], inEffect: Bool)
  }

  public enum Step: Codable, Sendable, Equatable {
    /// Dispatches an action whose effect performs the acts.
    case give([Act], to: Int, hasID: Bool)
    case end(Int, Way)
    case release(Int)
    case yield(Int)
  }
}

extension EndsProgram {
  func path(to store: Int) -> [Int] {
    var path: [Int] = []
    var next = store
    while next >= 0 {
      path.append(next)
      next = stores[next].parent
    }
    return path.reversed()
  }

  func isStore(_ store: Int, atOrBelow other: Int) -> Bool { path(to: store).contains(other) }

  func root(of store: Int) -> Int { path(to: store)[0] }

  /// Maps each act, given the store that its effect belongs to.
  mutating func map(_ change: (Act, _ store: Int) -> Act) {
    func mapped(_ acts: [Act], _ store: Int) -> [Act] {
      acts.map { act in
        switch change(act, store) {
        case .dispatch(let acts, to: let other): .dispatch(mapped(acts, other), to: other)
        case .within(let acts, let inEffect): .within(mapped(acts, store), inEffect: inEffect)
        case let act: act
        }
      }
    }
    for store in stores.indices {
      stores[store].atEnd = stores[store].atEnd.map { mapped($0, store) }
      stores[store].whileOdd = stores[store].whileOdd.map { mapped($0, store) }
      stores[store].observing = stores[store].observing.map { mapped($0, store) }
    }
    tasks = tasks.map { steps in
      steps.map { step in
        guard case .give(let acts, let store, let hasID) = step else { return step }
        return .give(mapped(acts, store), to: store, hasID: hasID)
      }
    }
  }

  func contains(where isMeant: (Act, _ store: Int) -> Bool) -> Bool {
    var copy = self
    var isFound = false
    copy.map { act, store in
      if isMeant(act, store) { isFound = true }
      return act
    }
    return isFound
  }

  /// Whether an effect follows the states of another tree. These end only with that tree, so calls that await the
  /// effect may rightly wait.
  var hasFollowersOfOtherTrees: Bool {
    contains { act, store in
      switch act {
      case .follow(let other), .await(let other, _): root(of: other) != root(of: store)
      case .yield, .dispatch, .send, .end, .release, .within: false
      }
    }
  }
}

extension EndsProgram {
  public init(seed: UInt64, features: Features = .all) {
    var maker = EndsProgramMaker(seed: seed, features: features)
    self = maker.make()
  }
}

private struct EndsProgramMaker {
  var random: SeededGenerator
  let features: Features
  var program = EndsProgram()
  /// Whether effects may follow the states of other trees.
  var crosses = false

  init(seed: UInt64, features: Features) {
    random = SeededGenerator(seed: seed)
    random = SeededGenerator(seed: random.next() ^ 0xE2D5)
    self.features = features
  }

  mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  mutating func once(in number: Int, _ feature: Features = []) -> Bool {
    let isTrue = below(number) == 0
    return isTrue && features.isSuperset(of: feature)
  }

  mutating func make() -> EndsProgram {
    for number in 1..<(2 + below(5)) {
      var store = EndsProgram.Place(parent: once(in: 5) ? -1 : below(number))
      store.isOfPart = store.parent >= 0 && once(in: 4, .parts)
      program.stores.append(store)
    }
    crosses = once(in: 4)
    for store in program.stores.indices {
      if program.stores[store].parent >= 0, once(in: 3, .lastActions) {
        program.stores[store].atEnd = acts(from: store)
      }
      if once(in: 4, .stateEffects) { program.stores[store].whileOdd = acts(from: store) }
      if once(in: 5, .observers) { program.stores[store].observing = acts(from: store) }
    }
    for _ in 0..<(1 + below(3)) {
      program.tasks.append((0..<(2 + below(8))).map { _ in step() })
    }
    // If an effect follows states that do not end with its store, a shutdown from that store or from below it would
    // wait for its whole time limit. So these shutdowns cancel instead.
    if program.contains(where: { act, store in
      if case .follow(let other) = act { return !program.isStore(other, atOrBelow: store) }
      if case .await(let other, _) = act { return !program.isStore(other, atOrBelow: store) }
      return false
    }) || !features.contains(.endsAbove) {
      program.map { [program] act, store in
        if case .end(let other, .finishing, let position) = act, program.isStore(store, atOrBelow: other) {
          return .end(other, .cancelling, position)
        }
        return act
      }
    }
    return program
  }

  mutating func store() -> Int { below(program.stores.count) }

  mutating func step() -> EndsProgram.Step {
    switch below(10) {
    case 0: return .yield(1 + below(10))
    case 1: return .release(store())
    case 2: return .end(store(), once(in: 2) ? .cancelling : .finishing)
    default:
      let store = store()
      return .give(acts(from: store), to: store, hasID: once(in: 3))
    }
  }

  mutating func acts(from store: Int, depth: Int = 0) -> [EndsProgram.Act] {
    (0..<(1 + below(3))).map { _ in act(from: store, depth) }
  }

  mutating func act(from store: Int, _ depth: Int) -> EndsProgram.Act {
    let other = self.store()
    switch below(depth > 1 ? 10 : 13) {
    case 0...1: return .yield(1 + below(20))
    case 2...4:
      let isElsewhere = program.root(of: other) != program.root(of: store)
      let isOutside = !isElsewhere && !program.isStore(other, atOrBelow: store)
      if isOutside && !features.contains(.followersOutside) || isElsewhere && !crosses { return .yield(1) }
      return once(in: 3) ? .await(other, count: 1 + below(4)) : .follow(other)
    case 5...8:
      let place = EndsProgram.Position.allCases[below(4)]
      return .end(other, once(in: 3) ? .cancelling : .finishing, place)
    case 9: return once(in: 2) ? .release(other) : .send(to: other)
    case 10: return .dispatch(acts(from: other, depth: depth + 1), to: other)
    default:
      // This is awaited, so its acts follow no states that others end.
      let acts = acts(from: store, depth: depth + 1).filter {
        switch $0 {
        case .follow, .await: false
        default: true
        }
      }
      return .within(acts, inEffect: once(in: 2))
    }
  }
}

extension EndsProgram {
  var simplifications: [() -> EndsProgram?] {
    var all: [() -> EndsProgram?] = []
    func add(_ change: @escaping (inout EndsProgram) -> Void) {
      all.append {
        var changed = self
        change(&changed)
        return changed
      }
    }
    for task in tasks.indices { add { $0.tasks.remove(at: task) } }
    for task in tasks.indices {
      for step in tasks[task].indices { add { $0.tasks[task].remove(at: step) } }
    }
    let last = stores.count - 1
    if last > 0, !stores.contains(where: { $0.parent == last }) {
      add { program in
        program.stores.removeLast()
        for store in program.stores.indices {
          program.stores[store].atEnd = program.stores[store].atEnd?.without(last)
          program.stores[store].whileOdd = program.stores[store].whileOdd?.without(last)
          program.stores[store].observing = program.stores[store].observing?.without(last)
        }
        program.tasks = program.tasks.map { $0.compactMap { $0.without(last) } }
      }
    }
    for store in stores.indices {
      add { $0.stores[store].isOfPart = false }
      add { $0.stores[store].atEnd = nil }
      add { $0.stores[store].whileOdd = nil }
      add { $0.stores[store].observing = nil }
      for (path, acts) in [
        (\Place.atEnd, stores[store].atEnd), (\.whileOdd, stores[store].whileOdd),
        (\.observing, stores[store].observing),
      ] {
        for simpler in acts?.simplifications ?? [] { add { $0.stores[store][keyPath: path] = simpler } }
      }
    }
    for task in tasks.indices {
      for step in tasks[task].indices {
        guard case .give(let acts, let store, let hasID) = tasks[task][step] else { continue }
        if hasID { add { $0.tasks[task][step] = .give(acts, to: store, hasID: false) } }
        for simpler in acts.simplifications { add { $0.tasks[task][step] = .give(simpler, to: store, hasID: hasID) } }
      }
    }
    return all
  }
}

extension [EndsProgram.Act] {
  fileprivate var simplifications: [[EndsProgram.Act]] {
    var all: [[EndsProgram.Act]] = []
    for place in indices {
      var fewer = self
      fewer.remove(at: place)
      all.append(fewer)
      func replace(by act: EndsProgram.Act) {
        var changed = self
        changed[place] = act
        all.append(changed)
      }
      switch self[place] {
      case .yield(let count) where count > 1: replace(by: .yield(1))
      case .end(let store, let way, let position) where position != .itself:
        replace(by: .end(store, way, .itself))
      case .dispatch(let acts, let store):
        for simpler in acts.simplifications { replace(by: .dispatch(simpler, to: store)) }
      case .within(let acts, let inEffect):
        all.append(Array(self[..<place]) + acts + Array(self[(place + 1)...]))
        for simpler in acts.simplifications { replace(by: .within(simpler, inEffect: inEffect)) }
      default: break
      }
    }
    return all
  }

  fileprivate func without(_ store: Int) -> [EndsProgram.Act] {
    compactMap { act in
      switch act {
      case .follow(store), .await(store, _), .dispatch(_, to: store), .send(to: store), .end(store, _, _),
        .release(store):
        nil
      case .dispatch(let acts, let other): .dispatch(acts.without(store), to: other)
      case .within(let acts, let inEffect): .within(acts.without(store), inEffect: inEffect)
      default: act
      }
    }
  }
}

extension EndsProgram.Step {
  fileprivate func without(_ store: Int) -> EndsProgram.Step? {
    switch self {
    case .give(_, to: store, _), .end(store, _), .release(store): nil
    case .give(let acts, let other, let hasID): .give(acts.without(store), to: other, hasID: hasID)
    default: self
    }
  }
}

extension EndsProgram: CustomStringConvertible {
  public var description: String {
    var lines = ["ends"]
    for (number, store) in stores.enumerated() {
      lines.append(
        store.parent < 0
          ? "store \(number): root" : "store \(number): child of \(store.isOfPart ? "a part of " : "")\(store.parent)")
      if let acts = store.atEnd { lines.append("  at its end: \(acts)") }
      if let acts = store.whileOdd { lines.append("  while its state is odd: \(acts)") }
      if let acts = store.observing { lines.append("  observed by: \(acts)") }
    }
    for (number, task) in tasks.enumerated() {
      lines.append("task \(number):")
      lines += task.enumerated().map { "  \($0.offset): \($0.element)" }
    }
    return lines.joined(separator: "\n")
  }
}

extension EndsProgram.Act: CustomStringConvertible {
  public var description: String {
    switch self {
    case .yield(let count): "yield \(count)"
    case .follow(let store): "follow \(store)"
    case .await(let store, let count): "await \(count) states of \(store)"
    case .dispatch(let acts, let store): "dispatch \(acts) to \(store)"
    case .send(let store): "send to \(store)"
    case .end(let store, let way, let place): "shut down \(store), \(way), \(place)"
    case .release(let store): "release \(store)"
    case .within(let acts, let inEffect): "with a store\(inEffect ? "'s effect" : "") \(acts)"
    }
  }
}
