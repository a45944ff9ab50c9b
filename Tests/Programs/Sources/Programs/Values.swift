import Puredux

/// Counts live objects, or tasks that hold something.
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

  /// Returns true when the condition holds, which is checked at each change; false after half of the watchdog's usual
  /// limit.
  func until(_ isSo: (Int) -> Bool) async -> Bool {
    let deadline = ContinuousClock.now + Watchdog.usualLimit / 2
    while true {
      let changed = Gate()
      let value = contents.withLock { contents in
        contents.waiting.append(changed)
        return contents.value
      }
      if isSo(value) { return true }
      if ContinuousClock.now >= deadline { return false }
      let alarm = Task {
        try? await Task.sleep(until: deadline)
        changed.open()
      }
      await changed.wait()
      alarm.cancel()
    }
  }
}

/// An object in a state, an action or a closure that is counted while it is alive.
final class Token: Sendable {
  private let count: LiveCount

  init(_ count: LiveCount) {
    self.count = count
    count.add()
  }

  deinit { count.subtract() }

  /// Makes the calling closure retain the token.
  @inline(never)
  func use() {}
}

/// The change by an action, besides the count and the chain.
public enum Change: Codable, Sendable, Equatable {
  case nothing
  case number(Int)
  case optional(Int?)
  /// The root store saves a copy of its slots, or replaces the slots by the saved copy.
  case keep, bringBack
}

/// The reactions to an action, besides reducing it.
public struct Echoes: OptionSet, Codable, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  public static let reducer = Echoes(rawValue: 1)
  public static let interceptor = Echoes(rawValue: 2)
  public static let middleware = Echoes(rawValue: 4)
  /// The interceptor shuts down a store.
  public static let shutdown = Echoes(rawValue: 8)
}

/// An action, as specified by a program.
public struct ActionSpec: Codable, Sendable, Equatable {
  public var change: Change
  /// Middleware, projections and interceptors decide by this number.
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
  /// Distinguishes the actions that middleware makes of one.
  public var copy: UInt32 = 0
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

  /// Whether the actions are equal for the checks of a run.
  func isSame(as other: Action) -> Bool {
    given == other.given && copy == other.copy && store == other.store && change == other.change
  }

  /// The n-th of up to three actions that middleware makes of this one.
  func made(_ number: UInt32) -> Action {
    var made = self
    made.copy = copy * 4 + number
    made.echoes = []
    return made
  }
}

/// The local state of one store. Its count and chain identify its whole history.
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

/// The state of any store or proxy of a tree: the ledgers of the stores on the path, as reduced by views.
public struct Snapshot: Sendable {
  /// The number of commits of the tree before it; negative if a view hides it. `==` ignores it, so that there are
  /// duplicates.
  public var at: Int
  public var ledgers: [Ledger]
  /// The root store's values by key. `==` ignores them, since they follow from the commits.
  public var slots: Keyed<Int, Int> = [:]
  /// A saved copy of the slots.
  public var kept: Keyed<Int, Int> = [:]
  /// A hash of the views that it passed.
  public var mark: UInt64 = 0
  /// The subscription of an observer that it was delivered to.
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

  public var number: Int { ledgers.last?.number ?? 0 }
  public var optional: Int? { ledgers.last?.optional }

  /// Without the ledgers of the stores above.
  public var lastOnly: Snapshot {
    var last = self
    last.ledgers = ledgers.suffix(1)
    last.mark = mixed(mark, 1)
    return last
  }

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

  /// The state for a child store of a part. It changes with the numbers of the stores above.
  public var part: Snapshot {
    var part = numbersOnly
    part.slots = [:]
    return part
  }

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

  /// The key that an action writes if the key is present before or after.
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
