/// The requests that wait in a tree's inbox.
@usableFromInline struct Requests<Action: Sendable>: Sendable {
  /// Requests that are performed one after the other: the actions side by side, and the runs that say which stores they
  /// are given to, and which commands come between them.
  @usableFromInline struct Batch: Sendable {
    @usableFromInline var actions = ContiguousArray<Action>()
    @usableFromInline var runs = Runs()

    @inlinable init() {}

    @inlinable var isEmpty: Bool { runs.isEmpty }
    @inlinable var count: Int { actions.count + runs.commandCount }

    /// Empties it, and keeps its storage.
    @inlinable mutating func removeAll() {
      actions.removeAll(keepingCapacity: true)
      runs.removeAll()
    }
  }

  /// An idle inbox and an empty batch each keep room for fewer actions than this, which take 128 KB. The memory of a
  /// flood is freed.
  @inlinable static var greatestKept: Int { max(1, 131_072 / MemoryLayout<Action>.stride) }

  @usableFromInline var inbox = Inbox<Waiter<Void>>()
  @usableFromInline var waiting = Batch()
  /// The store of the last request, which its run holds, so that no other object has its identity; nil if the last
  /// request is a command, or nothing waits in this segment.
  @usableFromInline var last: ObjectIdentifier?
  /// The requests before `waiting`, in segments, so that no part of a flood is moved once it is large. Empty if nothing
  /// waits.
  @usableFromInline var full = ContiguousArray<Batch>()

  @inlinable init() {}

  var count: Int { full.reduce(waiting.count) { $0 + $1.count } }

  /// Adds an action; true if the caller has to schedule a drain.
  @inlinable mutating func append(_ action: Action, from node: StoreNode<Action>) -> Bool {
    if isSegmentFull { beginSegment() }
    if last != ObjectIdentifier(node) { beginRun(of: node) }
    waiting.actions.append(action)
    return inbox.request()
  }

  @usableFromInline mutating func beginRun(of node: StoreNode<Action>) {
    if waiting.runs.isFull { beginSegment() }
    waiting.runs.appendStore(node, at: waiting.actions.count)
    last = ObjectIdentifier(node)
  }

  /// Adds a command; true if the caller has to schedule a drain.
  @usableFromInline mutating func append(_ command: Command) -> Bool {
    if waiting.runs.isFull { beginSegment() }
    waiting.runs.appendCommand(command, at: waiting.actions.count)
    last = nil
    return inbox.request()
  }

  /// Whether one more action would move the others, and they are many.
  @inlinable var isSegmentFull: Bool {
    let count = waiting.actions.count
    return count == waiting.actions.capacity && count >= Self.greatestKept
  }

  /// Adds the end of a store; true if the caller has to schedule a drain. If the order comes from elsewhere, the
  /// store's last actions are submitted first, and the end waits until those are committed.
  mutating func appendEnd(_ end: Command, of node: StoreNode<Action>) -> Bool {
    let isGivenLast = node.isGivenLast
    let schedules =
      node.tree.order != nil
      && append(
        .closure { tree in
          if isGivenLast { node.commitLast(on: tree) }
          node.bidFarewell(on: tree)
        })
    return append(end) || schedules
  }

  /// Each segment has room for four times as many as the one before, up to 128 times `greatestKept`: there are few of
  /// them. The segments before the first of the largest are together smaller than that one, so that the C library keeps
  /// the memory of one flood for the next: it gives back what exceeds twice the largest block that was freed. Not
  /// specialized, as it is called once in thousands of requests; nor is `takeSegment`.
  @usableFromInline mutating func beginSegment() {
    let factor = 1 << min(2 * (full.count + 1), 7)
    var segment = Batch()
    if isSegmentFull { segment.actions.reserveCapacity(Self.greatestKept * factor) }
    if waiting.runs.isFull { segment.runs.all.reserveCapacity(Runs.greatestKept * factor) }
    swap(&segment, &waiting)
    last = nil
    full.append(segment)
  }

  /// Moves the waiting requests, or their first full segment, into a finished batch; true if there are more. Without a
  /// full segment, `waiting` takes the batch's storage in return.
  @inlinable mutating func take(into batch: inout Batch) -> Bool {
    if !full.isEmpty { return takeSegment(into: &batch) }
    if waiting.isEmpty { return false }
    swap(&waiting, &batch)
    last = nil
    return false
  }

  @inline(never) @usableFromInline mutating func takeSegment(into batch: inout Batch) -> Bool {
    // An array that shrinks from the front moves the rest; this copies references, and there are few.
    batch = full[0]
    full = full.count == 1 ? ContiguousArray() : ContiguousArray(full.dropFirst())
    return true
  }

  /// What to do at the end of a drain, with or without requests left over.
  @inlinable mutating func drainEnded(withRest rest: Bool, visitorExpected: Bool) -> Inbox<Waiter<Void>>.DrainEnd {
    let isAll = !rest && waiting.isEmpty
    if isAll, waiting.actions.capacity >= Self.greatestKept { waiting.actions = [] }
    return inbox.drainEnded(withRest: !isAll, visitorExpected: visitorExpected)
  }
}
