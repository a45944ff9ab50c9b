import Dispatch
import Puredux

/// Counts what there is of one sort: objects that are alive, tasks that hold something.
public final class LiveCount: Sendable {
  private struct Contents {
    var value = 0
    var waiting: [Gate] = []
  }

  private let contents = Guarded(Contents())

  public init() {}

  public var value: Int { contents.withLock { $0.value } }

  func add() { change(by: 1) }
  func subtract() { change(by: -1) }

  private func change(by number: Int) {
    let waiting = contents.withLock { contents in
      contents.value += number
      defer { contents.waiting = [] }
      return contents.waiting
    }
    for gate in waiting { gate.open() }
  }

  /// Returns when something is so, at which it looks at each change. False where it has not become so in half the time
  /// that counts as a standstill.
  func until(_ isSo: (Int) -> Bool) async -> Bool {
    let deadline = DispatchTime.now() + .seconds(Int(Watchdog.usualLimit.components.seconds) / 2)
    while true {
      let changed = Gate()
      let value = contents.withLock { contents in
        contents.waiting.append(changed)
        return contents.value
      }
      if isSo(value) { return true }
      if DispatchTime.now() >= deadline { return false }
      let alarm = DispatchWorkItem { changed.open() }
      DispatchQueue.global().asyncAfter(deadline: deadline, execute: alarm)
      await changed.wait()
      alarm.cancel()
    }
  }
}

/// An object that is counted while it is alive: in a state, an action or a closure.
final class Token: Sendable {
  private let count: LiveCount

  init(_ count: LiveCount) {
    self.count = count
    count.add()
  }

  deinit { count.subtract() }

  /// Keeps the closure that calls it holding it.
  @inline(never)
  func use() {}
}

/// What an action changes beside the count and the chain.
public enum Change: Codable, Sendable, Equatable {
  case nothing
  case number(Int)
  case optional(Int?)
  /// The root store keeps a copy of its slots, and takes it in place of those that there are.
  case keep, bringBack
}

/// What is done about an action beside reducing it.
public struct Echoes: OptionSet, Codable, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let reducer = Echoes(rawValue: 1)
  public static let interceptor = Echoes(rawValue: 2)
  public static let middleware = Echoes(rawValue: 4)
  /// The interceptor shuts the tree down.
  public static let shutdown = Echoes(rawValue: 8)
}

/// An action as a program names it.
public struct ActionSpec: Codable, Sendable, Equatable {
  public var change: Change
  /// What middleware, projections and interceptors go by.
  public var rule: Int
  public var echoes: Echoes

  public init(_ change: Change = .nothing, rule: Int = 0, echoes: Echoes = []) {
    self.change = change
    self.rule = rule
    self.echoes = echoes
  }
}

/// An action. `given` is unique among the calls of a run, and with `copy` among its commits.
public struct Action: Sendable {
  public var given: Int
  /// Which of the actions that middleware made of the one given.
  public var copy: UInt32 = 0
  /// The store that it is given to.
  public var store: Int
  public var change: Change
  public var rule: Int
  public var echoes: Echoes
  var token: Token?

  public init(given: Int, store: Int, spec: ActionSpec) {
    self.given = given
    self.store = store
    change = spec.change
    rule = spec.rule
    echoes = spec.echoes
  }

  /// The same as far as a run is concerned.
  func isSame(as other: Action) -> Bool {
    given == other.given && copy == other.copy && store == other.store && change == other.change
  }

  /// What middleware makes of it: the n-th of up to three.
  func made(_ number: UInt32) -> Action {
    var made = self
    made.copy = copy * 4 + number
    made.echoes = []
    return made
  }
}

/// What one store owns: from its count and chain its whole history can be told.
public struct Ledger: Sendable, Equatable {
  public var store: Int
  public var count = 0
  public var chain: UInt64 = 0
  public var number = 0
  public var optional: Int?
  var token: Token?

  public init(store: Int) {
    self.store = store
  }

  public mutating func reduce(_ action: Action) {
    enter(action)
    change(by: action)
  }

  mutating func enter(_ action: Action) {
    count += 1
    chain = mixed(mixed(chain, UInt64(truncatingIfNeeded: action.given)), UInt64(action.copy))
  }

  mutating func change(by action: Action) {
    switch action.change {
    case .nothing, .keep, .bringBack: break
    case .number(let number): self.number = number
    case .optional(let optional): self.optional = optional
    }
  }

  public static func == (lhs: Ledger, rhs: Ledger) -> Bool {
    lhs.store == rhs.store && lhs.count == rhs.count && lhs.chain == rhs.chain && lhs.number == rhs.number
      && lhs.optional == rhs.optional
  }
}

func mixed(_ value: UInt64, _ other: UInt64) -> UInt64 {
  var mixed = (value ^ other) &+ 0x9E37_79B9_7F4A_7C15
  mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
  mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
  return mixed ^ (mixed >> 31)
}

/// The state of every store and proxy of a tree: the ledgers of the stores on the path, or what a view leaves of them.
public struct Snapshot: Sendable {
  /// After how many commits of the tree it is; below zero where a view does not tell. Not a part of what is compared by
  /// `==`, so that there are duplicates.
  public var at: Int
  public var ledgers: [Ledger]
  /// What the root store keeps by keys: whatever was committed tells it, so it is no part of what is compared.
  public var slots: Keyed<Int, Int> = [:]
  /// A copy of its slots, from before.
  public var kept: Keyed<Int, Int> = [:]
  /// Which views it went through.
  public var mark: UInt64 = 0
  /// Which subscription of an observer it was delivered to.
  public var tag = -1

  public init(at: Int = 0, ledgers: [Ledger]) {
    self.at = at
    self.ledgers = ledgers
  }

  func with(_ local: Ledger) -> Snapshot {
    var composed = self
    composed.ledgers.append(local)
    return composed
  }

  /// The number of the store itself.
  public var number: Int { ledgers.last?.number ?? 0 }
  public var optional: Int? { ledgers.last?.optional }

  /// Without the stores above.
  public var lastOnly: Snapshot {
    var last = self
    last.ledgers = ledgers.suffix(1)
    last.mark = mixed(mark, 1)
    return last
  }

  /// The numbers, and nothing else.
  public var numbersOnly: Snapshot {
    var numbers = self
    numbers.ledgers = ledgers.map { ledger in
      var bare = Ledger(store: ledger.store)
      bare.number = ledger.number
      return bare
    }
    numbers.mark = mixed(mark, 2)
    return numbers
  }

  /// What a child store of a part follows: it changes with the numbers of the stores above.
  public var part: Snapshot {
    var part = numbersOnly
    part.slots = [:]
    return part
  }

  /// What the root store does with an action beside its ledger.
  mutating func fillSlots(by action: Action) {
    let key = action.rule % 3
    switch action.change {
    case .nothing: break
    case .number(let number): slots[key] = number
    case .optional(let optional): if optional != nil || slots[key] != nil { slots[key] = optional }
    case .keep: kept = slots
    case .bringBack: slots = kept
    }
  }

  /// The key that an action writes, if it is there or set.
  static func slot(writtenBy action: Action) -> Int? {
    switch action.change {
    case .nothing, .keep, .bringBack: nil
    case .number, .optional: action.rule % 3
    }
  }

  func marked(_ number: UInt64) -> Snapshot {
    var marked = self
    marked.mark = mixed(mark, number)
    return marked
  }

  /// Equal, and after the same commit.
  public func isSame(as other: Snapshot) -> Bool { at == other.at && self == other }
}

extension Snapshot: Equatable {
  public static func == (lhs: Snapshot, rhs: Snapshot) -> Bool { lhs.mark == rhs.mark && lhs.ledgers == rhs.ledgers }
}

extension Snapshot: CustomStringConvertible {
  public var description: String {
    let parts = ledgers.map { ledger in
      "\(ledger.store): \(ledger.count) commits \(String(ledger.chain & 0xFFFF, radix: 16)) n\(ledger.number)"
        + (ledger.optional.map { " o\($0)" } ?? "")
    }
    return "@\(at) [\(parts.joined(separator: ", "))]"
  }
}
