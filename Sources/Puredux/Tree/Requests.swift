/// The requests that wait in a tree's inbox.
@usableFromInline struct Requests<Action: Sendable>: Sendable {
  /// Plain memory if the action is: an inbox of entries is then moved and emptied as such.
  @usableFromInline enum Entry: Sendable {
    /// The store first, by its place among the referents, which makes an entry smaller.
    case commit(from: Int32, Action)
    case command(Int32)
  }

  /// Entries that are performed one after the other, and what they refer to.
  @usableFromInline struct Batch: Sendable {
    @usableFromInline var entries = ContiguousArray<Entry>()
    @usableFromInline var referents = Referents()

    @inlinable init() {}

    /// Empties it, and keeps its storage.
    @inlinable mutating func removeAll() {
      entries.removeAll(keepingCapacity: true)
      referents.removeAll()
    }
  }

  @usableFromInline var inbox = Inbox<Entry, Waiter<Void>>()
  @usableFromInline var referents = Referents()
  /// What came before the inbox's entries, in segments, so that no entry of a flood is ever moved. Empty if the inbox
  /// is.
  @usableFromInline var full = ContiguousArray<Batch>()

  @inlinable init() {}

  /// How many entries wait.
  var count: Int { full.reduce(inbox.entries.count) { $0 + $1.entries.count } }

  /// Adds an action; true if the caller has to schedule a drain.
  @inlinable mutating func append(_ action: Action, from node: StoreNode<Action>) -> Bool {
    if isSegmentFull { beginSegment() }
    return inbox.append(.commit(from: referents.place(ofStore: node), action))
  }

  /// Adds a command; true if the caller has to schedule a drain.
  @inlinable mutating func append(_ command: Command) -> Bool {
    if isSegmentFull { beginSegment() }
    return inbox.append(.command(referents.place(ofCommand: command)))
  }

  /// Whether one more entry would have the others moved, and there are many of them.
  @inlinable var isSegmentFull: Bool {
    let count = inbox.entries.count
    return count == inbox.entries.capacity && count >= Inbox<Entry, Waiter<Void>>.greatestKept
  }

  /// Adds the end of a store; true where the caller has to schedule a drain. Where the order comes from elsewhere, the
  /// store's last action is submitted first, and the end waits until that is committed.
  mutating func appendEnd(_ end: Command, of node: StoreNode<Action>, sequencer: AnySequencer?) -> Bool {
    guard let sequencer else { return append(end) }
    let schedules = node.isGivenLast && append(.closure { tree in node.commitLast(on: tree) })
    return append(sequencer.deferred(end)) || schedules
  }

  /// Each segment has room for twice as many as the one before: there are few of them, however many entries wait, and
  /// the C library keeps the memory of one flood for the next. Not specialized, as it is called once in thousands of
  /// entries; likewise `takeSegment`.
  @usableFromInline mutating func beginSegment() {
    var segment = Batch()
    segment.entries.reserveCapacity(Inbox<Entry, Waiter<Void>>.greatestKept << min(full.count + 1, 7))
    swap(&segment.entries, &inbox.entries)
    swap(&segment.referents, &referents)
    full.append(segment)
  }

  /// Moves what waits, or the first full segment of it, into a finished batch; true if there is more. What is not a
  /// full segment takes the batch's storage in return.
  @inlinable mutating func take(into batch: inout Batch) -> Bool {
    if !full.isEmpty { return takeSegment(into: &batch) }
    if inbox.entries.isEmpty { return false }
    inbox.takeAll(into: &batch.entries)
    swap(&referents, &batch.referents)
    return false
  }

  @usableFromInline mutating func takeSegment(into batch: inout Batch) -> Bool {
    batch = full.removeFirst()
    if full.isEmpty { full = ContiguousArray() }
    return true
  }
}

/// The objects that entries refer to: the stores, each held once for the consecutive actions that come from it, and the
/// commands.
///
/// Independent of the type of the actions, so that it is compiled once.
@usableFromInline struct Referents: Sendable {
  /// Takes the place of a command that has been performed.
  private final class Performed: Sendable {
    static let marker = Performed()
  }

  @usableFromInline var objects: ContiguousArray<any AnyObject & Sendable> = []

  @inlinable init() {}

  @inlinable mutating func place<Action>(ofStore node: StoreNode<Action>) -> Int32 {
    let last = objects.count &- 1
    if last >= 0, objects[last] === node { return Int32(truncatingIfNeeded: last) }
    objects.append(node)
    return Int32(truncatingIfNeeded: last &+ 1)
  }

  @usableFromInline mutating func place(ofCommand command: Command) -> Int32 {
    objects.append(command)
    return Int32(truncatingIfNeeded: objects.count &- 1)
  }

  @inlinable mutating func removeAll() {
    // What a flood took is freed.
    objects.removeAll(keepingCapacity: objects.capacity <= 64)
  }

  /// SAFETY: the entry of an action refers to a node of the tree that has these requests.
  @inlinable func node<Action>(at place: Int32) -> StoreNode<Action> {
    unsafe unsafeDowncast(objects[Int(place)], to: StoreNode<Action>.self)
  }

  /// Performs a command, once, and lets go of it: a subscription must not be kept alive after its sequence is gone.
  ///
  /// SAFETY: the entry of a command refers to a command.
  @usableFromInline mutating func perform(at place: Int32, on tree: isolated any TreeIsolation) {
    var command = unsafe unsafeDowncast(objects[Int(place)], to: Command.self)
    objects[Int(place)] = Performed.marker
    if isKnownUniquelyReferenced(&command) { command.performUnheld(on: tree) } else { command.perform(on: tree) }
  }
}
