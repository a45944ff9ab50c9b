import ArgumentParser
import Foundation
import PureduxLog
import Synchronization

#if NATS
  import PureduxNATS
#endif
#if PostgreSQL
  import PureduxPostgreSQL
#endif

/// The place of logs: a directory, a file of exported logs, a cluster, or a database.
struct Place: ExpressibleByArgument {
  var text: String

  init?(argument: String) {
    if argument.isEmpty { return nil }
    text = argument
  }

  /// Whether the text has one of libpq's two forms. An existing file is not a database.
  var isDatabase: Bool {
    if ["postgresql://", "postgres://"].contains(where: { text.hasPrefix($0) }) { return true }
    return text.prefixMatch(of: /\s*[a-z_]+\s*=/) != nil && !FileManager.default.fileExists(atPath: text)
  }

  var isCluster: Bool { text.contains("://") && !isDatabase }

  /// Compares resolved paths. Two addresses of the same cluster or database are not recognized as the same.
  func isSame(as other: Place) -> Bool {
    func resolved(_ path: String) -> String {
      URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path
    }
    let isPath = [self, other].allSatisfy { !$0.isCluster && !$0.isDatabase }
    return isPath ? resolved(text) == resolved(other.text) : text == other.text
  }

  /// The default stream of a cluster, and the default schema of a database.
  static let stream = "puredux"

  enum Use {
    case existing
    /// Creates a missing directory, stream or schema; `replicas` is the number of servers of a new stream.
    case new(replicas: Int)
  }

  /// Runs a body with the logs, and closes them.
  func withLogs<Result>(
    stream: String?, _ use: Use = .existing, _ body: (any LogDirectory) async throws -> Result
  ) async throws -> Result {
    let logs = try await open(stream: stream, use)
    do {
      let result = try await body(logs)
      await logs.close()
      return result
    } catch {
      await logs.close()
      throw error
    }
  }

  private func open(stream: String?, _ use: Use) async throws -> any LogDirectory {
    if isDatabase {
      #if PostgreSQL
        var options = PostgreSQLLog.Options()
        options.schema = stream ?? Self.stream
        if case .existing = use { options.makesTables = false }
        return try await PostgreSQLLog(text, options: options)
      #else
        throw Failure.refused("This tool was built without the trait PostgreSQL: \(text)")
      #endif
    }
    if isCluster {
      #if NATS
        var options = NATSLog.Options()
        options.stream = stream ?? Self.stream
        // An existing stream may be on fewer servers.
        if case .new(let replicas) = use {
          options.replicas = replicas
        } else {
          (options.replicas, options.makesStream) = (1, false)
        }
        return try await NATSLog(servers: text.split(separator: ",").map(String.init), options: options)
      #else
        throw Failure.refused("This tool was built without the trait NATS: \(text)")
      #endif
    }
    var isDirectory: ObjCBool = false
    let isThere = FileManager.default.fileExists(atPath: text, isDirectory: &isDirectory)
    if isThere, !isDirectory.boolValue { return try await LogArchive(path: text) }
    // A `FileLog` creates its directory, so a misspelt path must be refused here.
    let isLog = FileManager.default.fileExists(atPath: text + "/lock")
    let isEmpty = isThere && (try? FileManager.default.contentsOfDirectory(atPath: text).isEmpty) == true
    let isMade = if case .new = use { !isThere || isEmpty } else { false }
    guard isLog || isMade else {
      throw Failure.refused(isThere ? "\(text) is no directory of logs." : "There is nothing at \(text).")
    }
    return try FileLog(directory: text)
  }
}

/// The option group for all logs of a place.
struct Source: ParsableArguments {
  @Argument(help: "The directory, the file of exported logs, the cluster, or the database.")
  var log: Place

  @Option(name: [.long, .customLong("schema")], help: "On a cluster, the stream; in a database, the schema.")
  var stream: String?
}

/// The option group for one log.
struct Tree: ParsableArguments {
  @OptionGroup var source: Source

  @Argument(help: "The key of the log.")
  var key: String

  func withLog<Result>(_ body: (any OrderedLog) async throws -> Result) async throws -> Result {
    try await source.log.withLogs(stream: source.stream) { logs in
      let log = logs[key]
      guard try await log.head() > 0 else { throw Failure.refused("There is no log under the key \(column(key)).") }
      return try await body(log)
    }
  }
}

/// Shows the progress of a copy on a terminal.
func progress(on console: Console) -> (@Sendable (LogCopyProgress) -> Void)? {
  guard console.showsProgress else { return nil }
  let last = Mutex("")
  return { progress in
    let percent = progress.total > 0 ? progress.copied * 100 / progress.total : 100
    let text = "\(progress.key ?? ""): \(percent) %"
    let isNew = last.withLock { last in
      defer { last = text }
      return last != text
    }
    if isNew { console.progress(text) }
  }
}
