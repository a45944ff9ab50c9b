import Logging
import PureduxLog

#if NATS
  import PureduxNATS
#endif
#if PostgreSQL
  import PureduxPostgreSQL
#endif

/// The location of the boards' logs.
public enum BoardLogs: Sendable, Equatable {
  /// A local directory, for one server.
  case directory(String)
  /// A NATS cluster, for any number of servers: the addresses `nats://…` of its brokers.
  case cluster([String])
  /// A PostgreSQL database, for any number of servers: `postgresql://…`.
  case database(String)

  /// Parses a database's connection string, or the comma-separated addresses of a cluster.
  public init(shared text: String) {
    let isDatabase = ["postgresql://", "postgres://"].contains { text.hasPrefix($0) }
    self = isDatabase ? .database(text) : .cluster(text.split(separator: ",").map(String.init))
  }

  /// Whether other servers can follow the same logs.
  var isShared: Bool {
    switch self {
    case .directory: false
    case .cluster, .database: true
    }
  }

  /// - Parameter openFiles: The maximum number of open files.
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
        // The brokers may still be starting, without a leader.
        options.connectLimit = .seconds(60)
        return try await NATSLog(servers: servers, options: options)
      #else
        throw LiveBoardServer.Failure.noCluster
      #endif
    case .database(let connection):
      #if PostgreSQL
        var options = PostgreSQLLog.Options()
        options.schema = "liveboard"
        // The server may still be starting.
        options.connectLimit = .seconds(60)
        return try await PostgreSQLLog(connection, options: options)
      #else
        throw LiveBoardServer.Failure.noDatabase
      #endif
    }
  }
}
