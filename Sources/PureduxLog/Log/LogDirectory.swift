/// The logs of many trees by key, on an open engine: `FileLog`, `PostgreSQLLog`, `NATSLog`; `MemoryLogs` in tests.
///
///     for try await key in log.keys(prefix: "boards/") { print(key) }  // All of them: `prefix: ""`.
///     try await log.remove("boards/17")
///
/// A key is any text that the engine takes. Equal texts are one key, however their accents are encoded.
/// `checkLogDirectory` (`PureduxLogTesting`) tests your own engine.
public protocol LogDirectory: Sendable {
  /// The log of a tree, empty until an entry is appended.
  subscript(key: String) -> any OrderedLog { get }

  /// The keys with a prefix (all with `""`) of trees that were written to and not removed. A tree that exists during
  /// the whole call is listed once; one created or removed meanwhile may be. Accents are composed before the
  /// comparison: `e` is no prefix of `é`.
  ///
  /// The engine documents the order and how many keys it reads ahead; none before the first request. Throws a
  /// `LogError`. A damaged tree hides no other: it is listed, or named by an error after the other keys.
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error>

  /// The summaries of the trees whose keys have a prefix (all with `""`), if a store has written one
  /// (`FollowingOptions.summary`) and the tree was not removed. Order, reading ahead and concurrent changes are as for
  /// `keys(prefix:)`. A summary written meanwhile may be listed.
  ///
  /// An unreadable summary is left out, and rewritten by the next store with a `summary` that opens the tree. For a
  /// newer format, an error is thrown after the other summaries. Throws a `LogError`: `.refused` at once by default,
  /// and if the engine stores no summaries.
  func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error>

  /// Removes a tree: its entries, snapshot and summary. Does nothing for an unused tree; a tree that a store follows is
  /// in use even before its first entry.
  ///
  /// Stores that follow the tree stop (`LogStop.removed`); openings and readings in progress fail (`LogError.removed`).
  /// Accepted actions not yet in the log are lost. The key's next log begins empty. A log object used before stays
  /// removed: get a new one (`self[key]`), as a `StoreDirectory` does whose closure contains `log[key]`. A `send` that
  /// begins after the removal throws.
  ///
  /// Atomic: if the process dies meanwhile, the removal has not begun, or the next use of the directory or tree
  /// completes it.
  ///
  /// - Throws: The engine's errors. The tree may be removed or not; a removal can be repeated.
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
  package func isKey(beginningWith prefix: String) -> Bool { composed.utf8.starts(with: prefix.composed.utf8) }
}
