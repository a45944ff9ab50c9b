/// The logs of many trees, each under its key, on an open engine: `FileLog`, `PostgreSQLLog`, `NATSLog`; `MemoryLogs`
/// in tests.
///
///     for try await key in log.keys(prefix: "boards/") { print(key) }  // All of them: `prefix: ""`.
///     try await log.remove("boards/17")
///
/// A key is any text that the engine takes. Equal texts are one key, however their accents are written.
/// `checkLogDirectory`, of the product `PureduxLogTesting`, tests an engine of yours.
public protocol LogDirectory: Sendable {
  /// The log of a tree. It is empty until an entry is appended.
  subscript(key: String) -> any OrderedLog { get }

  /// The keys that begin with a text (all with `""`), of the trees that were written to and not removed. A tree that
  /// exists during the whole call is listed once; one that is made or removed meanwhile, perhaps. Accents are composed
  /// before the comparison, so that `e` does not begin `é`.
  ///
  /// The engine documents the order, and how many keys it reads ahead: none before the first is requested. Throws a
  /// `LogError`. A damaged tree hides no other: it is listed, or an error that names one damaged tree is thrown after
  /// the other keys.
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error>

  /// The summaries of the trees whose keys begin with a text (all with `""`), if a store has written one
  /// (`FollowingOptions.summary`) and the tree was not removed. Order, reading ahead and concurrent changes are as for
  /// `keys(prefix:)`. A summary that is written meanwhile is listed or not.
  ///
  /// A summary that cannot be read is left out; a store with a `summary` that opens the tree writes it again. For a
  /// summary in a newer format, an error is thrown after the others. Throws a `LogError`; by default, and if the engine
  /// stores no summaries, `.refused` at once.
  func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error>

  /// Removes a tree: its entries, snapshot and summary. A tree that a store follows exists even before its first entry.
  /// Removing a tree that nobody has used changes nothing, and leaves nothing.
  ///
  /// Stores that follow the tree stop (`LogStop.removed`), with or without entries. Openings and readings in progress
  /// fail (`LogError.removed`). Accepted actions that were not in the log are lost: the key's next log begins empty. A
  /// log object that was used before stays removed: get a new one (`self[key]`), as the closure of a `StoreDirectory`
  /// does if it contains `log[key]`. A `send` to a store of the
  /// removed tree throws if it begins after the removal.
  ///
  /// If the process dies meanwhile, either the removal has not begun, or the next use of the directory or the tree
  /// completes it: nobody sees a part of the tree.
  ///
  /// - Throws: The engine's errors. Then the tree is removed or not, and may be removed again.
  func remove(_ key: String) async throws(LogError)

  /// Closes the logs, and returns when earlier requests are done. Later requests fail (`LogError.unavailable`). Shut
  /// the stores down first.
  func close() async
}

extension LogDirectory {
  public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
    AsyncThrowingStream { throw LogError.refused("The logs keep no summaries.") }
  }
}

extension String {
  /// Compares with accents composed.
  package func isKey(beginningWith prefix: String) -> Bool { composed.utf8.starts(with: prefix.composed.utf8) }
}
