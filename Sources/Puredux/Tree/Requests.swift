/// The requests that wait in a tree's inbox.
@usableFromInline struct Requests<Action: Sendable>: Sendable {
  /// Plain memory if the action is: an inbox of entries is then moved and emptied as such.
  @usableFromInline enum Entry: Sendable {
    /// The store first, by its place among the referents, which makes an entry smaller.
    case commit(from: Int32, Action)
    case command(Int32)
  }

  @usableFromInline var inbox = Inbox<Entry, Waiter<Void>>()
  @usableFromInline var referents = Referents()

  @inlinable init() {}

  /// Adds an action; true if the caller has to schedule a drain.
  @inlinable mutating func append(_ action: Action, from node: StoreNode<Action>) -> Bool {
    inbox.append(.commit(from: referents.place(ofStore: node), action))
  }

  /// Adds a command; true if the caller has to schedule a drain.
  @inlinable mutating func append(_ command: Command) -> Bool {
    inbox.append(.command(referents.place(ofCommand: command)))
  }

  /// Adds the end of a store; true where the caller has to schedule a drain. Where the order comes from elsewhere, the
  /// store's last action is submitted first, and the end waits until that is committed.
  mutating func appendEnd(_ end: Command, of node: StoreNode<Action>, sequencer: AnySequencer?) -> Bool {
    guard let sequencer else { return append(end) }
    let schedules = node.isGivenLast && append(.closure { tree in node.commitLast(on: tree) })
    return append(sequencer.deferred(end)) || schedules
  }

  /// Moves everything that waits into a finished batch, whose storage it takes in return.
  @inlinable mutating func takeAll(
    into batch: inout ContiguousArray<Entry>, _ referents: inout Referents
  ) {
    if inbox.entries.isEmpty { return }
    inbox.takeAll(into: &batch)
    swap(&self.referents, &referents)
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
