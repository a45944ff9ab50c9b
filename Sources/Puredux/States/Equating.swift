/// Decides whether two states are equal, so that a sequence can leave out repeated states. Each subscriber chooses its
/// own.
///
///     for await state in store.states(removeStateDuplicates: .equal { $0.title } && .equal { $0.subtitle }) { … }
///
/// States are compared in place, once per commit, before any consumer is woken. Between commits, `.equal { }` stores
/// only the compared value. `.equal` and a predicate store the last state, so the next change of a collection in it
/// copies that collection.
public struct Equating<State: Sendable>: Sendable {
  @usableFromInline let makeMemory: @Sendable () -> StateMemory<State>
  @usableFromInline let isNeverEqual: Bool

  @inlinable init(isNeverEqual: Bool = false, makeMemory: @escaping @Sendable () -> StateMemory<State>) {
    self.isNeverEqual = isNeverEqual
    self.makeMemory = makeMemory
  }

  /// Compares by a predicate of the last state that was not left out, and the new one.
  @inlinable public init(_ areEqual: @escaping @Sendable (_ last: State, _ new: State) -> Bool) {
    self.init { .value({ $0 }, areEqual: areEqual) }
  }

  /// All states are equal: only the first is delivered.
  @inlinable public static var alwaysEqual: Equating {
    Equating { .constant(true) }
  }

  /// No states are equal: every state is delivered.
  @inlinable public static var neverEqual: Equating {
    Equating(isNeverEqual: true) { .constant(false) }
  }

  /// Compares a part of the states, or a value computed from them.
  @inlinable
  public static func equal<Value: Equatable & Sendable>(_ value: @escaping @Sendable (State) -> Value) -> Equating {
    Equating { .value(value, areEqual: ==) }
  }

  /// Equal if both operands are.
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
  /// Compares whole states.
  @inlinable public static var equal: Equating {
    Equating { .value({ $0 }, areEqual: ==) }
  }
}
