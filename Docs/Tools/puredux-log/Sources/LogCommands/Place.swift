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

/// Where logs are.
struct Place: ExpressibleByArgument {
  var text: String

  init?(argument: String) {
    if argument.isEmpty { return nil }
    text = argument
  }

  /// Whether it has either of the forms that libpq takes. An existing file is no database.
  var isDatabase: Bool {
    if ["postgresql://", "postgres://"].contains(where: { text.hasPrefix($0) }) { return true }
    return text.prefixMatch(of: /\s*[a-z_]+\s*=/) != nil && !FileManager.default.fileExists(atPath: text)
  }

  var isCluster: Bool { text.contains("://") && !isDatabase }

  /// However a path is spelt. One cluster, or database, may go by several addresses.
  func isSame(as other: Place) -> Bool {
    func resolved(_ path: String) -> String {
      URL(fileURLWithPath: path).standardizedFileURL.resolvingSymlinksInPath().path
    }
    let isPath = [self, other].allSatisfy { !$0.isCluster && !$0.isDatabase }
    return isPath ? resolved(text) == resolved(other.text) : text == other.text
  }

  /// The stream of a cluster, and the schema of a database, where none is named.
  static let stream = "puredux"

  enum Use {
    case existing
    /// A directory, a stream, or tables are made where there are none: a stream on so many servers.
    case new(replicas: Int)
  }

  /// Does something with the logs, and closes them.
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
        // A stream that is there may be on fewer servers.
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
    // A `FileLog` makes its directory: a misspelt directory is not to be made.
    let isLog = FileManager.default.fileExists(atPath: text + "/lock")
    let isEmpty = isThere && (try? FileManager.default.contentsOfDirectory(atPath: text).isEmpty) == true
    let isMade = if case .new = use { !isThere || isEmpty } else { false }
    guard isLog || isMade else {
      throw Failure.refused(isThere ? "\(text) is no directory of logs." : "There is nothing at \(text).")
    }
    return try FileLog(directory: text)
  }
}

/// Which logs.
struct Source: ParsableArguments {
  @Argument(help: "The directory, the file of exported logs, the cluster, or the database.")
  var log: Place

  @Option(name: [.long, .customLong("schema")], help: "On a cluster, the stream; in a database, the schema.")
  var stream: String?
}

/// Which one of them.
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

/// Shows how far a copy is, where somebody looks.
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
