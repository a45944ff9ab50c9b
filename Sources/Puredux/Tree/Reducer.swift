/// Changes a state according to an action: one function, or several that run in order, each with an optional name.
///
///     let store = RootStore<Human, HumanAction>(
///       initialState: Human(),
///       reducers: [
///         Reducer("birthday") { human, action in if action == .birthday { human.age += 1 } },
///         Reducer("snack") { human, action in if action == .eatGrapes { human.isHungry = false } },
///       ])
///
/// A store that takes a closure as `reducer:` also takes an array as `reducers:`. Each reducer changes the state in
/// place and sees the previous ones' changes, which are not visible elsewhere (G3).
public struct Reducer<State: Sendable, Action: Sendable>: Sendable {
  /// The name in a `History`; nil without a name, and for a combination.
  public let name: String?
  /// The action is `inout` to save a copy, and is never changed.
  @usableFromInline let change: @Sendable (inout State, inout Action) -> Void
  @usableFromInline let parts: [Reducer]?

  @inlinable init(name: String?, parts: [Reducer]?, change: @escaping @Sendable (inout State, inout Action) -> Void) {
    self.name = name
    self.parts = parts
    self.change = change
  }

  /// - Parameter reduce: Changes the state, on the tree's executor. If the store follows a log, it must be a function
  ///   of its arguments alone (G13).
  @inlinable public init(_ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: nil, parts: nil) { state, action in reduce(&state, action) }
  }

  /// - Parameters:
  ///   - name: The name in a `History`.
  ///   - reduce: Changes the state, on the tree's executor. If the store follows a log, it must be a function of its
  ///     arguments alone (G13).
  @inlinable public init(_ name: String, _ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: name, parts: nil) { state, action in reduce(&state, action) }
  }

  /// Combines several reducers into one, which runs them in order.
  @inlinable public init(combining reducers: [Reducer]) {
    let parts = reducers.flatMap(\.steps)
    // Nested closures are called without reference counting, unlike elements of an array.
    var all: @Sendable (inout State, inout Action) -> Void = { (_: inout State, _: inout Action) in }
    if let first = parts.first { all = first.change }
    for part in parts.dropFirst() {
      all = { [before = all, change = part.change] state, action in
        before(&state, &action)
        change(&state, &action)
      }
    }
    self.init(name: nil, parts: parts, change: all)
  }

  @usableFromInline var steps: [Reducer] { parts ?? [self] }

  /// Applies the reducer to a state.
  @inlinable public func reduce(_ state: inout State, _ action: Action) {
    var action = action
    change(&state, &action)
  }
}
