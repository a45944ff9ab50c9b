/// A random program: a tree, and tasks that use it.
public struct Program: Codable, Sendable, Equatable {
  public var executor: Executor = .own
  /// The first is the root.
  public var stores: [StoreSpec] = [StoreSpec()]
  public var interceptor: InterceptorSpec?
  public var tasks: [[Operation]] = []
  public var ending: Ending = .shutdown(finishing: false)
  /// The number of dispatches by closures, besides those that an action requests.
  public var dispatches = 4

  public init() {}
}

public enum Executor: Codable, Sendable, Equatable {
  case own
  case main
  case shuffling(UInt64)
}

public struct StoreSpec: Codable, Sendable, Equatable {
  public var parent = -1
  /// Whether it follows only a part of its parent's state (`Snapshot.part`).
  public var isOfPart = false
  /// Whether it is made before the tasks begin.
  public var isEarly = true
  public var middleware: [MiddlewareRule] = []
  public var emits: Emits = .always
  public var history: Int?
  public var isSplit = false

  public init(parent: Int = -1) {
    self.parent = parent
  }
}

public struct InterceptorSpec: Codable, Sendable, Equatable {
  /// It starts tasks for actions whose rule is a multiple of this.
  public var divisor = 1
  public var yields = 0
  public var isMatching = false

  public init() {}
}

/// How a store is reached: directly, or through proxies.
public struct Via: Codable, Sendable, Equatable {
  public var store: Int
  /// Whether the store itself is used, if it is still held.
  public var isDirect = false
  public var views: [View] = []

  public init(_ store: Int, isDirect: Bool = false, views: [View] = []) {
    self.store = store
    self.isDirect = isDirect
    self.views = views
  }
}

public enum Consumption: Codable, Sendable, Equatable {
  case toEnd
  /// Reads some elements, then releases the sequence.
  case taking(Int)
  /// Reads some elements, and the rest after all tasks are done or after the tree's end.
  case stalling(Int, afterEnd: Bool)
  /// Reads to the end, and holds the sequence until the run is over.
  case keeping
  /// Held and never read.
  case unread
  /// Two tasks read it to its end.
  case shared
}

public struct Subscribing: Codable, Sendable, Equatable {
  public var key: Int
  public var via: Via
  public var isStream = false
  public var buffering: Buffering = .unbounded
  public var filter: Filter = .none
  /// Whether its filter dispatches, within the run's budget.
  public var filterDispatches = false
  public var consumption: Consumption = .toEnd

  public init(key: Int, via: Via) {
    self.key = key
    self.via = via
  }
}

public struct Observing: Codable, Sendable, Equatable {
  public var key: Int
  public var via: Via
  public var buffering: Buffering = .unbounded
  public var filter: Filter = .none
  public var deadAfter: Int?
  public var yields = 0
  public var dispatches = false

  public init(key: Int, via: Via) {
    self.key = key
    self.via = via
  }
}

public enum Operation: Codable, Sendable, Equatable {
  case dispatch(Via, ActionSpec)
  case burst(Via, Int)
  case send(Via, ActionSpec)
  case sendReading(Via, ActionSpec)
  case sendContents(Via, [ActionSpec])
  case state(Via)
  case poll(Via, Int)
  case subscribe(Subscribing)
  case cancelReader(Int)
  case drop(Int)
  case observe(Observing)
  case moveObserver(Int, Via)
  case cancelObserver(Int)
  case make(Int)
  case release(Int)
  case shutDown(Int, finishing: Bool)
  case intercept(InterceptorSpec)
  case statistics
  case history(Int)
  case yield

  var isEnd: Bool {
    switch self {
    case .release, .shutDown: true
    default: false
    }
  }

  var store: Int? {
    switch self {
    case .dispatch(let via, _), .burst(let via, _), .send(let via, _), .sendReading(let via, _),
      .sendContents(let via, _), .state(let via), .poll(let via, _), .moveObserver(_, let via):
      via.store
    case .subscribe(let subscribing): subscribing.via.store
    case .observe(let observing): observing.via.store
    case .make(let store), .release(let store), .shutDown(let store, _), .history(let store): store
    case .cancelReader, .drop, .cancelObserver, .intercept, .statistics, .yield: nil
    }
  }
}

public enum Ending: Codable, Sendable, Equatable {
  case shutdown(finishing: Bool)
  case release
}

extension Program {
  func path(to store: Int) -> [Int] {
    var path: [Int] = []
    var next = store
    while next >= 0 {
      path.append(next)
      next = stores[next].parent
    }
    return path.reversed()
  }

  /// The middleware for an action given to a store, in order.
  func middleware(of store: Int) -> [MiddlewareRule] {
    path(to: store).reversed().flatMap { stores[$0].middleware }
  }

  func isStore(_ store: Int, atOrBelow other: Int) -> Bool { path(to: store).contains(other) }
}

extension Program: CustomStringConvertible {
  public var description: String {
    var lines = ["executor \(executor)", "ending \(ending), dispatches \(dispatches)"]
    if let interceptor { lines.append("interceptor \(interceptor.text)") }
    for (number, store) in stores.enumerated() {
      var line =
        number == 0 ? "store 0: root" : "store \(number): child of \(store.isOfPart ? "a part of " : "")\(store.parent)"
      if !store.isEarly { line += ", made later" }
      if !store.middleware.isEmpty { line += ", middleware \(store.middleware)" }
      if store.emits != .always { line += ", emits \(store.emits)" }
      if let history = store.history { line += ", history \(history)" }
      if store.isSplit { line += ", two reducers" }
      lines.append(line)
    }
    for (number, task) in tasks.enumerated() {
      lines.append("task \(number):")
      lines += task.enumerated().map { "  \($0.offset): \($0.element)" }
    }
    return lines.joined(separator: "\n")
  }
}

extension Via: CustomStringConvertible {
  public var description: String {
    "\(isDirect ? "store" : "proxy") \(store)" + views.map { " | \($0)" }.joined()
  }
}

extension ActionSpec: CustomStringConvertible {
  public var description: String {
    "action(\(change), rule \(rule)" + (echoes.isEmpty ? ")" : ", echoes \(echoes.rawValue))")
  }
}

extension InterceptorSpec {
  var text: String { "for rules divisible by \(divisor), \(yields) yields\(isMatching ? ", matching" : "")" }
}

extension Subscribing: CustomStringConvertible {
  public var description: String {
    "#\(key) \(via), \(isStream ? "stream" : "sequence"), \(buffering), filter \(filter)"
      + (filterDispatches ? " that dispatches" : "") + ", \(consumption)"
  }
}

extension Observing: CustomStringConvertible {
  public var description: String {
    "#\(key) \(via), \(buffering), filter \(filter), \(yields) yields" + (deadAfter.map { ", dead after \($0)" } ?? "")
      + (dispatches ? ", dispatches" : "")
  }
}
