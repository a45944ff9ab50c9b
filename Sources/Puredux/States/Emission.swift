/// Decides which commits a store publishes: the argument `emits:` of a store.
///
/// A commit that is left out wakes no subscriber of the store, its proxies or its scopes (G4). The state, child stores,
/// the interceptor and the history still see it. Child stores publish by their own rules, from every commit of their
/// parents.
///
///     let store = RootStore(initialState: Board(), emits: .whenDifferent { $0.version }, reducer: reduce)
///
/// The rule is evaluated once per commit, only while there are subscribers. `.whenDifferent { }` stores the compared
/// value between commits. `.whenDifferent` and `.when` store the state, so each change of a collection in it copies
/// that collection.
public struct Emission<State: Sendable>: Sendable {
  @usableFromInline let unchanged: Equating<State>?

  @inlinable init(unchanged: Equating<State>?) {
    self.unchanged = unchanged
  }

  /// Every commit.
  @inlinable public static var always: Emission { Emission(unchanged: nil) }

  /// The commits for which a predicate of the states before and after holds.
  @inlinable
  public static func when(_ predicate: @escaping @Sendable (_ before: State, _ after: State) -> Bool) -> Emission {
    Emission(unchanged: Equating { !predicate($0, $1) })
  }

  /// The commits that change a part of the state, or a value computed from it.
  @inlinable public static func whenDifferent<Value: Equatable & Sendable>(
    _ value: @escaping @Sendable (State) -> Value
  ) -> Emission {
    Emission(unchanged: .equal(value))
  }
}

extension Emission {
  @_disfavoredOverload
  @available(
    *, unavailable,
    message: """
      the state is not Equatable, and a tuple never is: compare a part of it, as in '.whenDifferent { $0.count }', or \
      give the child store a 'stateMapping' to a type that is
      """
  )
  public static var whenDifferent: Emission { .always }
}

extension Emission where State: Equatable {
  /// The commits that change the state.
  @inlinable public static var whenDifferent: Emission { Emission(unchanged: .equal) }
}
