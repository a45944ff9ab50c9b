import Synchronization

/// The keys of a collection's last writes, in order. Each copy gets a new version on its first write. It remembers the
/// marks at which it left its last eight ancestors, and so recognizes marks of its own past.
@usableFromInline struct KeyedWrites<Key: Hashable & Sendable>: Sendable {
  @usableFromInline final class Version: Sendable {
    @usableFromInline let number: UInt64

    @usableFromInline init() { number = versionCount.wrappingAdd(1, ordering: .relaxed).newValue }
  }

  /// Zero if the collection was never written.
  @usableFromInline struct Mark: Equatable, Sendable {
    @usableFromInline let version: UInt64
    @usableFromInline let place: Int

    @inlinable init(version: UInt64 = 0, place: Int = 0) {
      self.version = version
      self.place = place
    }
  }

  @usableFromInline var version: Version?
  @usableFromInline var earlier: [Mark] = []
  @usableFromInline var keys: ContiguousArray<Key> = []
  @usableFromInline var forgotten = 0

  @inlinable init() {}

  @inlinable var mark: Mark { Mark(version: version?.number ?? 0, place: forgotten + keys.count) }

  /// Nil if they are unknown: every key may have been written.
  @inlinable func keys(since mark: Mark) -> ContiguousArray<Key>.SubSequence? {
    let isOwnPast =
      mark.version == version?.number ?? 0 || earlier.contains { $0.version == mark.version && mark.place <= $0.place }
    guard isOwnPast, mark.place >= forgotten else { return nil }
    return keys[(mark.place - forgotten)...]
  }

  @inlinable mutating func note(_ key: Key, count: Int) {
    if version == nil || !isKnownUniquelyReferenced(&version) { beginVersion() }
    if keys.count >= Swift.max(128, 4 * count) {
      let half = keys.count / 2
      keys.removeFirst(half)
      forgotten += half
    }
    keys.append(key)
  }

  @usableFromInline mutating func noteAll() {
    version = Version()
    (earlier, keys, forgotten) = ([], [], 0)
  }

  @usableFromInline mutating func beginVersion() {
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
