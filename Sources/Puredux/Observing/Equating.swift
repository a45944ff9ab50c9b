/// Answers the question whether two states are equal for somebody's purpose, so that a sequence can leave out what would tell
/// its consumer nothing new.
///
/// A witness for `Equatable` that can differ from one subscriber to the next: two screens that show the same state look at
/// different parts of it. Taken over from Puredux.
///
///     for await state in store.states(removeStateDuplicates: .equal { $0.title } && .equal { $0.subtitle }) { … }
///
/// The comparison is made in place, once a commit, before anybody is woken. Between two commits `.equal { }` keeps the compared
/// value only; `.equal` and a predicate of your own have to keep the last state itself, which makes the next change of a
/// collection in it copy that collection.
public struct Equating<State: Sendable>: Sendable {
  let makeMemory: @Sendable () -> any StateMemory<State>
  /// Whether the answer is always no, so that there is nothing to filter.
  let isNeverEqual: Bool

  private init(isNeverEqual: Bool = false, makeMemory: @escaping @Sendable () -> any StateMemory<State>) {
    self.isNeverEqual = isNeverEqual
    self.makeMemory = makeMemory
  }

  /// Equal where the predicate says so. It is given the last state that was delivered and the new one.
  public init(_ areEqual: @escaping @Sendable (_ last: State, _ new: State) -> Bool) {
    self.init { PredicateMemory(areEqual: areEqual) }
  }

  /// Every state equals every other: only the first is delivered.
  public static var alwaysEqual: Equating {
    Equating { ConstantMemory(answer: true) }
  }

  /// No state equals another: every one is delivered.
  public static var neverEqual: Equating {
    Equating(isNeverEqual: true) { ConstantMemory(answer: false) }
  }

  /// Equal where a part of them, or a value made from them, is.
  public static func equal<Value: Equatable & Sendable>(_ value: @escaping @Sendable (State) -> Value) -> Equating {
    Equating { ValueMemory(value: value) }
  }

  /// Equal where both say so.
  public static func && (lhs: Equating, rhs: Equating) -> Equating {
    Equating(isNeverEqual: lhs.isNeverEqual || rhs.isNeverEqual) {
      BothMemory(first: lhs.makeMemory(), second: rhs.makeMemory())
    }
  }

  /// Compares two states.
  public func callAsFunction(_ lhs: State, _ rhs: State) -> Bool {
    let memory = makeMemory()
    memory.remember(lhs)
    return memory.equals(rhs)
  }
}

extension Equating where State: Equatable {
  /// Equal where the states are.
  public static var equal: Equating {
    Equating { PredicateMemory { $0 == $1 } }
  }
}

/// As much of the last state as it takes to compare the next one with it.
protocol StateMemory<State>: AnyObject {
  associatedtype State
  func equals(_ state: State) -> Bool
  func remember(_ state: State)
}

private final class ConstantMemory<State>: StateMemory {
  private let answer: Bool
  init(answer: Bool) { self.answer = answer }
  func equals(_ state: State) -> Bool { answer }
  func remember(_ state: State) {}
}

private final class ValueMemory<State, Value: Equatable>: StateMemory {
  private let value: @Sendable (State) -> Value
  private var last: Value?
  init(value: @escaping @Sendable (State) -> Value) { self.value = value }
  func equals(_ state: State) -> Bool { last == .some(value(state)) }
  func remember(_ state: State) { last = value(state) }
}

private final class PredicateMemory<State>: StateMemory {
  private let areEqual: @Sendable (State, State) -> Bool
  private var last: State?
  init(areEqual: @escaping @Sendable (State, State) -> Bool) { self.areEqual = areEqual }
  func equals(_ state: State) -> Bool { last.map { areEqual($0, state) } ?? false }
  func remember(_ state: State) { last = state }
}

private final class BothMemory<State>: StateMemory {
  private let first: any StateMemory<State>
  private let second: any StateMemory<State>
  init(first: any StateMemory<State>, second: any StateMemory<State>) {
    self.first = first
    self.second = second
  }
  func equals(_ state: State) -> Bool { first.equals(state) && second.equals(state) }
  func remember(_ state: State) {
    first.remember(state)
    second.remember(state)
  }
}
