/// Says how an action changes a state: one function, or several that run in order, each with an optional name.
///
///     let store = RootStore<Human, HumanAction>(
///       initialState: Human(),
///       reducers: [
///         Reducer("birthday") { human, action in if action == .birthday { human.age += 1 } },
///         Reducer("snack") { human, action in if action == .eatGrapes { human.isHungry = false } },
///       ])
///
/// Wherever a store takes a closure as `reducer:`, it can take an array of these as `reducers:` instead. Each works on
/// the state in place and sees the changes of those before it; nothing else does (G3). The names appear in a store's
/// `History`.
public struct Reducer<State: Sendable, Action: Sendable>: Sendable {
  /// What it is called in a `History`; nil if it has no name, or consists of several.
  public let name: String?
  /// Given the action in place, so that it is not copied for each reducer. The action is never changed.
  @usableFromInline let change: @Sendable (inout State, inout Action) -> Void
  /// The reducers that it consists of; nil for a single function.
  @usableFromInline let parts: [Reducer]?

  @inlinable init(name: String?, parts: [Reducer]?, change: @escaping @Sendable (inout State, inout Action) -> Void) {
    self.name = name
    self.parts = parts
    self.change = change
  }

  /// - Parameter reduce: Changes the state in place, on the tree's executor. Where the store follows a log it is to be
  ///   a function of its arguments alone (G13).
  @inlinable public init(_ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: nil, parts: nil) { state, action in reduce(&state, action) }
  }

  /// - Parameters:
  ///   - name: What it is called in a `History`.
  ///   - reduce: Changes the state in place, on the tree's executor. Where the store follows a log it is to be a
  ///     function of its arguments alone (G13).
  @inlinable public init(_ name: String, _ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: name, parts: nil) { state, action in reduce(&state, action) }
  }

  /// Combines several reducers into one, which runs them in order.
  @inlinable public init(combining reducers: [Reducer]) {
    let parts = reducers.flatMap(\.steps)
    // Nested closures: what a closure has captured is called without reference counting, the elements of an array are
    // not.
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

  /// The single functions, in order.
  @usableFromInline var steps: [Reducer] { parts ?? [self] }

  /// Applies the reducer to a state.
  @inlinable public func reduce(_ state: inout State, _ action: Action) {
    var action = action
    change(&state, &action)
  }
}
