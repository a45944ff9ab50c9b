import Logging
import PureduxLog

#if NATS
  import PureduxNATS
#endif

/// Where the logs of the boards are.
public enum BoardLogs: Sendable, Equatable {
  /// In a directory of this machine, for one server.
  case directory(String)
  /// On a cluster, for as many servers as there are: `nats://…`, one address for each of its own.
  case cluster([String])

  struct Opened: Sendable {
    /// Whether other servers may follow the same.
    let isShared: Bool
    /// The log of a tree, by its key.
    let log: @Sendable (_ key: String) -> any OrderedLog
    let close: @Sendable () async -> Void
  }

  func open(logger: Logger) async throws -> Opened {
    switch self {
    case .directory(let path):
      let log = try FileLog(directory: path) { tail in
        logger.warning("The last write was torn by a crash and set aside.", metadata: ["file": "\(tail.path)"])
      }
      return Opened(isShared: false, log: { log[$0] }, close: { await log.close() })
    case .cluster(let servers):
      #if NATS
        var options = NATSLog.Options()
        options.stream = "liveboard"
        options.replicas = min(servers.count, 3)
        // The brokers may just be starting, and have no leader yet.
        options.connectLimit = .seconds(60)
        let log = try await NATSLog(servers: servers, options: options)
        return Opened(isShared: true, log: { log[$0] }, close: { await log.close() })
      #else
        throw LiveBoardServer.Failure.noCluster(servers.joined(separator: ","))
      #endif
    }
  }
}
