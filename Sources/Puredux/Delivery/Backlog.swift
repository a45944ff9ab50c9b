/// States that some subscriber has still to read, first in, first out, addressed by their position in the log.
///
/// Kept in segments, so that growing never moves what is there and dropping from the front never shifts the rest: a
/// publisher pauses as little over a backlog of a million states as over one.
@usableFromInline
struct Backlog<State> {
  @usableFromInline
  struct Entry {
    @usableFromInline
    var state: State
    /// How many unbounded cursors stand right before this state.
    @usableFromInline
    var holders: Int32
    /// The group of the newest cursors that do (`NewestPlaces`), or zero.
    @usableFromInline
    var group: Int32

    @inlinable
    init(state: State, holders: Int, group: Int32) {
      self.state = state
      self.holders = Int32(truncatingIfNeeded: holders)
      self.group = group
    }
  }

  @inlinable
  init() {}

  @inlinable
  static var segmentLength: Int { 256 }

  /// The position of the first state kept.
  @usableFromInline
  var start = 0
  /// The position after the last state.
  @usableFromInline
  var end = 0
  /// The position of the first place of the first segment.
  @usableFromInline
  var base = 0
  @usableFromInline
  var segments = Queue<ContiguousArray<Entry?>>()

  @inlinable
  var count: Int { end - start }
  @inlinable
  var isEmpty: Bool { start == end }

  @inlinable
  mutating func append(_ state: State, holders: Int, group: Int32 = 0) {
    let (segment, offset) = place(of: end)
    if offset == 0, segment == segments.count { segments.append([]) }
    segments.update(segment) { $0?.append(Entry(state: state, holders: holders, group: group)) }
    end += 1
  }

  /// Passes over a state that nobody waits for. Only while the backlog is empty.
  @inlinable
  mutating func skip() {
    end += 1
    start = end
    base = end
  }

  @inlinable
  var holdersOfFirst: Int { isEmpty ? 0 : Int(segments.storage[segments.head]?[start - base]?.holders ?? 0) }
  @inlinable
  var groupOfFirst: Int32 { isEmpty ? 0 : segments.storage[segments.head]?[start - base]?.group ?? 0 }

  @inlinable
  func state(at position: Int) -> State? { entry(at: position)?.state }

  /// Adds to the holders at a position, and returns how many it has now.
  @discardableResult
  @inlinable
  mutating func addHolders(_ number: Int, at position: Int) -> Int {
    let (segment, offset) = place(of: position)
    return segments.update(segment) { segment in
      segment?[offset]?.holders += Int32(truncatingIfNeeded: number)
      return Int(segment?[offset]?.holders ?? 0)
    }
  }

  @inlinable
  func group(at position: Int) -> Int32 {
    let (segment, offset) = place(of: position)
    return segments.storage[segments.head + segment]?[offset]?.group ?? 0
  }

  @inlinable
  mutating func setGroup(_ group: Int32, at position: Int) {
    let (segment, offset) = place(of: position)
    segments.storage[segments.head + segment]?[offset]?.group = group
  }

  /// Takes the first state out.
  @inlinable
  mutating func popFirst() -> State? {
    guard !isEmpty else { return nil }
    let offset = start - base
    let state = segments.update(0) { $0?[offset].take()?.state }
    start += 1
    if isEmpty {
      base = start
      let keepsStorage = segments.count == 1 && (segments[0]?.capacity ?? 0) <= 16
      if keepsStorage {
        segments.update(0) { $0?.removeAll(keepingCapacity: true) }
      } else {
        segments = Queue()
      }
    } else if start - base == Self.segmentLength {
      base = start
      _ = segments.popFirst()
    }
    return state
  }

  @inlinable
  func entry(at position: Int) -> Entry? {
    let (segment, offset) = place(of: position)
    return segments[segment]?[offset]
  }

  @inlinable
  func place(of position: Int) -> (segment: Int, offset: Int) {
    let offset = position - base
    return (offset / Self.segmentLength, offset % Self.segmentLength)
  }
}

extension Backlog: Sendable where State: Sendable {}
extension Backlog.Entry: Sendable where State: Sendable {}
