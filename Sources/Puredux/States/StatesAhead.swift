/// States of one type that a consumer has taken from its log, several at a time, and reads one by one.
///
/// In raw memory like a `StateQueue`, and with nothing that is not needed here: a consumer that is behind finds most of
/// its states this way.
///
/// SAFETY: the slots from `first` up to `end` hold a state each, and no others do: `fill` initializes them, `popFirst`
/// moves a state out as it gives up the slot, and `removeAll` deinitializes the rest. A value that holds slots is not
/// copied: a subscriber has it behind its lock, and takes it out from there only to remove all. Each is used for one
/// type of state only, that of its subscriber's source.
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

  /// Fills it anew; it has to be empty.
  ///
  /// - Parameters:
  ///   - count: At most the limit, which is the same each time.
  ///   - initialize: Initializes that many states.
  @inlinable mutating func fill<State>(
    _ count: Int, limit: Int, as type: State.Type, _ initialize: (UnsafeMutablePointer<State>) -> Void
  ) {
    let slots =
      unsafe slots
      ?? .allocate(byteCount: limit * MemoryLayout<State>.stride, alignment: MemoryLayout<State>.alignment)
    unsafe self.slots = slots
    unsafe initialize(slots.assumingMemoryBound(to: State.self))
    (first, end) = (0, Int32(count))
  }

  /// Drops all states, and the room for them.
  mutating func removeAll<State>(as type: State.Type) {
    while popFirst(as: type) != nil {}
    unsafe slots?.deallocate()
    unsafe slots = nil
  }
}
