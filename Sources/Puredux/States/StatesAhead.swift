/// States of one type that a consumer has taken from its backlog, several at a time, and reads one by one: a consumer
/// that is behind finds most of its states this way. In an object, so that a `Subscriber` does not depend on the type.
///
/// SAFETY: it is used for one type of state only, which is `Sendable`: a `Subscriber` asks only for states of its
/// source's type. It has its object for itself: a copy is made only where an empty one takes its place.
@usableFromInline struct StatesAhead: @unchecked Sendable {
  @usableFromInline var states: AnyObject?
  @usableFromInline var count = 0

  @usableFromInline init() {}

  @inlinable mutating func popFirst<State>(as type: State.Type = State.self) -> State? {
    guard count > 0, let states else { return nil }
    count -= 1
    return unsafe unsafeDowncast(states, to: States<State>.self).reversed.popLast()
  }

  /// How many states it has room for: as many as fit into 4 KB, at most 31.
  @inlinable static func limit<State>(of type: State.Type) -> Int {
    min(31, 4_096 / max(1, MemoryLayout<State>.stride))
  }

  /// Adds states, in order; it has to be empty.
  @inlinable mutating func fill<State>(of type: State.Type, with add: (inout ContiguousArray<State>) -> Void) {
    let states = made(for: State.self)
    add(&states.reversed)
    states.reversed.reverse()
    count = states.reversed.count
  }

  @inline(never) @inlinable mutating func made<State>(for type: State.Type) -> States<State> {
    if let states { return unsafe unsafeDowncast(states, to: States<State>.self) }
    let made = States<State>()
    made.reversed.reserveCapacity(Self.limit(of: type))
    states = made
    return made
  }

  /// The last is read first, so that a state that is read moves no other.
  @usableFromInline final class States<State> {
    @usableFromInline var reversed: ContiguousArray<State> = []

    @inlinable init() {}
  }
}
