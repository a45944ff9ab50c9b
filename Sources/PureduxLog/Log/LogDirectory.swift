/// The logs of many trees, each under its key: what an engine opens (`FileLog`,
/// `PostgreSQLLog`, `NATSLog`; in tests `MemoryLogs`).
///
///     for try await key in log.keys(prefix: "boards/") { print(key) }  // All of them: `prefix: ""`.
///     try await log.remove("boards/17")
///
/// A key is any text, as long as the engine takes it. Texts that are equal are one key, however their accents are
/// written. `checkLogDirectory`, of the product `PureduxLogTesting`, tests an engine of yours.
public protocol LogDirectory: Sendable {
  /// The log of a tree, which is there as soon as something is written to it.
  subscript(key: String) -> any OrderedLog { get }

  /// The keys that begin with a text, or all with `""`, of the trees that something has been written to and that have
  /// not been removed: each that is there all the while once, and those that come or go meanwhile perhaps. Keys and the
  /// text are compared with their accents composed, so that `e` does not begin `é`.
  ///
  /// The engine says in which order they come, and how many it has in memory at a time. Nothing is looked for before
  /// the first one is asked for, and no further than is asked for. Throws a `LogError`.
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error>

  /// The summaries of the trees whose keys begin with a text, or of all with `""`: of those that a store has written
  /// one of (`FollowingOptions.summary`), and that have not been removed. For which keys it is said, in which order,
  /// and when it is looked for them, is as of `keys(prefix:)`. What is just being saved may come or not.
  ///
  /// A summary that cannot be read is left out: opening the tree writes it anew. Throws a `LogError`, at once where the
  /// engine keeps no summaries (`.refused`), as one does by default.
  func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error>

  /// Removes a tree: its entries, its snapshot, and whatever else is kept of it. A tree exists before its first entry
  /// if a store follows it. Removing a tree that nobody has used changes nothing, and leaves nothing.
  ///
  /// Stores that follow the tree stop (`LogStop.removed`), whether it has entries or not. An opening or a reading that
  /// is in progress fails (`LogError.removed`). An accepted action that was not in the log is in no log afterwards: if
  /// the key is used again, an empty log begins. A log object that was used before the removal stays removed: get a new
  /// one (`self[key]`), as a `StoreDirectory` does by itself.
  ///
  /// A removal that is cut short, as the process dies, has not begun, or is completed when the directory, or the tree,
  /// is used again: nothing of the tree is seen in between.
  ///
  /// - Throws: What the engine throws: then it is removed or not, and may be removed once more.
  func remove(_ key: String) async throws(LogError)

  /// Closes the logs, and returns when what was asked before is done. What is asked later fails
  /// (`LogError.unavailable`). Shut the stores down first.
  func close() async
}

extension LogDirectory {
  public func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error> {
    AsyncThrowingStream { throw LogError.refused("The logs keep no summaries.") }
  }
}

extension String {
  /// Whether a key is among those that begin with a text.
  package func isKey(beginningWith prefix: String) -> Bool { composed.utf8.starts(with: prefix.composed.utf8) }
}
