/// What waits for its turn in a tree's one order (G1): a pure state machine, run under the tree's lock.
///
/// Whoever appends to an idle inbox schedules one drain; everything appended until that drain has ended is part of its
/// work. A *visitor* is a `send` or a read on its way to the executor: where one is known of, a drain that has spent its
/// quantum does not queue up again but leaves the rest to it, so that no flood can keep a visitor out (G10).
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

  /// An idle inbox whose storage grew beyond this in a flood gives it back.
  @inlinable
  static var keptCapacity: Int { 4096 }

  @usableFromInline
  var phase = Phase.idle
  @usableFromInline
  var entries: ContiguousArray<Entry> = []
  @usableFromInline
  var idleWaiters: ContiguousArray<Waiter> = []

  @inlinable
  init() {}

  /// Adds an entry; true where the caller has to schedule a drain.
  @inlinable
  mutating func append(_ entry: Entry) -> Bool {
    entries.append(entry)
    guard phase == .idle else { return false }
    phase = .draining
    return true
  }

  /// Moves everything that waits into an empty batch, whose storage the inbox takes over.
  @inlinable
  mutating func takeAll(into batch: inout ContiguousArray<Entry>) {
    guard !entries.isEmpty else { return }
    swap(&entries, &batch)
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

  /// A drain has ended, with or without a rest.
  @inlinable
  mutating func drainEnded(withRest rest: Bool, visitorExpected: Bool) -> DrainEnd {
    guard rest || !entries.isEmpty else {
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
    phase = entries.isEmpty ? .idle : .draining
    return phase == .draining
  }
}

extension Inbox: Sendable where Entry: Sendable, Waiter: Sendable {}
