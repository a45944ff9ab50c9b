import Synchronization

/// Which keys of a collection have been written, in the order of the writes.
///
/// Two copies of a collection go their own ways. Which of them a place belongs to is told by the number of the way: a
/// copy that is written goes a new one, and knows where it has left the one before. A value is alone on its way if
/// nothing else refers to the way's object.
@usableFromInline struct KeyedWrites<Key: Hashable & Sendable>: Sendable {
  @usableFromInline final class Way: Sendable {
    @usableFromInline let number: UInt64

    @usableFromInline init() { number = wayCount.wrappingAdd(1, ordering: .relaxed).newValue }
  }

  /// A place among the writes of a collection. That of one that was never written is zero.
  @usableFromInline struct Mark: Equatable, Sendable {
    @usableFromInline let way: UInt64
    @usableFromInline let place: Int

    @inlinable init(way: UInt64 = 0, place: Int = 0) {
      self.way = way
      self.place = place
    }
  }

  @usableFromInline var way: Way?
  /// Where earlier ways were left: the last of them.
  @usableFromInline var earlier: [Mark] = []
  @usableFromInline var keys: ContiguousArray<Key> = []
  /// How many writes came before those.
  @usableFromInline var forgotten = 0

  @inlinable init() {}

  @inlinable var mark: Mark { Mark(way: way?.number ?? 0, place: forgotten + keys.count) }

  /// The keys that were written since; nil if that is not known, and may be all of them.
  @inlinable func keys(since mark: Mark) -> ContiguousArray<Key>.SubSequence? {
    let isOnTheWay = mark.way == way?.number ?? 0 || earlier.contains { $0.way == mark.way && mark.place <= $0.place }
    guard isOnTheWay, mark.place >= forgotten else { return nil }
    return keys[(mark.place - forgotten)...]
  }

  /// - Parameter count: How many keys there are.
  @inlinable mutating func note(_ key: Key, count: Int) {
    if way == nil || !isKnownUniquelyReferenced(&way) { goOwnWay() }
    if keys.count >= Swift.max(128, 4 * count) {
      let half = keys.count / 2
      keys.removeFirst(half)
      forgotten += half
    }
    keys.append(key)
  }

  /// All keys are written.
  @usableFromInline mutating func noteAll() {
    way = Way()
    (earlier, keys, forgotten) = ([], [], 0)
  }

  @usableFromInline mutating func goOwnWay() {
    // A copy has little to copy of them.
    if keys.count > 64 {
      forgotten += keys.count - 64
      keys = ContiguousArray(keys.suffix(64))
    }
    if earlier.count >= 8 { earlier.removeFirst() }
    earlier.append(mark)
    way = Way()
  }
}

private let wayCount = Atomic<UInt64>(0)
