/// The features that programs may use. Each can be excluded, so that runs continue although something is known to fail.
public struct Features: OptionSet, Codable, Sendable {
  public let rawValue: Int
  public init(rawValue: Int) { self.rawValue = rawValue }

  public static let names: [(name: String, feature: Features)] = [
    ("shutdowns", .shutdowns), ("rootShutdowns", .rootShutdowns), ("releases", .releases), ("observers", .observers),
    ("observerMoves", .observerMoves), ("observerCancels", .observerCancels), ("interceptors", .interceptors),
    ("interceptorShutdowns", .interceptorShutdowns), ("interceptorEnds", .interceptorEnds), ("filters", .filters),
    ("heldMemory", .heldMemory), ("middleware", .middleware), ("histories", .histories), ("emissions", .emissions),
    ("shuffling", .shuffling), ("mainActor", .mainActor), ("closures", .closures), ("bursts", .bursts),
    ("contents", .contents), ("statistics", .statistics), ("projections", .projections), ("selectors", .selectors),
    ("shared", .shared), ("stalls", .stalls), ("heldSequences", .heldSequences), ("heldProxies", .heldProxies),
    ("nestedShutdowns", .nestedShutdowns), ("polls", .polls),
    ("parts", .parts), ("keys", .keys), ("trees", .trees), ("effects", .effects), ("stateEffects", .stateEffects),
    ("lifts", .lifts), ("carrying", .carrying), ("lastActions", .lastActions), ("finishes", .finishes),
    ("follows", .follows), ("idTypes", .idTypes), ("ends", .ends),
    ("directories", .directories), ("followersOutside", .followersOutside), ("mixedPolicies", .mixedPolicies),
    ("freely", .freely), ("makerCycles", .makerCycles), ("endsAbove", .endsAbove),
    ("droppedDirectories", .droppedDirectories), ("performs", .performs),
  ]

  public static let shutdowns = Features(rawValue: 1 << 0)
  public static let rootShutdowns = Features(rawValue: 1 << 1)
  public static let releases = Features(rawValue: 1 << 2)
  public static let observers = Features(rawValue: 1 << 3)
  public static let observerMoves = Features(rawValue: 1 << 4)
  public static let observerCancels = Features(rawValue: 1 << 5)
  public static let interceptors = Features(rawValue: 1 << 6)
  public static let interceptorShutdowns = Features(rawValue: 1 << 7)
  /// The check that no task of a store runs after `shutdown` has returned.
  public static let interceptorEnds = Features(rawValue: 1 << 8)
  public static let filters = Features(rawValue: 1 << 9)
  /// The check that no state is alive after the end, though proxies and sequences are held.
  public static let heldMemory = Features(rawValue: 1 << 10)
  public static let middleware = Features(rawValue: 1 << 11)
  public static let histories = Features(rawValue: 1 << 12)
  public static let emissions = Features(rawValue: 1 << 13)
  public static let shuffling = Features(rawValue: 1 << 14)
  public static let mainActor = Features(rawValue: 1 << 15)
  /// Mappings, filters and observers that dispatch.
  public static let closures = Features(rawValue: 1 << 16)
  /// Floods of more actions than one turn of the executor takes.
  public static let bursts = Features(rawValue: 1 << 17)
  public static let contents = Features(rawValue: 1 << 18)
  public static let statistics = Features(rawValue: 1 << 19)
  public static let projections = Features(rawValue: 1 << 20)
  public static let selectors = Features(rawValue: 1 << 21)
  public static let shared = Features(rawValue: 1 << 22)
  public static let stalls = Features(rawValue: 1 << 23)

  /// Sequences that are held after their end.
  public static let heldSequences = Features(rawValue: 1 << 24)
  /// Scopes, selectors and projections that are held after their store's end.
  public static let heldProxies = Features(rawValue: 1 << 25)
  /// Interceptors that shut down a store other than the root.
  public static let nestedShutdowns = Features(rawValue: 1 << 26)
  public static let polls = Features(rawValue: 1 << 27)

  public static let parts = Features(rawValue: 1 << 28)
  public static let keys = Features(rawValue: 1 << 29)

  // The families: trees and tasks that use them, effects step by step, effects that end stores, directories.
  public static let trees = Features(rawValue: 1 << 30)
  public static let effects = Features(rawValue: 1 << 31)
  public static let ends = Features(rawValue: 1 << 32)
  public static let directories = Features(rawValue: 1 << 33)

  public static let stateEffects = Features(rawValue: 1 << 34)
  /// Interceptors of parts and elements.
  public static let lifts = Features(rawValue: 1 << 35)
  public static let carrying = Features(rawValue: 1 << 36)
  public static let lastActions = Features(rawValue: 1 << 37)
  public static let finishes = Features(rawValue: 1 << 38)
  /// Effects that wait for states.
  public static let follows = Features(rawValue: 1 << 39)
  /// Ids that differ only in their type.
  public static let idTypes = Features(rawValue: 1 << 40)
  /// Effects that let their own store finish, or one above it.
  public static let endsAbove = Features(rawValue: 1 << 41)
  /// In the family of ends: effects that follow stores of their tree that are neither their own nor below it.
  public static let followersOutside = Features(rawValue: 1 << 42)

  public static let mixedPolicies = Features(rawValue: 1 << 43)
  /// Effects that several tasks begin, without waiting for each other.
  public static let freely = Features(rawValue: 1 << 44)
  /// Makers of a directory that request each other's stores.
  public static let makerCycles = Features(rawValue: 1 << 45)
  /// Directories that are released without a shutdown.
  public static let droppedDirectories = Features(rawValue: 1 << 46)

  /// Actions given with `perform`, by tasks and by effects, and commits that cancel their own effects.
  public static let performs = Features(rawValue: 1 << 47)

  public static let all = Features(rawValue: (1 << 48) - 1)
}

public struct SeededGenerator: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) { state = seed }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}

extension Program {
  public static func seed(base: UInt64, index: Int) -> UInt64 { base &+ UInt64(truncatingIfNeeded: index) }

  public init(seed: UInt64, features: Features = .all) {
    var maker = ProgramMaker(seed: seed, features: features)
    self = maker.make()
  }
}

private struct ProgramMaker {
  var random: SeededGenerator
  let features: Features
  var program = Program()
  var nextKey = 0
  var readers: [Int] = []
  var observers: [Int] = []
  /// Whether most operations are about keys of a root store that leaves out commits.
  var isAboutKeys = false

  init(seed: UInt64, features: Features) {
    random = SeededGenerator(seed: seed)
    // Consecutive seeds must give unrelated programs.
    random = SeededGenerator(seed: random.next() ^ 0x5DEE_CE66)
    self.features = features
  }

  mutating func below(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }

  /// True once in `number` times; never if a feature is excluded.
  mutating func once(in number: Int, _ feature: Features = []) -> Bool {
    let isTrue = below(number) == 0
    return isTrue && features.isSuperset(of: feature)
  }

  mutating func make() -> Program {
    switch below(8) {
    case 0 where features.contains(.mainActor): program.executor = .main
    case 1...2 where features.contains(.shuffling): program.executor = .shuffling(random.next())
    default: program.executor = .own
    }
    program.stores = [store(parent: -1)]
    for number in 1..<(1 + below(5)) {
      var child = store(parent: below(3) == 0 ? 0 : below(number))
      child.isEarly = !once(in: 3) && program.stores[child.parent].isEarly
      program.stores.append(child)
    }
    if once(in: 8, [.keys, .emissions]) {
      isAboutKeys = true
      program.stores[0].emits = once(in: 2) ? .whenNumberDiffers : .whenEven
    }
    if once(in: 2, .interceptors) { program.interceptor = interceptor() }
    program.dispatches = below(6)
    let count = 5 + below(36)
    let tasks = 1 + below(4)
    program.tasks = Array(repeating: [], count: tasks)
    for (number, store) in program.stores.enumerated() where !store.isEarly {
      program.tasks[below(tasks)].append(.make(number))
    }
    for _ in 0..<count {
      let task = below(tasks)
      guard let operation = operation() else { continue }
      // In most programs ends come late, so that there is something to end.
      if operation.isEnd, program.tasks[task].count * tasks * 2 < count, below(4) != 0 { continue }
      program.tasks[task].append(operation)
    }
    // Stores made during the run are not all made at once.
    for task in program.tasks.indices where once(in: 2) {
      if let first = program.tasks[task].first, case .make = first {
        program.tasks[task].swapAt(0, below(program.tasks[task].count))
      }
    }
    program.ending = once(in: 3) ? .release : .shutdown(finishing: once(in: 3))
    return program
  }

  mutating func store(parent: Int) -> StoreSpec {
    var store = StoreSpec(parent: parent)
    if once(in: 3, .middleware) {
      for _ in 0..<(1 + below(2)) { store.middleware.append(middleware()) }
    }
    if once(in: 4, .emissions) { store.emits = Emits.allCases.randomElement(using: &random) ?? .always }
    if once(in: 5, .histories) { store.history = 1 + below(12) }
    store.isSplit = once(in: 4)
    store.isOfPart = once(in: 3, .parts) && parent >= 0
    return store
  }

  mutating func middleware() -> MiddlewareRule {
    let rule = below(8)
    return switch below(9) {
    case 0: .passing
    case 1: .logging
    case 2: .timing
    case 3: .rejecting(rule)
    case 4: .guarding(rule)
    case 5: .stopping(rule)
    case 6: .replacing(rule)
    case 7: .doubling(rule)
    default: .dispatching(rule)
    }
  }

  mutating func interceptor() -> InterceptorSpec {
    var interceptor = InterceptorSpec()
    interceptor.divisor = 1 + below(3)
    interceptor.yields = once(in: 3) ? below(4) : 0
    interceptor.isMatching = once(in: 3)
    return interceptor
  }

  mutating func action() -> ActionSpec {
    var change: Change =
      switch below(4) {
      case 0: .nothing
      case 1, 2: .number(below(5))
      default: .optional(once(in: 2) ? nil : below(3))
      }
    if once(in: isAboutKeys ? 3 : 10, .keys) { change = once(in: 2) ? .keep : .bringBack }
    var echoes: Echoes = []
    if once(in: 8) { echoes.insert(.reducer) }
    if once(in: 6) { echoes.insert(.interceptor) }
    if once(in: 6) { echoes.insert(.middleware) }
    if once(in: 60, .interceptorShutdowns) { echoes.insert(.shutdown) }
    return ActionSpec(change, rule: below(8), echoes: echoes)
  }

  mutating func via() -> Via {
    if isAboutKeys, !once(in: 4) { return Via(0, views: [.keyed(below(3))]) }
    var via = Via(below(program.stores.count))
    via.isDirect = once(in: 2)
    if !via.isDirect, once(in: 8, .keys) {
      via.views.append(.keyed(below(3)))
    }
    if !via.isDirect, once(in: 2) {
      for _ in 0..<(1 + below(3)) {
        if let view = view() { via.views.append(view) }
      }
    }
    return via
  }

  mutating func view() -> View? {
    switch below(10) {
    case 0, 1: .identity
    case 2: .last
    case 3: .numbers
    case 4, 5: .optional
    case 6: features.contains(.selectors) ? .keyPath : nil
    case 7: features.contains(.selectors) ? (once(in: 2) ? .selector : .memoizing) : nil
    case 8: features.contains(.projections) ? .projection : nil
    default: features.contains(.closures) ? .dispatching : nil
    }
  }

  mutating func buffering() -> Buffering {
    switch below(5) {
    case 0: .newest(1 + below(4))
    case 1: .oldest(1 + below(4))
    default: .unbounded
    }
  }

  mutating func filter() -> Filter {
    once(in: 3, .filters) ? (Filter.allCases.randomElement(using: &random) ?? .none) : .none
  }

  mutating func operation() -> Operation? {
    switch below(100) {
    case 0..<22: return .dispatch(via(), action())
    case 22..<26:
      let via = via()
      return .burst(via, once(in: 600, .bursts) ? 1500 : 2 + below(12))
    case 26..<36: return .send(via(), action())
    case 36..<44: return .sendReading(via(), action())
    case 44..<46:
      let (via, count) = (via(), below(5))
      var actions: [ActionSpec] = []
      for _ in 0..<count { actions.append(action()) }
      return features.contains(.contents) ? .sendContents(via, actions) : nil
    case 46..<52: return .state(via())
    case 52..<54:
      let (via, count) = (via(), 2 + below(20))
      return features.contains(.polls) ? .poll(via, count) : nil
    case 54..<70: return .subscribe(subscribing())
    case 70..<73: return readers.randomElement(using: &random).map { .cancelReader($0) }
    case 73..<75: return readers.randomElement(using: &random).map { .drop($0) }
    case 75..<79: return features.contains(.observers) ? .observe(observing()) : nil
    case 79..<81:
      let via = via()
      guard features.contains(.observerMoves) else { return nil }
      return observers.randomElement(using: &random).map { .moveObserver($0, via) }
    case 81..<83:
      guard features.contains(.observerCancels) else { return nil }
      return observers.randomElement(using: &random).map { .cancelObserver($0) }
    case 83..<88:
      let store = below(program.stores.count)
      return features.contains(.releases) ? .release(store) : nil
    case 88..<90:
      let (store, finishing) = (below(program.stores.count), once(in: 2))
      guard features.contains(store == 0 ? .rootShutdowns : .shutdowns) else { return nil }
      return .shutDown(store, finishing: finishing)
    case 90..<92: return features.contains(.interceptors) ? .intercept(interceptor()) : nil
    case 92..<94: return features.contains(.statistics) ? .statistics : nil
    case 94..<96: return .history(below(program.stores.count))
    default: return .yield
    }
  }

  mutating func subscribing() -> Subscribing {
    var subscribing = Subscribing(key: nextKey, via: via())
    nextKey += 1
    readers.append(subscribing.key)
    subscribing.isStream = once(in: 2)
    subscribing.buffering = buffering()
    subscribing.filter = filter()
    subscribing.filterDispatches = once(in: 6, .closures)
    switch below(10) {
    case 0, 1: subscribing.consumption = .taking(below(6))
    case 2, 3:
      let (count, afterEnd) = (below(4), once(in: 2))
      if features.contains(.stalls) { subscribing.consumption = .stalling(count, afterEnd: afterEnd) }
    case 4: subscribing.consumption = .unread
    case 5: if features.contains(.shared), !subscribing.via.views.hidesPositions { subscribing.consumption = .shared }
    case 6: subscribing.consumption = features.contains(.heldSequences) ? .keeping : .toEnd
    default: subscribing.consumption = .toEnd
    }
    return subscribing
  }

  mutating func observing() -> Observing {
    var observing = Observing(key: nextKey, via: via())
    nextKey += 1
    observers.append(observing.key)
    observing.buffering = buffering()
    observing.filter = filter()
    if once(in: 3) { observing.deadAfter = 1 + below(5) }
    observing.yields = once(in: 2) ? below(3) : 0
    observing.dispatches = once(in: 5, .closures)
    return observing
  }
}
