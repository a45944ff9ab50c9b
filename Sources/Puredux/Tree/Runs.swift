/// A batch's stores, each held once for its consecutive actions, with the commands between them. Compiled once.
@usableFromInline struct Runs: Sendable {
  @usableFromInline struct Run: Sendable {
    @usableFromInline var object: any AnyObject & Sendable
    @usableFromInline let start: Int32
    /// The number of commands before it; for a command, its complement.
    @usableFromInline let commands: Int32

    @inlinable var isCommand: Bool { commands < 0 }
  }

  private final class Performed: Sendable {
    static let marker = Performed()
  }

  static var greatestKept: Int { 131_072 / MemoryLayout<Run>.stride }

  @usableFromInline var all: ContiguousArray<Run> = []

  @inlinable init() {}

  var isFull: Bool { all.count == all.capacity && all.count >= Self.greatestKept }

  @inlinable var isEmpty: Bool { all.isEmpty }
  @inlinable var count: Int { all.count }

  @usableFromInline var commandCount: Int { commandCount(before: all.count) }

  func commandCount(before place: Int) -> Int {
    guard place > 0 else { return 0 }
    let last = all[place - 1]
    return last.isCommand ? Int(~last.commands) + 1 : Int(last.commands)
  }

  mutating func appendStore(_ node: any AnyObject & Sendable, at start: Int) {
    all.append(
      Run(
        object: node, start: Int32(truncatingIfNeeded: start), commands: Int32(truncatingIfNeeded: commandCount)))
  }

  mutating func appendCommand(_ command: Command, at start: Int) {
    all.append(
      Run(
        object: command, start: Int32(truncatingIfNeeded: start), commands: ~Int32(truncatingIfNeeded: commandCount)))
  }

  @inlinable func end(of place: Int, in count: Int) -> Int { place + 1 < all.count ? Int(all[place + 1].start) : count }

  @usableFromInline mutating func removeAll() {
    all.removeAll(keepingCapacity: all.capacity <= 64)
  }

  /// SAFETY: called for a run that is no command, with the type of that tree's actions. `isCommand` tells commands and
  /// other runs apart, because there are fewer than 2^31 commands in a segment: `isFull`.
  @unsafe @inlinable func node<Action>(at place: Int) -> StoreNode<Action> {
    unsafe unsafeDowncast(all[place].object, to: StoreNode<Action>.self)
  }

  /// Performs a command once and releases it, so that it does not keep alive a subscription whose sequence is gone.
  ///
  /// SAFETY: called for runs that are commands.
  @unsafe @usableFromInline mutating func perform(at place: Int, on tree: isolated any TreeIsolation) {
    var command = unsafe unsafeDowncast(all[place].object, to: Command.self)
    all[place].object = Performed.marker
    if isKnownUniquelyReferenced(&command) { command.performUnheld(on: tree) } else { command.perform(on: tree) }
  }
}
