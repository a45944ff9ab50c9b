/// Says how an action changes a state: one function, or several that run in order, each with a name if one likes.
///
///     let store = RootStore<Human, HumanAction>(
///       initialState: Human(),
///       reducers: [
///         Reducer("birthday") { human, action in if action == .birthday { human.age += 1 } },
///         Reducer("snack") { human, action in if action == .eatGrapes { human.isHungry = false } },
///       ])
///
/// Everywhere a store takes `reducer:`, a closure, it takes `reducers:` instead, an array of these. Each works on the
/// state in place and sees what those before it made of it; nobody else does (G3). The names stand in a store's
/// `History`.
public struct Reducer<State: Sendable, Action: Sendable>: Sendable {
  public let name: String?
  /// Given the action in its place, so that it is not copied for each reducer. Nobody changes it.
  @usableFromInline let change: @Sendable (inout State, inout Action) -> Void
  /// Those that it consists of; none where it is a single function.
  @usableFromInline let parts: [Reducer]?

  @inlinable init(name: String?, parts: [Reducer]?, change: @escaping @Sendable (inout State, inout Action) -> Void) {
    self.name = name
    self.parts = parts
    self.change = change
  }

  @inlinable public init(_ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: nil, parts: nil) { state, action in reduce(&state, action) }
  }

  @inlinable public init(_ name: String, _ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: name, parts: nil) { state, action in reduce(&state, action) }
  }

  /// Several reducers as one, which run in order.
  @inlinable public init(combining reducers: [Reducer]) {
    let parts = reducers.flatMap(\.steps)
    // One within the other: what a closure has captured is called without counting references, the elements of an array
    // are not.
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

  /// Applies it to a state.
  @inlinable public func reduce(_ state: inout State, _ action: Action) {
    var action = action
    change(&state, &action)
  }
}
