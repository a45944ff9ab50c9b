import Logging
import PureduxLog

#if NATS
  import PureduxNATS
#endif
#if PostgreSQL
  import PureduxPostgreSQL
#endif

/// Where the logs of the boards are.
public enum BoardLogs: Sendable, Equatable {
  /// In a directory of this machine, for one server.
  case directory(String)
  /// On a cluster, for as many servers as there are: `nats://…`, one address for each of its own.
  case cluster([String])
  /// In a database, for as many servers as there are: `postgresql://…`.
  case database(String)

  /// Where several servers find them: a database's connection string, or a cluster's addresses with commas between.
  public init(shared text: String) {
    let isDatabase = ["postgresql://", "postgres://"].contains { text.hasPrefix($0) }
    self = isDatabase ? .database(text) : .cluster(text.split(separator: ",").map(String.init))
  }

  /// Whether other servers may follow the same.
  var isShared: Bool {
    switch self {
    case .directory: false
    case .cluster, .database: true
    }
  }

  /// - Parameter openFiles: How many files may be kept open.
  func open(openFiles: Int, logger: Logger) async throws -> any LogDirectory {
    switch self {
    case .directory(let path):
      var options = FileLog.Options()
      options.openFiles = openFiles
      return try FileLog(directory: path, options: options) { tail in
        logger.warning("The last write was torn by a crash and set aside.", metadata: ["file": "\(tail.path)"])
      }
    case .cluster(let servers):
      #if NATS
        var options = NATSLog.Options()
        options.stream = "liveboard"
        options.replicas = min(servers.count, 3)
        // The brokers may just be starting, and have no leader yet.
        options.connectLimit = .seconds(60)
        return try await NATSLog(servers: servers, options: options)
      #else
        throw LiveBoardServer.Failure.noCluster(servers.joined(separator: ","))
      #endif
    case .database(let connection):
      #if PostgreSQL
        var options = PostgreSQLLog.Options()
        options.schema = "liveboard"
        // The server may just be starting.
        options.connectLimit = .seconds(60)
        return try await PostgreSQLLog(connection, options: options)
      #else
        throw LiveBoardServer.Failure.noDatabase
      #endif
    }
  }
}
