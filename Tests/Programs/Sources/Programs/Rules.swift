import Puredux

// The rules of a program's closures as plain functions: the runner wraps them in closures for the library, and the
// model calls them.

public enum View: Codable, Sendable, Equatable {
  case identity
  case last
  case numbers
  case optional
  case keyPath
  case selector
  case memoizing
  /// Maps some actions to nothing.
  case projection
  /// A scope whose mapping dispatches, within the run's budget.
  case dispatching
  /// The value of one key; only the first view of a store.
  case keyed(Int)
  /// Marks the states of one subscription.
  case marked(Int)

  func callAsFunction(_ state: Snapshot) -> Snapshot? {
    switch self {
    case .identity: return state.marked(10)
    case .last, .keyPath: return state.lastOnly
    case .numbers: return state.numbersOnly
    case .optional: return state.optional == nil ? nil : state.marked(11)
    case .selector: return state.marked(12)
    case .memoizing: return Self.memoized(number: state.number)
    case .projection: return state.marked(13)
    case .dispatching: return state.marked(14)
    case .keyed(let key): return Self.slot(state.slots[key])
    case .marked(let number):
      var tagged = state
      tagged.tag = number
      return tagged
    }
  }

  static func slot(_ value: Int?) -> Snapshot { memoized(number: value ?? -1) }

  static func memoized(number: Int) -> Snapshot {
    var ledger = Ledger(store: -1)
    ledger.number = number
    return Snapshot(at: -1, ledgers: [ledger])
  }

  /// The action that the proxy passes on; nil if it maps to nothing.
  func mapped(_ action: Action) -> Action? {
    guard self == .projection else { return action }
    guard action.rule % 4 != 3 else { return nil }
    var mapped = action
    if case .number(let number) = action.change { mapped.change = .number(number + 1) }
    return mapped
  }
}

extension [View] {
  func callAsFunction(_ state: Snapshot) -> Snapshot? {
    var result: Snapshot? = state
    for view in self { result = result.flatMap(view.callAsFunction) }
    return result
  }

  /// Applies the last view first.
  func mapped(_ action: Action) -> Action? {
    var result: Action? = action
    for view in reversed() { result = result.flatMap(view.mapped) }
    return result
  }

  /// Whether its states hide the number of commits before them.
  var hidesPositions: Bool { contains(.memoizing) || key != nil }

  /// The key of its first view, if that is `keyed`.
  var key: Int? {
    if case .keyed(let key) = first { return key }
    return nil
  }
}

public enum Filter: Codable, Sendable, CaseIterable {
  case none, number, whole, halves, both, always

  func areEqual(_ last: Snapshot, _ new: Snapshot) -> Bool {
    switch self {
    case .none: false
    case .number: last.number == new.number
    case .whole: last == new
    case .halves: last.number / 2 == new.number / 2
    case .both: last.number == new.number && last.optional == new.optional
    case .always: true
    }
  }
}

public enum Emits: Codable, Sendable, CaseIterable {
  case always, whenNumberDiffers, whenDifferent, whenEven

  func publishes(_ before: Snapshot, _ after: Snapshot) -> Bool {
    switch self {
    case .always: true
    case .whenNumberDiffers: before.number != after.number
    case .whenDifferent: before != after
    case .whenEven: after.number % 2 == 0
    }
  }
}

/// The treatment by middleware of the actions of one rule. It passes on all others.
public enum MiddlewareRule: Codable, Sendable, Equatable {
  case passing
  case logging
  case timing
  case rejecting(Int)
  case guarding(Int)
  case stopping(Int)
  case replacing(Int)
  case doubling(Int)
  case dispatching(Int)

  static let reason: RejectionReason = "rejected"
  static let guardReason: RejectionReason = "guarded"

  /// The actions passed on, or the reason for the rejection.
  func callAsFunction(_ action: Action) -> (passed: [Action], reason: RejectionReason?) {
    switch self {
    case .passing, .logging, .timing, .dispatching: return ([action], nil)
    case .rejecting(let rule): return action.rule == rule ? ([], Self.reason) : ([action], nil)
    case .guarding(let rule): return action.rule == rule ? ([], Self.guardReason) : ([action], nil)
    case .stopping(let rule): return action.rule == rule ? ([], nil) : ([action], nil)
    case .replacing(let rule): return action.rule == rule ? ([action.made(1)], nil) : ([action], nil)
    case .doubling(let rule): return action.rule == rule ? ([action.made(2), action.made(3)], nil) : ([action], nil)
    }
  }
}

extension [MiddlewareRule] {
  /// The committed actions, and the last reason for rejecting any of them.
  func callAsFunction(_ action: Action) -> (committed: [Action], reason: RejectionReason?) {
    guard let first else { return ([action], nil) }
    let rest = Array(dropFirst())
    var (passed, reason) = first(action)
    var committed: [Action] = []
    for action in passed {
      let inner = rest(action)
      committed += inner.committed
      reason = inner.reason ?? reason
    }
    passed = []
    return (committed, reason)
  }
}

public enum Buffering: Codable, Sendable, Equatable {
  case unbounded
  case newest(Int)
  case oldest(Int)
}
