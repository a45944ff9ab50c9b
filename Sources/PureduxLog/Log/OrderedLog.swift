import Puredux

/// The log of one tree on an engine: entries of bytes in one order, the same for all readers.
///
/// `RootStore(following:)` needs no more of an engine. It may repeat entries, take an entry whose append it reported as
/// failed, and reorder a writer's entries in retries. The store commits each action once, in its writer's order (G11).
/// `checkOrderedLog`, of the product `PureduxLogTesting`, tests an engine of yours.
public protocol OrderedLog: Sendable {
  /// Begins to append an entry, and returns at once. Without failures, entries have the order of the calls.
  ///
  /// - Parameters:
  ///   - entry: At most `entryLimit` bytes.
  ///   - outcome: Called once, but never within this call: with the position, when the entry is as durable as the
  ///     engine makes it, or with an error. After `.refused` the entry never appears; after any other error it may. A
  ///     store rejects an action that is refused even by itself.
  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void)

  /// The entries after a position, in order, and then new ones, until the consumer stops. Delivers entries as they are
  /// there, several at a time, and may repeat some.
  ///
  /// Throws `LogError.truncated` if the next entry was removed, `.damaged` if it cannot be read, `.removed` if the tree
  /// was removed, and `.unavailable` if a retry may succeed.
  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error>

  /// The position of the last entry; 0 if there is none. Includes the entries whose appends were reported as successful
  /// before this call; an entry without an outcome may be missing.
  ///
  /// A store calls this before it follows the log. From then on this log belongs to one tree: if that is removed,
  /// appending even its first entry fails with `.removed`. An engine that several processes share records the tree.
  func head() async throws(LogError) -> UInt64

  /// Removes entries up to a position, or fewer if the engine prefers.
  func truncate(through position: UInt64) async throws(LogError)

  /// Removes all entries up to a position, the entry there included. Also removes all else that the engine stores of
  /// their bytes: torn tails, and the snapshots and the summary from before that position. It may be repeated.
  ///
  /// To open the tree afterwards, first save a snapshot at that position, or a later one (as `RootStore.eraseLog()`
  /// does). Backups, and a disk's remains of deleted files, are not the engine's.
  ///
  /// - Throws: `LogError.refused` if there is no entry at that position, or none after it: the last entry stays, as it
  ///   has the position of the head. By default it is always thrown. After any other error, some bytes may be left.
  func erase(through position: UInt64) async throws(LogError)

  /// The largest number of bytes of an entry; 1 MiB by default.
  var entryLimit: Int { get }

  /// The snapshots of this tree; none by default.
  var snapshots: (any SnapshotStore)? { get }

  /// The summary of this tree; none by default.
  var summaries: (any SummaryStore)? { get }

  /// The tree's name in reports; none by default.
  var name: String? { get }
}

extension OrderedLog {
  public func erase(through position: UInt64) async throws(LogError) {
    throw .refused("The log does not erase.")
  }

  public var entryLimit: Int { 1 << 20 }
  public var snapshots: (any SnapshotStore)? { nil }
  public var summaries: (any SummaryStore)? { nil }
  public var name: String? { nil }
}

/// An entry of a log.
public struct LogRecord: Sendable, Hashable {
  /// Rises from entry to entry, from 1 on, possibly with gaps.
  public var position: UInt64
  /// The bytes, as a store has appended them.
  public var bytes: [UInt8]

  /// For engines that read entries.
  public init(position: UInt64, bytes: [UInt8]) {
    self.position = position
    self.bytes = bytes
  }
}

/// The storage of a tree's snapshots. A snapshot is a cache: if it is lost or damaged, that costs time, and no more
/// unless the log was truncated past it.
public protocol SnapshotStore: Sendable {
  /// The newest snapshot; nil if there is none, or if it cannot be read.
  ///
  /// - Throws: `LogError.damaged` if the stored snapshot is not this tree's. Then no store is opened.
  func newest() async throws(LogError) -> LogSnapshot?

  /// Replaces earlier snapshots. Does nothing if the stored snapshot is as new, or newer.
  func save(_ snapshot: LogSnapshot) async throws(LogError)

  /// Replaces a snapshot that was found to be wrong, even at the same position. A newer one stays, as the log may have
  /// been truncated past it, unless it is of more than the log has. Atomic with respect to other calls.
  func replace(with snapshot: LogSnapshot) async throws(LogError)
}

/// A state of a tree, as bytes, and its position in the log.
public struct LogSnapshot: Sendable, Hashable {
  /// The position of the last entry in the state.
  public var position: UInt64
  /// The bytes, as a store has saved them.
  public var bytes: [UInt8]

  /// For engines that read snapshots.
  public init(position: UInt64, bytes: [UInt8]) {
    self.position = position
    self.bytes = bytes
  }
}

/// An error of a log. The texts are for people.
public enum LogError: Error, Sendable, Hashable {
  /// The log cannot be reached, or did not answer. The request may have been carried out or not. A retry may succeed.
  case unavailable(String)
  /// There is no room. A retry may succeed later.
  case full(String)
  /// The log is open in another process, or as another object in this one.
  case inUse(String)
  /// The log does not take such an entry, key or snapshot, and never will.
  case refused(String)
  /// An entry was removed; the first remaining one has this position.
  case truncated(first: UInt64)
  /// From this position on the log cannot be read: its data were changed or moved, or are another log's. Nothing has
  /// been changed.
  case damaged(position: UInt64, String)
  /// The tree was removed (`LogDirectory.remove`) after this log was obtained. Its key names another log now.
  case removed

  package static func notErasable(_ position: UInt64) -> LogError {
    .refused("There is no entry at position \(position), or it is the last one, which has to stay.")
  }

  /// For tests: the process that has the log open dies, and nobody learns of an outcome.
  package static let deathOfProcess = LogError.inUse("The process has died.")

  /// The text for people.
  var text: String {
    switch self {
    case .unavailable(let text), .full(let text), .inUse(let text), .refused(let text), .damaged(_, let text): text
    case .truncated(let first): "Entries were removed; the first one left is \(first)."
    case .removed: "The log was removed."
    }
  }

  /// The trouble of a store that waits for this error to pass.
  var trouble: LogTrouble {
    switch self {
    case .full: .full
    case .refused: .refused
    case .unavailable, .inUse, .truncated, .damaged, .removed: .unavailable
    }
  }
}
