import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import Puredux
import ServiceLifecycle

/// A shared task board: a tree of stores for each board, and an HTTP server.
public struct LiveBoardServer: Sendable {
  public struct Options: Sendable {
    public var host = "127.0.0.1"
    public var port = 8080
    /// The storage of the boards.
    public var logs = BoardLogs.directory("liveboard")
    /// The schema for writing: an older one while servers that read no newer schema run, or may have to run again.
    public var writtenSchema: UInt32 = 3
    /// The token that each request needs. Without a token, the server listens on loopback only.
    public var token: String?
    /// The maximum number of connections; further ones wait. Event streams get three quarters of them. The limit is
    /// lower if the process has too few file descriptors.
    public var connectionLimit = 10_000
    /// An idle connection, or a stalled request, is closed after this time. The page waits longer, so it still gets an
    /// answer if its connection had to wait.
    public var idleLimit = Duration.seconds(10)
    /// The interval of heartbeats on event streams, which keep connections open in proxies.
    public var beatInterval = Duration.seconds(15)
    /// The time limit for open requests on graceful shutdown.
    public var shutdownLimit = Duration.seconds(5)

    public init() {}
  }

  public enum Failure: Error, CustomStringConvertible {
    case needsToken(host: String)
    case cannotListen(host: String, port: Int, reason: String)
    // Without the addresses, which may have credentials.
    case noCluster
    case noDatabase
    case tooFewDescriptors

    public var description: String {
      switch self {
      case .needsToken(let host): "\(host) is not a loopback address: a server that others can reach needs a token."
      case .tooFewDescriptors: "The limit of open files is too low: see ulimit -n."
      case .noCluster: "This server was built without the trait NATS and cannot use a cluster."
      case .noDatabase: "This server was built without the trait PostgreSQL and cannot use a database."
      case .cannotListen(let host, let port, let reason): "Cannot listen on \(host):\(port): \(reason)"
      }
    }
  }

  public let options: Options
  private let logger: Logger

  public init(_ options: Options, logger: Logger) {
    self.options = options
    self.logger = logger
  }

  /// Runs until SIGTERM or SIGINT. Then event streams end, accepted edits are saved, and the call returns, whatever
  /// clients do.
  public func run() async throws {
    try await withApplication { application, boards in
      // Services are shut down from the last to the first.
      var configuration = ServiceGroupConfiguration(
        services: [application, EndsStreams(boards: boards)], gracefulShutdownSignals: [.sigterm, .sigint],
        logger: logger)
      configuration.maximumGracefulShutdownDuration = options.shutdownLimit
      do {
        try await ServiceGroup(configuration: configuration).run()
      } catch let error as IOError {
        throw Failure.cannotListen(host: options.host, port: options.port, reason: "\(error)")
      }
    }
  }

  /// Runs a body with the server's application, and saves all accepted edits afterwards.
  func withApplication(
    _ body: (Application<RouterResponder<BoardContext>>, Boards) async throws -> Void
  ) async throws {
    guard options.token != nil || Access<BoardContext>.isLoopback(options.host) else {
      throw Failure.needsToken(host: options.host)
    }
    var options = options
    let descriptors = Descriptors.raised(for: options.connectionLimit)
    options.connectionLimit = descriptors.connections
    guard options.connectionLimit >= min(8, self.options.connectionLimit) else { throw Failure.tooFewDescriptors }
    let logs = try await options.logs.open(openFiles: descriptors.files, logger: logger)
    let boards = try await Boards(health: Health(), logs, options, logger: logger)
    let result: Result<Void, any Error>
    do {
      let count = await boards.list.state.count
      logger.info(
        "The boards are open.",
        metadata: [
          "boards": "\(count)", "connections": "\(descriptors.connections)", "files": "\(descriptors.files)",
        ])
      try await body(application(of: boards, options), boards)
      result = .success(())
    } catch {
      result = .failure(error)
    }
    let troubles = boards.health.troubles
    await boards.shutdown()
    await logs.close()
    if troubles.isEmpty {
      logger.info("Everything is saved.", metadata: ["edits": "\(boards.health.edits.load(ordering: .relaxed))"])
    } else {
      logger.warning("Some logs were unavailable: waiting clients got errors.", metadata: ["logs": "\(troubles)"])
    }
    try result.get()
  }

  private func application(of boards: Boards, _ options: Options) -> Application<RouterResponder<BoardContext>> {
    var configuration = ApplicationConfiguration(
      address: .hostname(options.host, port: options.port), serverName: "LiveBoard")
    configuration.availableConnectionsDelegate = MaximumAvailableConnections(options.connectionLimit)
    return Application(
      router: Routes(boards).router(token: options.token),
      server: .http1(
        configuration: .init(additionalChannelHandlers: [TargetHost()], idleTimeout: TimeAmount(options.idleLimit))),
      configuration: configuration, logger: logger)
  }
}
