/// States that a consumer has taken from its backlog at once, and reads one by one. An object, so that `Subscriber`
/// does not depend on the type.
///
/// SAFETY: it is used for one `Sendable` type of state only, as a `Subscriber` asks only for states of its source's
/// type. It owns its object: a copy is made only when an empty one takes its place.
@usableFromInline struct StatesAhead: @unchecked Sendable {
  @usableFromInline var states: AnyObject?
  @usableFromInline var count = 0

  @usableFromInline init() {}

  @inlinable mutating func popFirst<State>(as type: State.Type = State.self) -> State? {
    guard count > 0, let states else { return nil }
    count -= 1
    return unsafe unsafeDowncast(states, to: States<State>.self).reversed.popLast()
  }

  /// The capacity: as many states as fit into 4 KB, at most 31.
  @inlinable static func limit<State>(of type: State.Type) -> Int {
    min(31, 4_096 / max(1, MemoryLayout<State>.stride))
  }

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

  /// In reverse, so that reading a state moves no other.
  @usableFromInline final class States<State> {
    @usableFromInline var reversed: ContiguousArray<State> = []

    @inlinable init() {}
  }
}
