import Synchronization

/// Which keys of a collection have been written, in the order of the writes.
///
/// Each copy of a collection gets a new version id on its first write, and remembers where it has left its last eight
/// ancestors: so a place among the writes of another version is known to be its own past, or not. A value is the only
/// one of its version if nothing else refers to the version's object.
@usableFromInline struct KeyedWrites<Key: Hashable & Sendable>: Sendable {
  @usableFromInline final class Version: Sendable {
    @usableFromInline let number: UInt64

    @usableFromInline init() { number = versionCount.wrappingAdd(1, ordering: .relaxed).newValue }
  }

  /// A place among the writes of a collection; zero for a collection that was never written.
  @usableFromInline struct Mark: Equatable, Sendable {
    @usableFromInline let version: UInt64
    @usableFromInline let place: Int

    @inlinable init(version: UInt64 = 0, place: Int = 0) {
      self.version = version
      self.place = place
    }
  }

  @usableFromInline var version: Version?
  /// Where the last eight earlier versions were left.
  @usableFromInline var earlier: [Mark] = []
  @usableFromInline var keys: ContiguousArray<Key> = []
  /// How many writes came before `keys`.
  @usableFromInline var forgotten = 0

  @inlinable init() {}

  @inlinable var mark: Mark { Mark(version: version?.number ?? 0, place: forgotten + keys.count) }

  /// The keys that were written since a mark; nil if they are not known, and may be all keys.
  @inlinable func keys(since mark: Mark) -> ContiguousArray<Key>.SubSequence? {
    let isOwnPast =
      mark.version == version?.number ?? 0 || earlier.contains { $0.version == mark.version && mark.place <= $0.place }
    guard isOwnPast, mark.place >= forgotten else { return nil }
    return keys[(mark.place - forgotten)...]
  }

  /// - Parameter count: How many keys there are.
  @inlinable mutating func note(_ key: Key, count: Int) {
    if version == nil || !isKnownUniquelyReferenced(&version) { beginVersion() }
    if keys.count >= Swift.max(128, 4 * count) {
      let half = keys.count / 2
      keys.removeFirst(half)
      forgotten += half
    }
    keys.append(key)
  }

  /// All keys are written.
  @usableFromInline mutating func noteAll() {
    version = Version()
    (earlier, keys, forgotten) = ([], [], 0)
  }

  @usableFromInline mutating func beginVersion() {
    // So that a copy has few keys to copy.
    if keys.count > 64 {
      forgotten += keys.count - 64
      keys = ContiguousArray(keys.suffix(64))
    }
    if earlier.count >= 8 { earlier.removeFirst() }
    earlier.append(mark)
    version = Version()
  }
}

private let versionCount = Atomic<UInt64>(0)
