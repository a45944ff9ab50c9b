import AsyncAlgorithms
import Foundation
import Hummingbird
import Puredux
import ServiceLifecycle

struct BoardContext: RequestContext {
  static let largestBody = 16 * 1024
  static let longestText = 1000

  var coreContext: CoreRequestContextStorage
  var maxUploadSize: Int { Self.largestBody }
  var responseEncoder: JSONEncoder {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return encoder
  }

  init(source: Source) {
    coreContext = CoreRequestContextStorage(source: source)
  }
}

/// What the server answers. Every edit is answered with the state right after its own commit, once it is saved.
struct Routes: Sendable {
  typealias Handler = @Sendable (Request, BoardContext) async throws -> Response

  let root: RootStore<Boards, Action>
  /// A projection: what clients do to the boards are edits and nothing else.
  let boards: Store<Boards, Edit>
  let summaries: Store<[Boards.Summary], Edit>
  let feeds: BoardFeeds
  let connections: Connections
  let history: History<Boards, Action>
  let journal: Journal

  init(_ root: RootStore<Boards, Action>, history: History<Boards, Action>, journal: Journal) {
    self.root = root
    boards = root.projection(action: { .edit($0) }, state: { $0 })
    summaries = boards.scope(selecting: Boards.summaries)
    feeds = BoardFeeds(root.store())
    connections = Connections(root)
    self.history = history
    self.journal = journal
  }

  func router() -> Router<BoardContext> {
    let router = Router(context: BoardContext.self)
    router.add(middleware: JSONErrors())
    let table: [(RouterPath, [HTTPRequest.Method: Handler])] = [
      ("/", [.get: page]),
      ("/metrics", [.get: metrics]),
      ("/boards", [.get: list, .post: createBoard]),
      ("/boards/:board", [.get: show]),
      ("/boards/:board/events", [.get: events]),
      ("/boards/:board/history", [.get: changes]),
      ("/boards/:board/cards", [.post: addCard]),
      ("/boards/:board/cards/:card", [.patch: editCard, .delete: deleteCard]),
      ("/boards/:board/cards/:card/move", [.post: moveCard]),
      ("/boards/:board/connections/:connection/look", [.post: look]),
    ]
    for (path, handlers) in table {
      for (method, handler) in handlers { router.on(path, method: method, use: handler) }
      let allowed = handlers.keys.map(\.rawValue).sorted().joined(separator: ", ")
      for method in [HTTPRequest.Method.get, .head, .post, .put, .patch, .delete, .options]
      where handlers[method] == nil {
        router.on(path, method: method) { _, _ -> Response in
          throw HTTPError(
            .methodNotAllowed, headers: [.allow: allowed], message: "\(method) is not possible here, but \(allowed) is."
          )
        }
      }
    }
    return router
  }

  // MARK: Reading

  private func page(_ request: Request, _ context: BoardContext) async throws -> Response {
    Response(
      status: .ok, headers: [.contentType: "text/html; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: Page.html)))
  }

  /// The figures of the tree, as a Prometheus server scrapes them.
  private func metrics(_ request: Request, _ context: BoardContext) async throws -> Response {
    let statistics = await root.statistics
    let table: [(name: String, type: String, help: String, value: Int)] = [
      ("commits_total", "counter", "Commits since the server started.", statistics.commits),
      ("waiting", "gauge", "Actions and other requests that wait for their turn.", statistics.waiting),
      ("child_stores", "gauge", "Child stores: open connections.", statistics.childStores),
      ("subscriptions", "gauge", "Subscribed state sequences.", statistics.subscriptions),
      ("longest_backlog", "gauge", "States that wait for the slowest subscriber.", statistics.longestBacklog),
      ("running_tasks", "gauge", "Tasks of interceptors that run.", statistics.runningTasks),
    ]
    let text = table.map { figure in
      """
      # HELP liveboard_\(figure.name) \(figure.help)
      # TYPE liveboard_\(figure.name) \(figure.type)
      liveboard_\(figure.name) \(figure.value)

      """
    }
    return Response(
      status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
      body: ResponseBody(byteBuffer: ByteBuffer(string: text.joined())))
  }

  private func list(_ request: Request, _ context: BoardContext) async throws -> Response {
    try context.responseEncoder.encode(try await summaries.state, from: request, context: context)
  }

  private func show(_ request: Request, _ context: BoardContext) async throws -> Response {
    try context.responseEncoder.encode(try await board(of: context), from: request, context: context)
  }

  private struct Change: Encodable {
    let edit: Edit
    let version: Int
    /// How the edit stands in the order of all that happened on the server since it started.
    let position: Int
  }

  /// The last edits of the board, the oldest first, as far as the server remembers.
  private func changes(_ request: Request, _ context: BoardContext) async throws -> Response {
    // Read before the history: so what has been answered is in it.
    let id = try await board(of: context).id
    let changes = history.entries.compactMap { entry -> Change? in
      guard case .edit(let edit) = entry.action, case .done(id, _) = entry.state.outcome,
        let version = entry.state.boards[id]?.version
      else { return nil }
      return Change(edit: edit, version: version, position: entry.position)
    }
    return try context.responseEncoder.encode(changes, from: request, context: context)
  }

  /// The board's versions from now on, and beside them who is here and what is unread.
  private func events(_ request: Request, _ context: BoardContext) async throws -> Response {
    let board = try await board(of: context)
    let name = request.uri.queryParameters["name"].map { String($0.prefix(40)) } ?? "somebody"
    let body = ResponseBody { writer in
      try await request.body.consumeWithCancellationOnInboundClose { _ in
        try await connections.withConnection(to: board.id, at: board.version, name: name) { connection in
          let versions = feeds[board.id].states(removeStateDuplicates: .equal { $0.version }) as StateSequence
          let attendance = (connection.states() as StateSequence).map { ByteBuffer.event("attendance", $0) }
          for await message in merge(versions.map(\.message), attendance).cancelOnGracefulShutdown() {
            try await writer.write(message)
          }
        }
      }
      try await writer.finish(nil)
    }
    return Response(
      status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
  }

  // MARK: Editing

  private struct NewBoard: Decodable {
    let title: String
  }

  private func createBoard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let new = try await body(NewBoard.self, of: request, context)
    return try await answer(.createBoard(title: try checked(new.title)), status: .created, request, context)
  }

  private struct NewCard: Decodable {
    let text: String
    let column: String?
  }

  private func addCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let board = try await board(of: context)
    let new = try await body(NewCard.self, of: request, context)
    if let column = new.column { try check(column, on: board) }
    let edit = Edit.addCard(board: board.id, column: new.column, text: try checked(new.text))
    return try await answer(edit, status: .created, request, context)
  }

  private struct ChangedCard: Decodable {
    let text: String
  }

  private func editCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let (board, card) = try await card(of: context)
    let changed = try await body(ChangedCard.self, of: request, context)
    return try await answer(
      .editCard(board: board.id, card: card, text: try checked(changed.text)), request, context)
  }

  private struct Move: Decodable {
    let column: String
    let position: Int?
  }

  private func moveCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let (board, card) = try await card(of: context)
    let move = try await body(Move.self, of: request, context)
    try check(move.column, on: board)
    return try await answer(
      .moveCard(board: board.id, card: card, column: move.column, position: move.position), request, context)
  }

  private func deleteCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let (board, card) = try await card(of: context)
    return try await answer(.deleteCard(board: board.id, card: card), request, context)
  }

  private func look(_ request: Request, _ context: BoardContext) async throws -> Response {
    let look = try await body(Look.self, of: request, context)
    guard let connection = connections[context.parameters.get("connection") ?? ""] else {
      throw HTTPError(.notFound, message: "There is no such connection.")
    }
    let attendance = try await connection.send(look) { $0 }
    return try context.responseEncoder.encode(attendance, from: request, context: context)
  }

  private struct Answer: Encodable {
    let card: Int?
    let board: Board?
  }

  /// Commits an edit, waits until it is saved, and answers with the board as it was right after its commit.
  private func answer(
    _ edit: Edit, status: HTTPResponse.Status = .ok, _ request: Request, _ context: BoardContext
  ) async throws -> Response {
    let (outcome, board, position) = try await boards.send(edit) { boards in
      if case .done(let id, _) = boards.outcome {
        (boards.outcome, boards.boards[id], boards.edits)
      } else {
        (boards.outcome, nil, boards.edits)
      }
    }
    let card = try outcome.checked().card
    try await journal.flush(through: position)
    var response = try context.responseEncoder.encode(
      Answer(card: card, board: board), from: request, context: context)
    response.status = status
    return response
  }

  // MARK: Input

  private func board(of context: BoardContext) async throws -> Board {
    let text = context.parameters.get("board") ?? ""
    guard let id = Int(text), let board = try await boards.state.boards[id] else {
      throw HTTPError(.notFound, message: "There is no board \(text).")
    }
    return board
  }

  private func card(of context: BoardContext) async throws -> (board: Board, card: Int) {
    let board = try await board(of: context)
    let text = context.parameters.get("card") ?? ""
    guard let id = Int(text), board.columns.contains(where: { $0.cards.contains { $0.id == id } }) else {
      throw HTTPError(.notFound, message: "There is no card \(text) on this board.")
    }
    return (board, id)
  }

  private func check(_ column: String, on board: Board) throws {
    if !board.columns.contains(where: { $0.name == column }) { _ = try Boards.Outcome.unknownColumn(column).checked() }
  }

  private func body<Body: Decodable>(
    _ type: Body.Type, of request: Request, _ context: BoardContext
  ) async throws -> Body {
    do {
      return try await request.decode(as: Body.self, context: context)
    } catch let error as HTTPError where error.status == .badRequest {
      throw HTTPError(.badRequest, message: "The body is not the JSON that is expected here. \(error.body ?? "")")
    }
  }

  private func checked(_ text: String) throws -> String {
    let text = text.trimmingCharacters(in: .whitespacesAndNewlines)
    guard !text.isEmpty else { throw HTTPError(.unprocessableContent, message: "The text is empty.") }
    guard text.count <= BoardContext.longestText else {
      throw HTTPError(
        .unprocessableContent, message: "The text is too long: at most \(BoardContext.longestText) characters.")
    }
    return text
  }
}
