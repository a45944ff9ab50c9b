@usableFromInline struct Requests<Action: Sendable>: Sendable {
  @usableFromInline struct Batch: Sendable {
    @usableFromInline var actions = ContiguousArray<Action>()
    @usableFromInline var runs = Runs()

    @inlinable init() {}

    @inlinable var isEmpty: Bool { runs.isEmpty }
    @inlinable var count: Int { actions.count + runs.commandCount }

    @inlinable mutating func removeAll() {
      actions.removeAll(keepingCapacity: true)
      runs.removeAll()
    }
  }

  /// The number of actions in 128 KB. An idle inbox and an empty batch have room for fewer: the memory of a flood is
  /// freed.
  @inlinable static var greatestKept: Int { max(1, 131_072 / MemoryLayout<Action>.stride) }

  @usableFromInline var inbox = Inbox<Waiter<Void>>()
  @usableFromInline var waiting = Batch()
  /// The store of the last request, held by its run. Nil after a command, or if nothing waits in this segment.
  @usableFromInline var last: ObjectIdentifier?
  /// In segments, so that a large flood is never moved.
  @usableFromInline var full = ContiguousArray<Batch>()

  @inlinable init() {}

  var count: Int { full.reduce(waiting.count) { $0 + $1.count } }

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

  @usableFromInline mutating func append(_ command: Command) -> Bool {
    if waiting.runs.isFull { beginSegment() }
    waiting.runs.appendCommand(command, at: waiting.actions.count)
    last = nil
    return inbox.request()
  }

  @inlinable var isSegmentFull: Bool {
    let count = waiting.actions.count
    return count == waiting.actions.capacity && count >= Self.greatestKept
  }

  /// With an external order, the store's last actions are submitted first, and the end waits for their commits.
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

  /// Four times as large as the one before, up to 128 times `greatestKept`. The segments before the first of the
  /// largest are together smaller than it. So the C library, which returns memory beyond twice the largest freed block,
  /// retains one flood's memory for the next.
  @usableFromInline mutating func beginSegment() {
    let factor = 1 << min(2 * (full.count + 1), 7)
    var segment = Batch()
    if isSegmentFull { segment.actions.reserveCapacity(Self.greatestKept * factor) }
    if waiting.runs.isFull { segment.runs.all.reserveCapacity(Runs.greatestKept * factor) }
    swap(&segment, &waiting)
    last = nil
    full.append(segment)
  }

  /// Moves the waiting requests, or their first full segment, into a finished batch. Returns whether there are more.
  @inlinable mutating func take(into batch: inout Batch) -> Bool {
    if !full.isEmpty { return takeSegment(into: &batch) }
    if waiting.isEmpty { return false }
    swap(&waiting, &batch)
    last = nil
    return false
  }

  @inline(never) @usableFromInline mutating func takeSegment(into batch: inout Batch) -> Bool {
    batch = full[0]
    full = full.count == 1 ? ContiguousArray() : ContiguousArray(full.dropFirst())
    return true
  }

  @inlinable mutating func drainEnded(withRest rest: Bool, visitorExpected: Bool) -> Inbox<Waiter<Void>>.DrainEnd {
    let isAll = !rest && waiting.isEmpty
    if isAll, waiting.actions.capacity >= Self.greatestKept { waiting.actions = [] }
    return inbox.drainEnded(withRest: !isAll, visitorExpected: visitorExpected)
  }
}
