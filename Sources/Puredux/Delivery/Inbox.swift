/// What waits for its turn in a tree's one order (G1): a pure state machine, run under the tree's lock.
///
/// Whoever appends to an idle inbox schedules one drain; everything appended until that drain has ended is part of its
/// work. What waits is kept in segments: a flood never moves what is there, and a drain performs one segment before it lets others on the
/// executor. A *visitor* is a `send` or a read on its way there: where one is known of, a drain that has not come to the end
/// does not queue up again but leaves the rest to it, so that no flood can keep a visitor out (G10).
@usableFromInline
struct Inbox<Entry, Waiter> {
  @usableFromInline
  enum Phase: Equatable, Sendable {
    /// Nothing waits, and no drain is on its way.
    case idle
    /// A drain is on its way or under way.
    case draining
    /// The rest is left to a visitor that is on its way.
    case leftToVisitor
  }

  @inlinable
  static var segmentLength: Int { 1024 }
  /// An idle inbox whose storage grew beyond this gives it back.
  @inlinable
  static var keptCapacity: Int { 256 }

  @usableFromInline
  var phase = Phase.idle
  /// How many of the full segments are taken.
  @usableFromInline
  var takenSegments: Int32 = 0
  /// The last segment.
  @usableFromInline
  var entries: ContiguousArray<Entry> = []
  /// The segments before it, which are full.
  @usableFromInline
  var fullSegments: ContiguousArray<ContiguousArray<Entry>> = []
  @usableFromInline
  var idleWaiters: ContiguousArray<Waiter> = []

  @inlinable
  init() {}

  @inlinable
  var fullCount: Int { fullSegments.count - Int(takenSegments) }
  @inlinable
  var count: Int { fullCount * Self.segmentLength + entries.count }
  @inlinable
  var isEmpty: Bool { entries.isEmpty && fullSegments.isEmpty }

  /// Adds an entry; true where the caller has to schedule a drain.
  @inlinable
  mutating func append(_ entry: Entry) -> Bool {
    if entries.count == Self.segmentLength { beginSegment() }
    entries.append(entry)
    guard phase == .idle else { return false }
    phase = .draining
    return true
  }

  @inline(never)
  @inlinable
  mutating func beginSegment() {
    var segment = ContiguousArray<Entry>()
    segment.reserveCapacity(Self.segmentLength)
    swap(&segment, &entries)
    fullSegments.append(segment)
  }

  /// Moves the first segment into an empty batch, whose storage the inbox may take over. Returns how many segments are left.
  @inlinable
  mutating func take(into batch: inout ContiguousArray<Entry>) -> Int {
    guard !fullSegments.isEmpty else {
      if !entries.isEmpty { swap(&entries, &batch) }
      return 0
    }
    batch = []
    swap(&fullSegments[Int(takenSegments)], &batch)
    takenSegments += 1
    if fullCount == 0 {
      fullSegments = []
      takenSegments = 0
    }
    return fullCount + (entries.isEmpty ? 0 : 1)
  }

  @usableFromInline
  enum DrainEnd {
    /// There is more: schedule another drain.
    case again
    /// There is more, and a visitor will do it.
    case leftToVisitor
    /// All is done; these waited for that.
    case idle(ContiguousArray<Waiter>)
  }

  /// A drain has ended.
  @inlinable
  mutating func drainEnded(visitorExpected: Bool) -> DrainEnd {
    guard !isEmpty else {
      phase = .idle
      if entries.capacity > Self.keptCapacity { entries = [] }
      defer { idleWaiters = [] }
      return .idle(idleWaiters)
    }
    phase = visitorExpected ? .leftToVisitor : .draining
    return visitorExpected ? .leftToVisitor : .again
  }

  /// Whether no drain is on its way or under way; where one is, its end tells the waiter.
  @inlinable
  mutating func isIdle(orTells waiter: Waiter) -> Bool {
    if phase == .draining { idleWaiters.append(waiter) }
    return phase != .draining
  }

  /// A visitor that has committed the rest goes; true where the caller has to schedule a drain for what came since.
  @inlinable
  mutating func visitorLeft() -> Bool {
    guard phase == .leftToVisitor else { return false }
    phase = isEmpty ? .idle : .draining
    return phase == .draining
  }
}

extension Inbox: Sendable where Entry: Sendable, Waiter: Sendable {}
