/// States of one type, first in, first out, in segments: growing never moves the existing states, and dropping from the
/// front never shifts the rest, so that a backlog of a million states delays its users no longer than one of ten.
///
/// In raw memory, independent of the type: the code that manages it is compiled once, whereas an array for each type of
/// state costs a client several times as much code.
///
/// SAFETY: the first `count` slots hold a state each, and no others do: `append` initializes the slot that it is given,
/// and whatever takes a state out moves it before the slot is given up. Slots change only while this value alone holds
/// them; a copy of it makes its own first. Each queue is used for one type of state only: a backlog is used by the
/// `Channel` that it belongs to, and by that channel's subscribers.
@usableFromInline @safe struct StateQueue {
  @usableFromInline var slots: Slots?
  @usableFromInline var count = 0

  @inlinable init() {}

  @inlinable var isEmpty: Bool { count == 0 }

  @inlinable mutating func append<State>(_ state: State) {
    unsafe uniqueSlots(of: State.self).append().initializeMemory(as: State.self, to: state)
    count += 1
  }

  @inlinable mutating func popFirst<State>(as type: State.Type = State.self) -> State? {
    guard count > 0 else { return nil }
    let slots = uniqueSlots(of: type)
    let state = unsafe slots[0].assumingMemoryBound(to: State.self).move()
    slots.dropFirst()
    count -= 1
    return state
  }

  /// Takes out the first state, which there has to be, and appends another.
  @inlinable mutating func replaceFirst<State>(appending state: State) -> State {
    precondition(count > 0)
    let slots = uniqueSlots(of: State.self)
    let first = unsafe slots[0].assumingMemoryBound(to: State.self).move()
    slots.dropFirst()
    unsafe slots.append().initializeMemory(as: State.self, to: state)
    return first
  }

  /// The state at an offset from the first.
  @inlinable func state<State>(at offset: Int, as type: State.Type = State.self) -> State? {
    guard let slots, offset < count else { return nil }
    return unsafe slots[offset].assumingMemoryBound(to: State.self).pointee
  }

  /// Copies so many states, from an offset on, all of which there have to be, to memory that is not initialized.
  @inlinable func copy<State>(_ count: Int, from offset: Int, to target: UnsafeMutablePointer<State>) {
    check(offset, count)
    var done = 0
    while done < count, let slots {
      let run = min(slots.runLength(at: offset + done), count - done)
      let source = unsafe slots[offset + done].assumingMemoryBound(to: State.self)
      unsafe (target + done).initialize(from: source, count: run)
      done += run
    }
  }

  @usableFromInline func check(_ offset: Int, _ count: Int) { precondition(offset + count <= self.count) }

  /// Moves the first state to the end of another queue.
  mutating func moveFirst(to other: inout StateQueue) {
    guard count > 0 else { return }
    if !isKnownUniquelyReferenced(&slots) { slots = slots?.copied() }
    if other.slots == nil {
      other.slots = slots?.another()
    } else if !isKnownUniquelyReferenced(&other.slots) {
      other.slots = other.slots?.copied()
    }
    guard let from = slots, let to = other.slots else { return }
    unsafe from.operations.move(to.append(), from[0])
    from.dropFirst()
    count -= 1
    other.count += 1
  }

  /// Drops all states, and keeps some room.
  mutating func removeAll() {
    guard isKnownUniquelyReferenced(&slots), let slots else { return self = StateQueue() }
    for _ in 0..<count {
      unsafe slots.operations.destroy(slots[0])
      slots.dropFirst()
    }
    count = 0
  }

  @inlinable mutating func uniqueSlots<State>(of type: State.Type) -> Slots {
    if isKnownUniquelyReferenced(&slots), let slots { return slots }
    return makeSlots(of: type)
  }

  /// Slots of its own: a copy of the shared ones, or new ones.
  @inline(never) @usableFromInline mutating func makeSlots<State>(of type: State.Type) -> Slots {
    let made = slots?.copied() ?? Slots(of: type)
    slots = made
    return made
  }

  /// All states, in order.
  func all<State>(as type: State.Type = State.self) -> [State] { (0..<count).compactMap { state(at: $0, as: type) } }
}

extension StateQueue {
  /// Room for values of one size, in segments of some 4 KB, except for the first of an empty queue, which is small.
  @usableFromInline @safe final class Slots {
    @usableFromInline typealias Slot = UnsafeMutableRawPointer

    /// The operations on values of one type.
    @unsafe struct Operations {
      let stride: Int
      let alignment: Int
      let copy: (_ to: Slot, _ from: Slot) -> Void
      let move: (_ to: Slot, _ from: Slot) -> Void
      let destroy: (Slot) -> Void
    }

    let operations: Operations
    /// The binary logarithm of the number of slots in a segment.
    private let shift: Int

    // SAFETY: each is allocated here with room for the slots of its segment, and deallocated once, when the last of
    // them has been dropped, or with this object. `head` and `count` never go beyond them. Accesses to these variables
    // do not overlap: they change only in methods of the one queue that holds this object, which is `inout` there, and
    // no code that is not in this file runs during an access.
    @exclusivity(unchecked) private var segments = unsafe Queue<Slot>()
    /// How many slots the first segment has, and how many of them have been dropped.
    @exclusivity(unchecked) private var firstLength = 0
    @exclusivity(unchecked) private var head = 0
    @exclusivity(unchecked) private var count = 0

    init(_ operations: Operations) {
      unsafe self.operations = operations
      shift = unsafe Int.bitWidth - 1 - min(256, max(1, 4096 / operations.stride)).leadingZeroBitCount
    }

    convenience init<Value>(of type: Value.Type) {
      unsafe self.init(
        Operations(
          stride: MemoryLayout<Value>.stride, alignment: MemoryLayout<Value>.alignment,
          copy: { to, from in
            unsafe to.initializeMemory(as: Value.self, to: from.assumingMemoryBound(to: Value.self).pointee)
          },
          move: { to, from in
            unsafe to.moveInitializeMemory(as: Value.self, from: from.assumingMemoryBound(to: Value.self), count: 1)
          }, destroy: { slot in unsafe slot.assumingMemoryBound(to: Value.self).deinitialize(count: 1) }))
    }

    /// Slots for values of the same type.
    func another() -> Slots { unsafe Slots(operations) }

    private var segmentLength: Int { 1 << shift }

    /// The slot at an offset from the first.
    @usableFromInline subscript(offset: Int) -> Slot {
      let place = unsafe head + offset
      if unsafe place < firstLength { return unsafe slot(place, of: 0) }
      let (segment, index) = unsafe ((place - firstLength) >> shift, (place - firstLength) & (segmentLength - 1))
      return unsafe slot(index, of: segment + 1)
    }

    /// How many slots, from an offset on, lie side by side.
    @usableFromInline func runLength(at offset: Int) -> Int {
      let place = unsafe head + offset
      if unsafe place < firstLength { return unsafe firstLength - place }
      return unsafe segmentLength - ((place - firstLength) & (segmentLength - 1))
    }

    private func slot(_ index: Int, of segment: Int) -> Slot {
      // There is a segment for every slot that has been appended.
      unsafe segments[segment]! + index * operations.stride
    }

    /// A slot behind the last, which the caller has to initialize.
    @usableFromInline func append() -> Slot {
      let place = unsafe head + count - firstLength
      if unsafe segments.isEmpty {
        unsafe firstLength = min(32, segmentLength)
        unsafe segments.append(allocate(firstLength))
      } else if unsafe place >= 0 && place & (segmentLength - 1) == 0 && place >> shift == segments.count - 1 {
        unsafe segments.append(allocate(segmentLength))
      }
      unsafe count += 1
      return unsafe self[count - 1]
    }

    private func allocate(_ length: Int) -> Slot {
      unsafe Slot.allocate(byteCount: length * operations.stride, alignment: operations.alignment)
    }

    /// Gives up the first slot, from which the value has been moved.
    @usableFromInline func dropFirst() {
      unsafe count -= 1
      unsafe head += 1
      // A small segment stays, so that a reader that is one behind does not allocate each time.
      if unsafe count == 0 && segments.count == 1 && firstLength <= 32 { return unsafe head = 0 }
      guard unsafe head == firstLength || count == 0 else { return }
      while let segment = unsafe segments.popFirst() {
        unsafe segment.deallocate()
        if unsafe count > 0 { break }
      }
      unsafe head = 0
      unsafe firstLength = segments.isEmpty ? 0 : segmentLength
    }

    /// Slots with copies of all values.
    @usableFromInline func copied() -> Slots {
      let copied = another()
      for offset in unsafe 0..<count { unsafe operations.copy(copied.append(), self[offset]) }
      return copied
    }

    deinit {
      for offset in unsafe 0..<count { unsafe operations.destroy(self[offset]) }
      while let segment = unsafe segments.popFirst() { unsafe segment.deallocate() }
    }
  }
}
