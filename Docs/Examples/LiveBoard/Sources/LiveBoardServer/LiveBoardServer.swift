import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import Puredux
import ServiceLifecycle

/// A shared task board: a tree of stores for each board, with a server around them.
public struct LiveBoardServer: Sendable {
  public struct Options: Sendable {
    public var host = "127.0.0.1"
    public var port = 8080
    /// What keeps the boards.
    public var logs = BoardLogs.directory("liveboard")
    /// The schema that is written: an older one as long as servers run, or may have to run again, that read no other.
    public var writtenSchema: UInt32 = 3
    /// What each request has to bring. Without it the server listens on loopback only.
    public var token: String?
    /// Further connections wait until there is room; event streams have three quarters of them. Where the process has
    /// too few file descriptors there are fewer.
    public var connectionLimit = 10_000
    /// A connection on which nothing is asked, or a request that does not go on, is closed after that long. The page
    /// waits for longer, so that it gets an answer where its connection had to wait for room.
    public var idleLimit = Duration.seconds(10)
    /// Each event stream gets a line so often, so that proxies keep the connection.
    public var beatInterval = Duration.seconds(15)
    /// When the server is asked to terminate, requests in progress have so long.
    public var shutdownLimit = Duration.seconds(5)

    public init() {}
  }

  public enum Failure: Error, CustomStringConvertible {
    case needsToken(host: String)
    case cannotListen(host: String, port: Int, reason: String)
    case noCluster(String)
    case noDatabase
    case tooFewDescriptors

    public var description: String {
      switch self {
      case .needsToken(let host): "\(host) is no loopback address: a server that others can reach needs a token."
      case .tooFewDescriptors: "The process may have too few open files: see ulimit -n."
      case .noCluster(let servers): "\(servers): this server was built without its trait NATS."
      case .noDatabase: "This server was built without its trait PostgreSQL, and keeps no boards in a database."
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

  /// Runs until the process is asked to terminate: then event streams end, what was accepted is saved, and this
  /// returns, whatever clients do.
  public func run() async throws {
    try await withApplication { application, boards in
      // They are shut down from the last on.
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

  /// Runs a body with the server's application, and saves what was accepted afterwards.
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
        "The boards are back.",
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
      logger.warning("Some logs took nothing: who waited has been told.", metadata: ["logs": "\(troubles)"])
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
