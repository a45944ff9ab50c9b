/// States of one type that a consumer has taken from its backlog, several at a time, and reads one by one.
///
/// In raw memory like a `StateQueue`, and with nothing that is not needed here: a consumer that is behind finds most of
/// its states this way.
///
/// SAFETY: the slots from `first` up to `end` hold a state each, and no others do: `fill` has them initialized,
/// `popFirst` moves a state out as it gives up the slot, and `removeAll` deinitializes the rest. Whoever has one keeps
/// to three rules: it is used for one type of state only, `fill` initializes as many as it says, and of a copy only one
/// is used. A `Subscriber` asks only for states of its source's type, and takes its own out of its lock only by leaving
/// an empty one there.
@usableFromInline @safe struct StatesAhead: @unchecked Sendable {
  @usableFromInline var slots: UnsafeMutableRawPointer?
  @usableFromInline var first: Int32 = 0
  @usableFromInline var end: Int32 = 0

  @usableFromInline init() {}

  var hasRoom: Bool { unsafe slots != nil }

  @inlinable mutating func popFirst<State>(as type: State.Type = State.self) -> State? {
    guard first < end, let slots = unsafe slots else { return nil }
    let place = Int(first) * MemoryLayout<State>.stride
    first += 1
    return unsafe (slots + place).assumingMemoryBound(to: State.self).move()
  }

  /// How many states it has room for: as many as fit into 4 KB, at most 31.
  @inlinable static func limit<State>(of type: State.Type) -> Int {
    min(31, 4_096 / max(1, MemoryLayout<State>.stride))
  }

  /// Fills it anew, with at most as many states as there is room for; it has to be empty.
  @inlinable mutating func fill<State>(
    _ count: Int, as type: State.Type, _ initialize: (UnsafeMutablePointer<State>) -> Void
  ) {
    let slots = unsafe makeRoom(
      for: count, of: Self.limit(of: type), MemoryLayout<State>.stride, MemoryLayout<State>.alignment)
    unsafe initialize(slots.assumingMemoryBound(to: State.self))
  }

  /// For any type, so that it is compiled once.
  @usableFromInline mutating func makeRoom(
    for count: Int, of limit: Int, _ stride: Int, _ alignment: Int
  ) -> UnsafeMutableRawPointer {
    precondition(first == end && count <= limit)
    let slots = unsafe slots ?? .allocate(byteCount: limit * stride, alignment: alignment)
    unsafe self.slots = slots
    (first, end) = (0, Int32(count))
    return unsafe slots
  }

  /// Drops all states, and the room for them.
  mutating func removeAll<State>(as type: State.Type) {
    while popFirst(as: type) != nil {}
    unsafe slots?.deallocate()
    unsafe slots = nil
  }
}
