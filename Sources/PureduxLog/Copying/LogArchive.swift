/// The logs in a file made by `export(to:)`, read like any other log.
///
///     let monday = try await LogArchive(path: "backups/monday")
///     try await monday["boards/17"].copy(to: log["boards/17"])
///     let report = try await verifyReplay(of: monday["boards/17"], by: program)
///
/// Entries have the positions 1, 2, 3 and so on. Appending, saving, truncating and removing fail (`LogError.refused`).
public final class LogArchive: LogDirectory {
  private let file: ArchiveFile

  /// Opens a file, and reads it to its end.
  ///
  /// - Throws: `LogError.damaged` if the file is incomplete or changed, with the number of the unreadable part, from 1.
  ///   `.refused` if it is no such file, or of a newer version; `.unavailable` if it cannot be opened.
  public init(path: String) async throws(LogError) { file = try await ArchiveFile.read(path) }

  public subscript(key: String) -> any OrderedLog { file[key] }

  /// The keys in text order.
  public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { file.keys(prefix: prefix) }

  /// Fails: the file is read-only.
  ///
  /// - Throws: `LogError.refused`.
  public func remove(_ key: String) async throws(LogError) { try await file.remove(key) }

  public func close() async { await file.close() }
}
