/// The logs of many trees, each under its key: the result of opening an engine (`FileLog`, `PostgreSQLLog`, `NATSLog`; in
/// tests `MemoryLogs`).
///
///     for try await key in log.keys(prefix: "boards/") { print(key) }  // All of them: `prefix: ""`.
///     try await log.remove("boards/17")
///
/// A key is any text, as long as the engine takes it. Texts that are equal are one key, however their accents are
/// written. `checkLogDirectory`, of the product `PureduxLogTesting`, tests an engine of yours.
public protocol LogDirectory: Sendable {
  /// The log of a tree. It is empty until an entry is appended.
  subscript(key: String) -> any OrderedLog { get }

  /// The keys that begin with a text, or all with `""`, of the trees to which something was written and that have not
  /// been removed. A tree that exists during the whole call is listed once. A tree that is made or removed meanwhile may
  /// be listed or not. Keys and the text are compared with their accents composed, so that `e` does not begin `é`.
  ///
  /// The engine documents the order of the keys, and how many of them it reads ahead. Nothing is read before the first
  /// key is requested. Throws a `LogError`. A damaged tree hides no other tree: it is listed, or an error is thrown
  /// after the other keys, which names one of the damaged trees.
  func keys(prefix: String) -> AsyncThrowingStream<String, any Error>

  /// The summaries of the trees whose keys begin with a text, or of all trees with `""`: of the trees for which a store
  /// has written a summary (`FollowingOptions.summary`), and that have not been removed. Order, reading ahead and trees
  /// that are made or removed meanwhile are as for `keys(prefix:)`. A summary that is written meanwhile may be listed or
  /// not.
  ///
  /// A summary that cannot be read is left out: a store with a `summary` that opens the tree writes it again. A summary
  /// in a newer format of this library is an error, thrown after the other summaries. Throws a `LogError`. By default,
  /// and if the engine keeps no summaries, this is `.refused` at once.
  func summaries(prefix: String) -> AsyncThrowingStream<LogSummary, any Error>

  /// Removes a tree: its entries, its snapshot and its summary. A tree exists before its first entry if a store follows
  /// it. Removing a tree that nobody has used changes nothing, and leaves nothing.
  ///
  /// Stores that follow the tree stop (`LogStop.removed`), whether it has entries or not. An opening or a reading that
  /// is in progress fails (`LogError.removed`). An accepted action that was not in the log is in no log afterwards: if
  /// the key is used again, an empty log begins. A log object that was used before the removal stays removed: get a new
  /// one (`self[key]`), as the closure of a `StoreDirectory` does if it contains `log[key]`.
  ///
  /// If the process dies during a removal, either the removal has not begun, or it is completed when the directory, or
  /// the tree, is used again: nobody sees a part of the tree.
  ///
  /// - Throws: The engine's errors. Then the tree is removed or not, and may be removed once more.
  func remove(_ key: String) async throws(LogError)

  /// Closes the logs, and returns when earlier requests are done. Later requests fail (`LogError.unavailable`). Shut the
  /// stores down first.
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
