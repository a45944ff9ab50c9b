/// The logs in a file that `export(to:)` has made, to be read: each as any other log, by whatever reads one.
///
///     let monday = try await LogArchive(path: "backups/monday")
///     try await monday["boards/17"].copy(to: log["boards/17"])
///     let report = try await verifyReplay(of: monday["boards/17"], by: program)
///
/// Their entries have the positions 1, 2, 3 and so on. Nothing is appended to them, saved, truncated or removed
/// (`LogError.refused`).
public final class LogArchive: LogDirectory {
  private let file: ArchiveFile

  /// Reads the file once, to its end.
  ///
  /// - Throws: `LogError.damaged` where it is not whole, or was changed: with the number of the part of the file that
  ///   cannot be read, from 1 on. `.refused` where it is none, or one of a newer version; `.unavailable` where it
  ///   cannot be opened.
  public init(path: String) async throws(LogError) { file = try await ArchiveFile.read(path) }

  public subscript(key: String) -> any OrderedLog { file[key] }

  /// In their order as texts.
  public func keys(prefix: String) -> AsyncThrowingStream<String, any Error> { file.keys(prefix: prefix) }

  /// - Throws: `LogError.refused`.
  public func remove(_ key: String) async throws(LogError) { try await file.remove(key) }

  public func close() async { await file.close() }
}
