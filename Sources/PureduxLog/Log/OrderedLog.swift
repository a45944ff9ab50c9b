import Puredux

/// The log of one tree on an engine: byte entries in one order, the same for all readers.
///
/// The engine may repeat entries, keep an entry whose append it reported as failed, and reorder a writer's entries in
/// retries. The store commits each action once, in its writer's order (G11). `checkOrderedLog` (`PureduxLogTesting`)
/// tests your own engine.
public protocol OrderedLog: Sendable {
  /// Begins to append an entry, and returns at once. Without failures, entries have the order of the calls.
  ///
  /// - Parameters:
  ///   - entry: At most `entryLimit` bytes.
  ///   - outcome: Called once, never within this call: with the position, when the entry is as durable as the engine
  ///     makes it, or with an error. After `.refused` the entry never appears; after any other error it may. A store
  ///     rejects an action that is refused even alone.
  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void)

  /// The entries after a position in order, then new ones, until the consumer stops. Delivers available entries in
  /// batches, and may repeat some.
  ///
  /// Throws `LogError.truncated` if the next entry was removed, `.damaged` if it cannot be read, `.removed` if the tree
  /// was removed, and `.unavailable` if a retry may succeed.
  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error>

  /// The position of the last entry; 0 if there is none. Covers all appends reported as successful before this call; an
  /// entry without an outcome may be missing.
  ///
  /// A store calls this before it follows the log. From then on this log belongs to one tree: if that is removed, even
  /// the append of a first entry fails with `.removed`. An engine shared by several processes records the tree.
  func head() async throws(LogError) -> UInt64

  /// Removes entries up to a position, or fewer if the engine prefers.
  func truncate(through position: UInt64) async throws(LogError)

  /// Removes all entries through a position, with all other copies of their bytes in the engine: torn tails, and the
  /// snapshots and summary from before that position. Can be repeated. Backups, and remains of deleted files on a disk,
  /// are not covered.
  ///
  /// First save a snapshot at that position or later, as `RootStore.eraseLog()` does; without it the tree cannot be
  /// opened.
  ///
  /// - Throws: `LogError.refused` if there is no entry at that position, or none after it: the last entry has the
  ///   position of the head, and stays. The default implementation always throws it. After any other error, some bytes
  ///   may be left.
  func erase(through position: UInt64) async throws(LogError)

  /// The largest size of an entry in bytes; 1 MiB by default.
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
  /// Rises from entry to entry, from 1, possibly with gaps.
  public var position: UInt64
  /// The bytes that a store appended.
  public var bytes: [UInt8]

  /// For engines that read entries.
  public init(position: UInt64, bytes: [UInt8]) {
    self.position = position
    self.bytes = bytes
  }
}

/// The storage of a tree's snapshots. A snapshot is a cache: its loss only costs time, unless the log was truncated
/// past it.
public protocol SnapshotStore: Sendable {
  /// The newest snapshot; nil if there is none, or if it cannot be read.
  ///
  /// - Throws: `LogError.damaged` if the stored snapshot is another tree's. Then no store is opened.
  func newest() async throws(LogError) -> LogSnapshot?

  /// Replaces earlier snapshots. Does nothing if the stored snapshot is as new, or newer.
  func save(_ snapshot: LogSnapshot) async throws(LogError)

  /// Replaces a snapshot found to be wrong, even at the same position. A newer one stays, as the log may have been
  /// truncated past it, unless it is ahead of the log. Atomic with respect to other calls.
  func replace(with snapshot: LogSnapshot) async throws(LogError)
}

/// A state of a tree as bytes, and its position in the log.
public struct LogSnapshot: Sendable, Hashable {
  /// The last position in the state.
  public var position: UInt64
  /// The bytes that a store saved.
  public var bytes: [UInt8]

  /// For engines that read snapshots.
  public init(position: UInt64, bytes: [UInt8]) {
    self.position = position
    self.bytes = bytes
  }
}

/// An error of a log. The texts are for people.
public enum LogError: Error, Sendable, Hashable {
  /// The log is unreachable, or did not answer. The request may have been carried out. A retry may succeed.
  case unavailable(String)
  /// There is no room. A retry may succeed later.
  case full(String)
  /// The log is open in another process, or by another object.
  case inUse(String)
  /// The log never takes this entry, key or snapshot.
  case refused(String)
  /// An entry was removed; `first` is the position of the first remaining one.
  case truncated(first: UInt64)
  /// The log is unreadable from this position: its data were changed or moved, or are another log's. Nothing was
  /// changed.
  case damaged(position: UInt64, String)
  /// The tree was removed (`LogDirectory.remove`) after this log was obtained. Its key now names another log.
  case removed

  package static func notErasable(_ position: UInt64) -> LogError {
    .refused("There is no entry at position \(position), or it is the last one, which has to stay.")
  }

  /// For tests: the process with the open log dies.
  package static let deathOfProcess = LogError.inUse("The process has died.")

  var text: String {
    switch self {
    case .unavailable(let text), .full(let text), .inUse(let text), .refused(let text), .damaged(_, let text): text
    case .truncated(let first): "Entries were removed; the first one left is \(first)."
    case .removed: "The log was removed."
    }
  }

  var trouble: LogTrouble {
    switch self {
    case .full: .full
    case .refused: .refused
    case .unavailable, .inUse, .truncated, .damaged, .removed: .unavailable
    }
  }
}
