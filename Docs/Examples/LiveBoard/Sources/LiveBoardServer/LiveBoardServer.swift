import Hummingbird
import Logging
import Puredux

/// A shared task board: a tree of stores with a server around it.
public struct LiveBoardServer: Sendable {
  public let host: String
  public let port: Int
  public let journalPath: String
  private let logger: Logger

  public init(host: String, port: Int, journalPath: String, logger: Logger) {
    self.host = host
    self.port = port
    self.journalPath = journalPath
    self.logger = logger
  }

  /// Runs until the process is asked to terminate: then event streams end, what was accepted is saved, and this returns.
  public func run() async throws {
    try await withApplication { application in try await application.runService() }
  }

  /// Runs a body with the server's application, and saves what was accepted afterwards.
  func withApplication(
    _ body: (Application<RouterResponder<BoardContext>>) async throws -> Void
  ) async throws {
    let (journal, contents) = try Journal.open(at: journalPath)
    if let torn = contents.tornLine {
      logger.warning(
        "The last line of the journal was torn by a crash and set aside.", metadata: ["file": "\(torn.path())"])
    }
    var boards = Boards()
    for edit in contents.edits { boards.reduce(.edit(edit)) }
    logger.info("The boards are back.", metadata: ["edits": "\(boards.edits)", "boards": "\(boards.boards.count)"])
    // Each entry holds the boards as they were, which share what was not changed.
    let history = History<Boards, Action>(limit: 200)
    try await withStore(
      initialState: boards,
      interceptors: .journal(journal) { [logger] failure in logger.critical("\(failure)") },
      emits: .whenDifferent { $0.revision }, history: history,
      reducer: { boards, action in boards.reduce(action) }
    ) { root in
      if boards.isEmpty { try await root.send(.edit(.createBoard(title: "First board"))) }
      let routes = Routes(root, history: history, journal: journal)
      let application = Application(
        router: routes.router(),
        configuration: ApplicationConfiguration(address: .hostname(host, port: port), serverName: "LiveBoard"),
        logger: logger)
      try await body(application)
      await root.shutdown(interceptors: .finish(within: .seconds(30)))
    }
    try await journal.close()
  }
}
