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
