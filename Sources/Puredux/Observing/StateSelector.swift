/// A named function of a state, for any store with such a state. It can be tested without a store.
///
///     extension Room {
///       static let unread = StateSelector<Room, [Message]>("unread", of: \.messages, \.lastRead) {
///         messages, lastRead in
///         messages.filter { $0.id > lastRead }
///       }
///     }
///     #expect(Room.unread.select(Room()).isEmpty)
///     for await messages in store.states(Room.unread) { … }
///
/// With `of:` or `whenDifferent:` it is memoized: the value is computed again only when one of these `Equatable` parts
/// of the state has changed (`of: \.self` is the whole state). All followers of one store by the same selector share
/// the result, which is computed once per change. The memoized value belongs to the store's tree, and is dropped with
/// its last user there. As the parts are stored, a change of a collection among them copies it; for a large collection,
/// name its version or its count instead.
///
/// Copies of a selector are the same selector. Two selectors that are made alike are different, and share nothing.
///
/// Adopted from the selectors of Redux.
public struct StateSelector<State: Sendable, Value: Sendable>: Sendable, CustomStringConvertible {
  /// The name in descriptions. It does not identify the selector.
  public let name: String
  @usableFromInline let identity: SelectorIdentity
  /// Makes the function, with its own memory if it is memoized. It is used in one isolation only.
  @usableFromInline let makeSelection: @Sendable () -> Selection

  @inlinable
  init(name: String, identity: SelectorIdentity, makeSelection: @escaping @Sendable () -> Selection) {
    self.name = name
    self.identity = identity
    self.makeSelection = makeSelection
  }

  /// Makes a selector that computes its value from the whole state at every commit that is followed, and stores nothing
  /// of the state.
  @inlinable public init(_ name: String, _ select: @escaping @Sendable (State) -> Value) {
    self.init(name: name, identity: SelectorIdentity(), makeSelection: { Selection(select: select) })
  }

  /// Makes a selector that computes its value from parts of the state, when one of them has changed.
  @inlinable public init<First: Equatable & Sendable, each Input: Equatable & Sendable>(
    _ name: String, of first: any KeyPath<State, First> & Sendable,
    _ inputs: repeat any KeyPath<State, each Input> & Sendable,
    select: @escaping @Sendable (First, repeat each Input) -> Value
  ) {
    self.init(name, whenDifferent: first, repeat each inputs) { state in
      select(state[keyPath: first], repeat state[keyPath: each inputs])
    }
  }

  /// Makes a selector that computes its value from the whole state, when one of its parts, such as a version, has
  /// changed. Only those parts are stored.
  @inlinable public init<First: Equatable & Sendable, each Input: Equatable & Sendable>(
    _ name: String, whenDifferent first: any KeyPath<State, First> & Sendable,
    _ inputs: repeat any KeyPath<State, each Input> & Sendable,
    select: @escaping @Sendable (State) -> Value
  ) {
    self.init(name: name, identity: SelectorIdentity()) {
      var last: (first: First, inputs: (repeat each Input), value: Value)?
      return Selection { state in
        let new = (first: state[keyPath: first], inputs: (repeat state[keyPath: each inputs]))
        if let last, last.first == new.first, Self.areEqual(repeat (each last.inputs, each new.inputs)) {
          return last.value
        }
        let value = select(state)
        last = (new.first, new.inputs, value)
        return value
      } forget: {
        last = nil
      }
    }
  }

  /// Makes a selector of a part of the state.
  @inlinable public init(_ keyPath: any KeyPath<State, Value> & Sendable) {
    self.init(name: "\(keyPath)", identity: SelectorIdentity(keyPath)) {
      Selection { $0[keyPath: keyPath] }
    }
  }

  /// Computes the value for a state.
  @inlinable public func select(_ state: State) -> Value { makeSelection().select(state) }

  public var description: String { name }

  @inlinable static func areEqual<each Input: Equatable>(_ pairs: repeat (each Input, each Input)) -> Bool {
    for pair in repeat each pairs {
      if pair.0 != pair.1 { return false }
    }
    return true
  }
}

extension StateSelector {
  @usableFromInline struct Selection {
    @usableFromInline let select: (State) -> Value
    @usableFromInline let forget: (() -> Void)?

    @inlinable init(select: @escaping (State) -> Value, forget: (() -> Void)? = nil) {
      self.select = select
      self.forget = forget
    }
  }
}
