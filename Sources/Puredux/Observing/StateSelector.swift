/// A named transformation of a state, which can be used with any store that has such a state, and can be tested without
/// one.
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
/// With `of:` or `whenDifferent:` it is memoized: while those parts of the state, which are `Equatable`, stay equal,
/// the value is not computed again (`of: \.self` is the whole state). Everyone who follows one store by the same
/// selector shares the result: it is computed once per change, however many followers there are. The memoized value
/// belongs to the store's tree, and is dropped with its last user there. As those parts are kept, a change of a
/// collection among them copies that collection: for a large one, name its version or its count.
///
/// A selector and its copies are the same selector; two that are made alike are not, and share nothing.
///
/// Adopted from the selectors of Redux.
public struct StateSelector<State: Sendable, Value: Sendable>: Sendable, CustomStringConvertible {
  /// What it is called in descriptions. It does not tell selectors apart.
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

  /// A value computed from the whole state, again at every commit that is followed, as nothing of the state is kept.
  @inlinable public init(_ name: String, _ select: @escaping @Sendable (State) -> Value) {
    self.init(name: name, identity: SelectorIdentity(), makeSelection: { Selection(select: select) })
  }

  /// A value computed from parts of the state, whenever one of them has changed.
  @inlinable public init<First: Equatable & Sendable, each Input: Equatable & Sendable>(
    _ name: String, of first: any KeyPath<State, First> & Sendable,
    _ inputs: repeat any KeyPath<State, each Input> & Sendable,
    select: @escaping @Sendable (First, repeat each Input) -> Value
  ) {
    self.init(name, whenDifferent: first, repeat each inputs) { state in
      select(state[keyPath: first], repeat state[keyPath: each inputs])
    }
  }

  /// A value computed from the whole state, whenever one of its parts, such as a version, has changed. Only those parts
  /// are kept.
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

  /// A part of the state.
  @inlinable public init(_ keyPath: any KeyPath<State, Value> & Sendable) {
    self.init(name: "\(keyPath)", identity: SelectorIdentity(keyPath)) {
      Selection { $0[keyPath: keyPath] }
    }
  }

  /// The value for a state, computed now.
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
  /// A selector in use, on one store's states.
  @usableFromInline struct Selection {
    @usableFromInline let select: (State) -> Value
    /// Forgets the memoized value; nil if the selector is not memoized.
    @usableFromInline let forget: (() -> Void)?

    @inlinable init(select: @escaping (State) -> Value, forget: (() -> Void)? = nil) {
      self.select = select
      self.forget = forget
    }
  }
}
