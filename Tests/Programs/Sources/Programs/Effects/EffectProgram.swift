/// A random program of effects. One task gives actions and moves the clock, and the tree settles after each step. The
/// actions specify their effects. Every effect sleeps first, and no two sleep until the same time. So no two effects
/// ever work at the same time, and `EffectModel` can predict the run exactly.
public struct EffectProgram: Codable, Sendable, Equatable {
  public var executor: Executor = .own
  public var isCarrying = false
  /// The first is the root.
  public var stores: [Place] = [Place()]
  /// All actions. The effects of an action dispatch only later ones, so that every chain ends.
  public var actions: [Deed] = []
  public var stateEffects: [StateWork] = []
  public var steps: [Step] = []
  /// If zero, one task performs the steps, and the tree settles after each. Otherwise so many tasks share the steps
  /// without waiting, and `EffectRecordChecker` checks the rules that hold nevertheless.
  public var tasks = 0

  public init() {}

  public struct Place: Codable, Sendable, Equatable {
    public var parent = -1
    public var isOfPart = false
    /// Whether its interceptor lifts parts of the root's state instead of its own.
    public var looksAtRoot = false
    /// Its last action.
    public var atEnd: Int?
    public var stateEffects: [Int] = []

    public init(parent: Int = -1) { self.parent = parent }
  }

  /// An action: its change of the states, and the effects that interceptors return for it.
  public struct Deed: Codable, Sendable, Equatable {
    public var change: Change = .nothing
    /// The element that its orders for elements refer to.
    public var element = 0
    public var orders: [Order] = []

    public init(_ change: Change = .nothing, orders: [Order] = []) {
      self.change = change
      self.orders = orders
    }
  }

  public enum Change: Codable, Sendable, Equatable {
    case nothing
    case number(Int)
    case part(Bool)
    case element(Int, Int?)
  }

  /// The effect that one interceptor returns for an action.
  public struct Order: Codable, Sendable, Equatable {
    /// The number of levels from the action's store up to the interceptor's.
    public var up = 0
    public var scope: Scope = .whole
    public var what: What

    public init(up: Int = 0, scope: Scope = .whole, _ what: What) {
      self.up = up
      self.scope = scope
      self.what = what
    }
  }

  /// The part of the state that the interceptor is lifted to.
  public enum Scope: Int, Codable, Sendable, CaseIterable {
    case whole, part, keyed, listed
  }

  public enum What: Codable, Sendable, Equatable {
    case begin(Work, id: Identity?, Policy)
    case cancel(Identity)
  }

  /// An id, which includes its type.
  public enum Identity: Int, Codable, Sendable, CaseIterable {
    case zero, one, real, text
  }

  /// Times are in nanoseconds.
  public enum Policy: Codable, Sendable, Equatable {
    case latest
    case first
    case inTurn(Int)
    case concurrent(Int)
    case debounced(Int)
    case throttled(Int, latest: Bool)
    case newest(Int)
  }

  public struct Work: Codable, Sendable, Equatable {
    public var after = 0
    /// The first part is a sleep or a wait.
    public var parts: [Part]
    public var attempts = 1
    public var pause = 0
    public var catching: Int?
    public var ignoresCancellation = false

    public init(_ parts: [Part]) { self.parts = parts }
  }

  public enum Part: Codable, Sendable, Equatable {
    case sleep(Int)
    /// Follows its store's states until the store has reduced so many actions.
    case follow(Int)
    case dispatch(Int)
    /// Sends to a store, in the sender's order.
    case send(Int, to: Int)
    /// Performs on a store, and awaits the effects.
    case perform(Int, to: Int)
    case fail
    case linger(Int)
  }

  public struct StateWork: Codable, Sendable, Equatable {
    public enum Kind: Codable, Sendable, Equatable {
      case whileAtLeast(Int)
      case onChange(modulus: Int)
      case keyed
      case listed
      case part
    }

    public var kind: Kind
    public var looksAtRoot = false
    public var work: Work

    public init(_ kind: Kind, _ work: Work) {
      self.kind = kind
      self.work = work
    }
  }

  public struct Gift: Codable, Sendable, Equatable {
    public var store: Int
    public var action: Int
    public var isSent = false

    public init(_ action: Int, to store: Int) {
      self.store = store
      self.action = action
    }
  }

  public enum Step: Codable, Sendable, Equatable {
    /// Gives actions one after the other, without a pause.
    case give([Gift])
    /// Starts a task that performs actions one after the other.
    case perform([Gift])
    /// Cancels the task that a step has started.
    case cancelPerforming(Int)
    /// Advances the clock by a time, stopping at each deadline.
    case advance(Int)
    /// Advances the clock to the next deadline.
    case next
    case shutDown(Int)
    /// Only for a store without stores below it.
    case release(Int)
    /// Finishes within a time limit, advancing the clock until the end.
    case finish(Int, within: Int)
    case subscribe(Int, store: Int)
    case unsubscribe(Int)
    case intercept
  }
}

extension EffectProgram {
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

  /// The store whose interceptor an order is for.
  func interceptor(of order: Order, givenTo store: Int) -> Int {
    let path = path(to: store)
    return path[max(0, path.count - 1 - order.up)]
  }
}

struct EffectLocal: Sendable, Equatable {
  var commits = 0
  var number = 0
  var hasPart = false
  var elements: [Int: Int] = [:]

  mutating func reduce(_ change: EffectProgram.Change) {
    commits += 1
    switch change {
    case .nothing: break
    case .number(let number): self.number = number
    case .part(let hasPart): self.hasPart = hasPart
    case .element(let key, let value): elements[key] = value
    }
  }
}

enum EffectCause: Sendable, Hashable {
  case driver(step: Int, gift: Int)
  case effect(EffectKey, attempt: Int, place: Int)
  case caught(EffectKey)
  case atEnd(Int)
}

/// Identifies an effect within a run.
enum EffectKey: Sendable, Hashable, Comparable {
  /// An effect of an action: the commit's position, and the order's index in the action.
  case order(Int, Int)
  /// An effect of the state: its instance, its element, and the number of commits before it.
  case state(Int, Int, Int)
}

struct EffectCommit: Sendable, Equatable {
  var store: Int
  var action: Int
  var cause: EffectCause
  var carried: Int
}

/// The events between two moments at which the tree was settled.
struct EffectPhase: Sendable, Equatable {
  enum Doing: Sendable, Equatable {
    case give([EffectProgram.Gift], step: Int)
    case perform([EffectProgram.Gift], step: Int)
    case cancelPerforming(Int)
    case time(Int)
    case shutDown(Int)
    case release(Int)
    case finish(Int, within: Int)
    case subscribe(Int, store: Int, instance: Int)
    case unsubscribe(Int)
    case intercept
    case start
  }

  var doing: Doing
  /// Whether a finishing store ended in this phase.
  var isFinished = false
  var commits: [EffectCommit] = []
  /// How often each effect's work was entered.
  var entries: [EffectKey: Int] = [:]
  /// The effects that may have been entered once more.
  var maybe: Set<EffectKey> = []
  /// The effects whose work is under way at the end of the phase.
  var live: Set<EffectKey> = []
  var carried: [EffectKey: Int] = [:]
  /// The number of effects that run, wait or are held under ids.
  var count = 0
  var turnedAway = 0
  /// How many of `turnedAway` may not have been turned away.
  var maybeTurnedAway = 0
  var failed: [EffectKey] = []
  /// Whether each gift was accepted.
  var answers: [Bool] = []
  /// The gifts of `perform` tasks whose calls have returned.
  var returned: Set<EffectCause> = []
}

extension EffectProgram: CustomStringConvertible {
  /// The reachable actions.
  private var used: Set<Int> {
    var used: Set<Int> = []
    var new = stores.compactMap(\.atEnd)
    func add(_ work: Work) {
      if let action = work.catching { new.append(action) }
      for part in work.parts {
        if case .dispatch(let action) = part { new.append(action) }
        if case .send(let action, to: _) = part { new.append(action) }
        if case .perform(let action, to: _) = part { new.append(action) }
      }
    }
    for step in steps {
      if case .give(let gifts) = step { new += gifts.map(\.action) }
      if case .perform(let gifts) = step { new += gifts.map(\.action) }
    }
    for effect in stateEffects { add(effect.work) }
    while let action = new.popLast() {
      guard used.insert(action).inserted else { continue }
      for order in actions[action].orders { if case .begin(let work, _, _) = order.what { add(work) } }
    }
    return used
  }

  public var description: String {
    var lines = [
      "effects, executor \(executor)\(isCarrying ? ", carrying" : "")\(tasks > 0 ? ", \(tasks) tasks" : "")"
    ]
    for (number, store) in stores.enumerated() {
      var line =
        number == 0 ? "store 0: root" : "store \(number): child of \(store.isOfPart ? "a part of " : "")\(store.parent)"
      if store.looksAtRoot { line += ", lifts the root's" }
      if let action = store.atEnd { line += ", at its end \(action)" }
      if !store.stateEffects.isEmpty { line += ", effects of its state \(store.stateEffects)" }
      lines.append(line)
    }
    for (number, work) in stateEffects.enumerated() {
      lines.append("effect of the state \(number): \(work.kind)\(work.looksAtRoot ? " of the root" : ""), \(work.work)")
    }
    for number in used.sorted() {
      let action = actions[number]
      lines.append("action \(number): \(action.change), element \(action.element)")
      for (place, order) in action.orders.enumerated() { lines.append("  order \(place): \(order)") }
    }
    lines += steps.enumerated().map { "step \($0.offset): \($0.element)" }
    return lines.joined(separator: "\n")
  }
}

extension EffectProgram.Order: CustomStringConvertible {
  public var description: String {
    (up == 0 ? "" : "from \(up) above, ") + (scope == .whole ? "" : "of the \(scope), ") + "\(what)"
  }
}

extension EffectProgram.What: CustomStringConvertible {
  public var description: String {
    switch self {
    case .cancel(let id): "cancel \(id)"
    case .begin(let work, let id?, let policy): "\(work) under \(id), \(policy)"
    case .begin(let work, nil, _): "\(work)"
    }
  }
}

extension EffectProgram.Identity: CustomStringConvertible {
  public var description: String {
    switch self {
    case .zero: "0"
    case .one: "1"
    case .real: "1.0"
    case .text: "\"1\""
    }
  }
}

extension EffectProgram.Policy: CustomStringConvertible {
  public var description: String {
    switch self {
    case .latest: "latest"
    case .first: "first"
    case .inTurn(let limit): "inTurn(\(limit))"
    case .concurrent(let limit): "concurrent(\(limit))"
    case .debounced(let time): "debounced(\(milliseconds(time)))"
    case .throttled(let time, let latest): "throttled(\(milliseconds(time))\(latest ? "" : ", latest: false"))"
    case .newest(let limit): "newest(\(limit))"
    }
  }
}

extension EffectProgram.Part: CustomStringConvertible {
  public var description: String {
    switch self {
    case .sleep(let time): "sleep \(milliseconds(time))"
    case .follow(let count): "follow to \(count)"
    case .dispatch(let action): "dispatch \(action)"
    case .send(let action, let store): "send \(action) to \(store)"
    case .perform(let action, let store): "perform \(action) on \(store)"
    case .fail: "fail"
    case .linger(let count): "linger \(count)"
    }
  }
}

extension EffectProgram.Gift: CustomStringConvertible {
  public var description: String { "\(isSent ? "sent " : "")\(action) to \(store)" }
}

extension EffectProgram.Work: CustomStringConvertible {
  public var description: String {
    "work [\(parts.map(\.description).joined(separator: ", "))]" + (after == 0 ? "" : " after \(milliseconds(after))")
      + (attempts == 1 ? "" : " in \(attempts) attempts, \(milliseconds(pause)) apart")
      + (catching.map { ", catching \($0)" } ?? "") + (ignoresCancellation ? ", ignoring its cancellation" : "")
  }
}

extension EffectCommit: CustomStringConvertible {
  var description: String { "\(action) to \(store) (by \(cause), carrying \(carried))" }
}

extension EffectKey: CustomStringConvertible {
  var description: String {
    switch self {
    case .order(let position, let place): "effect \(place) of commit \(position)"
    case .state(let instance, let element, let position):
      "effect of the state \(instance), \(element) as of \(position)"
    }
  }
}

private func milliseconds(_ time: Int) -> String {
  "\(time / 1_000_000).\(String(time % 1_000_000 + 1_000_000).dropFirst())"
}
