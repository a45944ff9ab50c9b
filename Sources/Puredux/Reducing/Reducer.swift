/// Says how an action changes a state: one function, or several that run in order, each with a name if one likes.
///
///     let store = RootStore<Human, HumanAction>(
///       initialState: Human(),
///       reducer: [
///         Reducer("birthday") { human, action in if action == .birthday { human.age += 1 } },
///         Reducer("snack") { human, action in if action == .eatGrapes { human.isHungry = false } },
///       ])
///
/// Everywhere a store takes a reducer it takes a closure, a `Reducer` or an array literal of them. Each works on the state in place and
/// sees what those before it made of it; nobody else does (G3). The names stand in a store's `History`.
public struct Reducer<State: Sendable, Action: Sendable>: Sendable, ExpressibleByArrayLiteral {
  public let name: String?
  @usableFromInline
  let reduce: @Sendable (inout State, Action) -> Void
  /// Those that it consists of; none where it is a single function.
  @usableFromInline
  let parts: [Reducer]?

  @inlinable
  init(name: String?, parts: [Reducer]?, reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.name = name
    self.parts = parts
    self.reduce = reduce
  }

  @inlinable
  public init(_ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: nil, parts: nil) { state, action in reduce(&state, action) }
  }

  @inlinable
  public init(_ name: String, _ reduce: @escaping @Sendable (inout State, Action) -> Void) {
    self.init(name: name, parts: nil, reduce: reduce)
  }

  /// Several reducers as one, which run in order.
  @inlinable
  public init(_ reducers: [Reducer]) {
    let parts = reducers.flatMap(\.steps)
    self.init(name: nil, parts: parts) { state, action in
      for part in parts { part.reduce(&state, action) }
    }
  }

  @inlinable
  public init(arrayLiteral reducers: Reducer...) {
    self.init(reducers)
  }

  /// The single functions, in order.
  @usableFromInline
  var steps: [Reducer] { parts ?? [self] }

  /// Applies it to a state.
  @inlinable
  public func callAsFunction(_ state: inout State, _ action: Action) {
    reduce(&state, action)
  }
}
