/// The requests that wait for their turn in a tree's one order (G1): a pure state machine, run under the requests'
/// lock.
///
/// Whoever appends to an idle inbox schedules one drain; everything appended until that drain has ended is part of its
/// work. A *visitor* is a `send` or a read on its way to the executor: while one is expected, a drain that has used up
/// its quantum does not queue up again before the visitor has arrived, so that no flood can keep a visitor out (G10).
@usableFromInline struct Inbox<Entry, Waiter> {
  @usableFromInline enum Phase: Equatable, Sendable {
    /// Nothing waits, and no drain is scheduled or running.
    case idle
    /// A drain is scheduled or running.
    case draining
    /// The rest is left to a visitor that is on its way.
    case leftToVisitor
  }

  /// An idle inbox keeps room for fewer entries than this, and likewise the batch: for 128 KB each. What a flood took
  /// is freed.
  @inlinable static var greatestKept: Int { max(1, 131_072 / MemoryLayout<Entry>.stride) }

  @usableFromInline var phase = Phase.idle
  @usableFromInline var entries = ContiguousArray<Entry>()
  @usableFromInline var idleWaiters = ContiguousArray<Waiter>()

  @inlinable init() {}

  /// Adds an entry; true if the caller has to schedule a drain.
  @inlinable mutating func append(_ entry: Entry) -> Bool {
    entries.append(entry)
    guard phase == .idle else { return false }
    phase = .draining
    return true
  }

  /// Moves all entries into an empty batch, whose storage the inbox takes in return.
  @inlinable mutating func takeAll(into batch: inout ContiguousArray<Entry>) {
    guard !entries.isEmpty else { return }
    swap(&entries, &batch)
  }

  /// What to do at the end of a drain.
  @usableFromInline enum DrainEnd {
    /// There is more: schedule a drain.
    case again
    /// There is more, and a visitor on its way will schedule a drain for it.
    case leftToVisitor
    /// Nothing is left; these waited for that.
    case idle(ContiguousArray<Waiter>)
  }

  /// A drain has ended, with or without entries left over.
  @inlinable mutating func drainEnded(withRest rest: Bool, visitorExpected: Bool) -> DrainEnd {
    guard rest || !entries.isEmpty else { return becomeIdle() }
    phase = visitorExpected ? .leftToVisitor : .draining
    return visitorExpected ? .leftToVisitor : .again
  }

  /// A visitor has arrived; true if it has to schedule a drain, as the rest was left to it.
  @inlinable mutating func visitorCame() -> Bool {
    guard phase == .leftToVisitor else { return false }
    phase = .draining
    return true
  }

  @inlinable mutating func becomeIdle() -> DrainEnd {
    phase = .idle
    if entries.capacity >= Self.greatestKept { entries = [] }
    defer { idleWaiters = [] }
    return .idle(idleWaiters)
  }

  /// Whether the inbox is idle; if it is not, the waiter is handed out once it is.
  @inlinable mutating func isIdle(orTells waiter: Waiter) -> Bool {
    if phase != .idle { idleWaiters.append(waiter) }
    return phase == .idle
  }
}

extension Inbox: Sendable where Entry: Sendable, Waiter: Sendable {}
