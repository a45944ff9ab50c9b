/// Decides whether two states are equal for a given purpose, so that a sequence can leave out states that would tell
/// its consumer nothing new.
///
/// A witness for `Equatable` that can differ from one subscriber to the next: two screens that show the same state look
/// at different parts of it. Adopted from Puredux.
///
///     for await state in store.states(removeStateDuplicates: .equal { $0.title } && .equal { $0.subtitle }) { … }
///
/// The comparison is made in place, once per commit, before any consumer is woken. Between two commits `.equal { }`
/// keeps only the compared value; `.equal` and a custom predicate have to keep the last state itself, which makes the
/// next change of a collection in it copy that collection.
public struct Equating<State: Sendable>: Sendable {
  @usableFromInline let makeMemory: @Sendable () -> StateMemory<State>
  /// Whether the answer is always no, so that there is nothing to filter.
  @usableFromInline let isNeverEqual: Bool

  @inlinable init(isNeverEqual: Bool = false, makeMemory: @escaping @Sendable () -> StateMemory<State>) {
    self.isNeverEqual = isNeverEqual
    self.makeMemory = makeMemory
  }

  /// Equal if the predicate says so. It is given the last state that was delivered and the new one.
  @inlinable public init(_ areEqual: @escaping @Sendable (_ last: State, _ new: State) -> Bool) {
    self.init { .value({ $0 }, areEqual: areEqual) }
  }

  /// Every state equals every other: only the first is delivered.
  @inlinable public static var alwaysEqual: Equating {
    Equating { .constant(true) }
  }

  /// No state equals another: every one is delivered.
  @inlinable public static var neverEqual: Equating {
    Equating(isNeverEqual: true) { .constant(false) }
  }

  /// Equal if a part of the states, or a value computed from them, is equal.
  @inlinable
  public static func equal<Value: Equatable & Sendable>(_ value: @escaping @Sendable (State) -> Value) -> Equating {
    Equating { .value(value, areEqual: ==) }
  }

  /// Equal if both operands say so.
  @inlinable public static func && (lhs: Equating, rhs: Equating) -> Equating {
    Equating(isNeverEqual: lhs.isNeverEqual || rhs.isNeverEqual) {
      let (first, second) = (lhs.makeMemory(), rhs.makeMemory())
      return StateMemory {
        first.equals($0) && second.equals($0)
      } remember: {
        first.remember($0)
        second.remember($0)
      } forget: {
        first.forget()
        second.forget()
      }
    }
  }

  /// Compares two states.
  @inlinable public func callAsFunction(_ lhs: State, _ rhs: State) -> Bool {
    let memory = makeMemory()
    memory.remember(lhs)
    return memory.equals(rhs)
  }
}

extension Equating {
  @_disfavoredOverload
  @available(
    *, unavailable,
    message: """
      the state is not Equatable, and a tuple never is: compare a part of it, as in '.equal { $0.count }', or give the \
      child store a 'stateMapping' to a type that is
      """
  )
  public static var equal: Equating { .neverEqual }
}

extension Equating where State: Equatable {
  /// Equal if the states are.
  @inlinable public static var equal: Equating {
    Equating { .value({ $0 }, areEqual: ==) }
  }
}

/// As much of the last delivered state as is needed to compare the next one with it.
@usableFromInline struct StateMemory<State> {
  /// Whether a state equals the last one; false if there is none.
  @usableFromInline let equals: (State) -> Bool
  /// Makes a state the last one. If it has been compared, that comparison was the one right before this call.
  @usableFromInline let remember: (State) -> Void
  /// Forgets the last state.
  @usableFromInline let forget: () -> Void

  @inlinable
  init(equals: @escaping (State) -> Bool, remember: @escaping (State) -> Void, forget: @escaping () -> Void) {
    self.equals = equals
    self.remember = remember
    self.forget = forget
  }

  /// Remembers only whether there was a state.
  @inlinable static func constant(_ answer: Bool) -> StateMemory {
    var hasLast = false
    return StateMemory { _ in
      hasLast && answer
    } remember: { _ in
      hasLast = true
    } forget: {
      hasLast = false
    }
  }

  /// Remembers a value computed from the state, which is computed once per state.
  @inlinable static func value<Value>(
    _ value: @escaping (State) -> Value, areEqual: @escaping (Value, Value) -> Bool
  ) -> StateMemory {
    let memory = RememberedValue<Value>()
    return StateMemory { state in
      guard let previous = unsafe memory.last else { return false }
      let new = value(state)
      let isEqual = areEqual(previous, new)
      unsafe memory.compared = isEqual ? nil : new
      return isEqual
    } remember: { state in
      unsafe memory.last = memory.compared ?? value(state)
      unsafe memory.compared = nil
    } forget: {
      unsafe memory.last = nil
      unsafe memory.compared = nil
    }
  }
}

/// The values computed from the last state, and from the one that was compared with it.
@usableFromInline final class RememberedValue<Value> {
  // Without the run-time checks for overlapping accesses, which cost more than most comparisons.
  //
  // SAFETY: belongs to one memory, which is used in one isolation. An access copies the value out or sets it; a release
  // caused by setting it may run the user's code, which has no way to reach this memory.
  @usableFromInline @exclusivity(unchecked) var last: Value?
  @usableFromInline @exclusivity(unchecked) var compared: Value?

  @usableFromInline init() {}
}
