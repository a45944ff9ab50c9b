import Puredux

/// The log of one tree on an engine: entries of bytes in one order, which is the same for all who follow it.
///
/// This is all that an engine has to do to be followed (`RootStore(following:)`). It may repeat entries, take one whose
/// append is said to have failed, and take those of one writer in another order than they were given where it retries:
/// what follows it makes exactly once and in order of that (G11). `checkOrderedLog`, of the product
/// `PureduxLogTesting`, tests an engine of yours.
public protocol OrderedLog: Sendable {
  /// Begins to append an entry and returns at once. Entries get their places in the order of the calls, as far as
  /// nothing fails.
  ///
  /// - Parameters:
  ///   - entry: What is appended, of at most `entryLimit` bytes.
  ///   - outcome: Called once, from anywhere but within this call: with the position, when the entry is as safe as the
  ///     engine makes it; or with why that is not known. An entry whose outcome is a failure may still come, unless
  ///     that is `.refused`: then it is not there, and never comes; a store rejects what it cannot give the log even by
  ///     itself.
  func append(_ entry: [UInt8], outcome: @escaping @Sendable (Result<UInt64, LogError>) -> Void)

  /// The entries after a position, in order, and then those that come, until the consumer stops. Delivers them as they
  /// are there, several at a time; may deliver some again. Throws where it cannot go on: `LogError.truncated` where the
  /// next one has been removed, `.damaged` where it cannot be read, `.removed` where the tree was removed, and
  /// `.unavailable` where it may be tried again.
  func records(after position: UInt64) -> AsyncThrowingStream<[LogRecord], any Error>

  /// The position of the last entry; 0 where there is none. It counts all whose appends were said to have succeeded
  /// before this call. One whose outcome is not told yet may be missing.
  ///
  /// A store calls this before it follows the log. From then on this log belongs to one tree: if that tree is removed,
  /// the append of the first entry fails with `.removed` as well. An engine that several processes share notes the
  /// tree, if it is not noted yet.
  func head() async throws(LogError) -> UInt64

  /// Removes entries up to a position, or fewer: as many as the engine likes.
  func truncate(through position: UInt64) async throws(LogError)

  /// Removes entries up to the position of one, all of them, and whatever else the engine has of their bytes: what was
  /// set aside of them, and the snapshots and the summary of what came before that position. Who wants to open the tree
  /// afterwards has saved a snapshot at that position, or behind it, before (`RootStore.eraseLog()` does). It may be
  /// repeated.
  ///
  /// That is said of what the engine stores at present. What backups have, and what a disk keeps of files that were
  /// deleted, is not the engine's.
  ///
  /// - Throws: `LogError.refused` where there is no entry at that position, or none behind it: the last one stays, as
  ///   it says how far the log goes; and by default, as a log that does not say that it erases does not. What it throws
  ///   otherwise says that not all is gone.
  func erase(through position: UInt64) async throws(LogError)

  /// How many bytes an entry may have.
  var entryLimit: Int { get }

  /// Where the snapshots of this tree are; none by default.
  var snapshots: (any SnapshotStore)? { get }

  /// Where the summary of this tree is; none by default.
  var summaries: (any SummaryStore)? { get }

  /// What the tree is called, for reports; none by default.
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
  /// Rises from entry to entry, from one on; there may be gaps.
  public var position: UInt64
  /// What a store has appended, as it was given.
  public var bytes: [UInt8]

  /// For an engine that reads one.
  public init(position: UInt64, bytes: [UInt8]) {
    self.position = position
    self.bytes = bytes
  }
}

/// Where the snapshots of a tree are kept. A snapshot is a cache of what the log says: one that is lost or damaged
/// costs time, and no more unless the log was truncated behind it.
public protocol SnapshotStore: Sendable {
  /// The newest snapshot, or none; none, too, where it cannot be read. Throws `.damaged` where what is there is not
  /// this tree's: a store is not opened then.
  func newest() async throws(LogError) -> LogSnapshot?

  /// Keeps a snapshot in place of those before it. One that is not newer than what is kept changes nothing.
  func save(_ snapshot: LogSnapshot) async throws(LogError)

  /// Keeps a snapshot in place of the one that is kept, which was found to be wrong, also of the same position. One
  /// that is newer stays, as the log may have been truncated behind it, unless it is of more than the log has. Decides
  /// that in one step with what others save.
  func replace(with snapshot: LogSnapshot) async throws(LogError)
}

/// A state of a tree, as bytes, and the position in the log that it was the state at.
public struct LogSnapshot: Sendable, Hashable {
  /// The position of the last entry that the state has.
  public var position: UInt64
  /// What a store has saved, as it was given.
  public var bytes: [UInt8]

  /// For an engine that reads one.
  public init(position: UInt64, bytes: [UInt8]) {
    self.position = position
    self.bytes = bytes
  }
}

/// What can go wrong with a log. The texts are for people.
public enum LogError: Error, Sendable, Hashable {
  /// It cannot be reached or did not answer: what it was asked may have been done or not. Later it may work.
  case unavailable(String)
  /// There is no room. Later there may be.
  case full(String)
  /// Another process, or another log in this one, has it open.
  case inUse(String)
  /// It takes no such entry, key or snapshot, and never will.
  case refused(String)
  /// An entry that was there has been removed; the first one left has this position.
  case truncated(first: UInt64)
  /// What is stored is not what was written, or not where it was, or another log's: from this position on it cannot be
  /// read. Nothing has been changed.
  case damaged(position: UInt64, String)
  /// The tree has been removed (`LogDirectory.remove`) since this log of it was asked for. Its key's log is another
  /// one.
  case removed

  /// There is no entry at a position, or none behind it.
  package static func notErasable(_ position: UInt64) -> LogError {
    .refused("There is no entry at position \(position), or none behind it, which is to stay.")
  }

  /// The end of the process that has the log open, as a test plays it: nobody is left to be told.
  package static let deathOfProcess = LogError.inUse("The process has died.")

  /// What it says to people.
  var text: String {
    switch self {
    case .unavailable(let text), .full(let text), .inUse(let text), .refused(let text), .damaged(_, let text): text
    case .truncated(let first): "Entries were removed; the first one left is \(first)."
    case .removed: "The log was removed."
    }
  }

  /// What a store that waits says.
  var trouble: LogTrouble {
    switch self {
    case .full: .full
    case .refused: .refused
    case .unavailable, .inUse, .truncated, .damaged, .removed: .unavailable
    }
  }
}
