import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import Puredux
import PureduxDirectory
import PureduxLog

struct BoardContext: RequestContext {
  static let largestBody = 16 * 1024

  var coreContext: CoreRequestContextStorage
  /// The event loop of the request's connection.
  let loop: any EventLoop
  var maxUploadSize: Int { Self.largestBody }
  var responseEncoder: JSONEncoder {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    return encoder
  }

  init(source: Source) {
    coreContext = CoreRequestContextStorage(source: source)
    loop = source.channel.eventLoop
  }
}

/// The routes. The response to an edit contains the board right after the edit's own commit, when the edit is saved.
struct Routes: Sendable {
  typealias Handler = @Sendable (Request, BoardContext) async throws -> Response

  let boards: Boards

  init(_ boards: Boards) { self.boards = boards }

  func router(token: String?) -> Router<BoardContext> {
    let router = Router(context: BoardContext.self)
    router.add(middleware: SafeHeaders())
    router.add(middleware: JSONErrors())
    router.add(middleware: Access(token: token))
    let table: [(RouterPath, [HTTPRequest.Method: Handler])] = [
      ("/", [.get: file(Page.html, "text/html")]),
      ("/board.css", [.get: file(Page.style, "text/css")]),
      ("/board.js", [.get: file("const schema = \(boards.writtenSchema);\n" + Page.script, "text/javascript")]),
      ("/health", [.get: alive]),
      ("/ready", [.get: ready]),
      ("/metrics", [.get: metrics]),
      ("/people/:name/erase", [.post: erasePerson]),
      ("/boards", [.get: list, .post: createBoard]),
      ("/boards/:board", [.get: show, .delete: deleteBoard]),
      ("/boards/:board/events", [.get: events]),
      ("/boards/:board/history", [.get: changes]),
      ("/boards/:board/undo", [.post: undo]),
      ("/boards/:board/cards", [.post: addCard]),
      ("/boards/:board/cards/:card", [.patch: editCard, .delete: deleteCard]),
      ("/boards/:board/cards/:card/kind", [.put: setKind]),
      ("/boards/:board/cards/:card/move", [.post: moveCard]),
    ]
    for (path, given) in table {
      var handlers = given
      // An event stream has no `HEAD`, because its headers are known only after it opens.
      if let get = given[.get], path != "/boards/:board/events" {
        handlers[.head] = { try await get($0, $1).createHeadResponse() }
      }
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

  private func file(_ text: String, _ type: String) -> Handler {
    { _, _ in
      Response(
        status: .ok, headers: [.contentType: type + "; charset=utf-8", .cacheControl: "no-cache"],
        body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }
  }

  private func alive(_ request: Request, _ context: BoardContext) async throws -> Response {
    Response(status: .ok, body: ResponseBody(byteBuffer: ByteBuffer(string: "alive\n")))
  }

  /// Whether edits are accepted: not while the log of a board is unavailable or full, or stops its store.
  private func ready(_ request: Request, _ context: BoardContext) async throws -> Response {
    let troubles = boards.health.troubles
    var response = try context.responseEncoder.encode(troubles, from: request, context: context)
    response.status = troubles.isEmpty ? .ok : .serviceUnavailable
    return response
  }

  /// Metrics in the format of Prometheus.
  private func metrics(_ request: Request, _ context: BoardContext) async throws -> Response {
    let health = boards.health
    let table: [(name: String, type: String, help: String, value: Int)] = [
      ("edits_total", "counter", "Edits saved since the server started.", health.edits.load(ordering: .relaxed)),
      ("unknown_total", "counter", "Edits with an unknown outcome.", health.unknown.load(ordering: .relaxed)),
      ("event_streams", "gauge", "Open event streams.", health.streams.load(ordering: .relaxed)),
      ("boards", "gauge", "Existing boards.", await boards.list.committed().count),
      ("open_boards", "gauge", "Boards in memory.", await boards.rooms.keys.count),
      ("troubled_logs", "gauge", "Logs that are unavailable, or whose store has stopped.", health.troubles.count),
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
    try context.responseEncoder.encode(await boards.listed(), from: request, context: context)
  }

  /// The current board, or the board at the requested `version`.
  private func show(_ request: Request, _ context: BoardContext) async throws -> Response {
    let room = try await boards.rooms.withStore(board(of: context)) { await $0.committed() }
    var board = room.board
    if let text = request.uri.queryParameters["version"] {
      guard let past = Int(text).flatMap({ room.board(at: $0) }) else {
        throw HTTPError(
          .notFound, message: "There is no version \(text): only the last \(Room.changeLimit) changes are kept.")
      }
      board = past
    }
    return try context.responseEncoder.encode(board, from: request, context: context)
  }

  /// The last changes of the board, oldest first.
  private func changes(_ request: Request, _ context: BoardContext) async throws -> Response {
    let changes = try await boards.rooms.withStore(board(of: context)) { await $0.committed().changes }
    return try context.responseEncoder.encode(changes, from: request, context: context)
  }

  /// The board's new versions, and the people present.
  private func events(_ request: Request, _ context: BoardContext) async throws -> Response {
    let board = try board(of: context)
    // Throws if the board does not exist.
    try await boards.rooms.withStore(board) { _ in }
    guard let place = StreamPlace(among: boards.streamLimit, of: boards.health) else {
      throw HTTPError(.serviceUnavailable, message: "Too many people are here. Try again later.")
    }
    // The handle keeps the hall open until the stream ends.
    let stream = EventStream(
      hall: try await boards.halls.open(board),
      name: name(of: request) ?? "somebody",
      seen: request.headers[.lastEventID], place: place)
    // Without this call, the stream of a disconnected client would stay open until the next write fails.
    let body = ResponseBody { writer in
      try await request.body.consumeWithCancellationOnInboundClose { _ in
        try await stream.write(to: &writer, on: context.loop)
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
    let title = trimmed(try await body(NewBoard.self, of: request, context).title)
    let id = try await boards.list.send(.add(title: title)) { $0.newest }
    // Opens no store: an error now would invite a retry, which would create a second board.
    let answer = Answer(card: nil, version: nil, board: Board(id: id, title: title))
    return try response(.created, answer, request, context)
  }

  private func deleteBoard(_ request: Request, _ context: BoardContext) async throws -> Response {
    try await boards.delete(board(of: context))
    return Response(status: .noContent)
  }

  /// Returns when the name is erased from all stored data except backups.
  private func erasePerson(_ request: Request, _ context: BoardContext) async throws -> Response {
    guard let name = context.parameters.get("name")?.removingPercentEncoding else {
      throw HTTPError(.badRequest, message: "The name cannot be read.")
    }
    try await boards.erase(stored(name: name))
    return Response(status: .noContent)
  }

  private struct NewCard: Decodable {
    let text: String
    let column: String?
    let kind: Board.Kind?
    let author: String?
  }

  private func addCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let new = try await body(NewCard.self, of: request, context)
    let edit = Edit.addCard(
      text: trimmed(new.text), column: new.column, key: request.headers[.idempotencyKey], kind: new.kind,
      author: new.author.map(trimmed).flatMap { $0.isEmpty ? nil : $0 })
    return try await answer(.created, board(of: context), edit, request, context)
  }

  private struct ChangedCard: Decodable {
    let text: String
  }

  private func editCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let changed = try await body(ChangedCard.self, of: request, context)
    return try await answer(
      .ok, board(of: context), .editCard(card: card(of: context), text: trimmed(changed.text)), request, context)
  }

  private func setKind(_ request: Request, _ context: BoardContext) async throws -> Response {
    let kind = try await body(Board.Kind.self, of: request, context)
    return try await answer(.ok, board(of: context), .setKind(card: card(of: context), kind: kind), request, context)
  }

  private struct Move: Decodable {
    let column: String
    let position: Int?
  }

  private func moveCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    let move = try await body(Move.self, of: request, context)
    return try await answer(
      .ok, board(of: context), .moveCard(card: card(of: context), column: move.column, position: move.position),
      request,
      context)
  }

  private func deleteCard(_ request: Request, _ context: BoardContext) async throws -> Response {
    try await answer(.ok, board(of: context), .deleteCard(card: card(of: context)), request, context)
  }

  private struct Undo: Decodable {
    let version: Int
  }

  private func undo(_ request: Request, _ context: BoardContext) async throws -> Response {
    let version = try await body(Undo.self, of: request, context).version
    return try await answer(.ok, board(of: context), .undo(version: version), request, context)
  }

  private struct Answer: Encodable {
    let card: Int?
    /// The version that the edit made, to undo it.
    let version: Int?
    let board: Board
  }

  /// Responds with the board right after the commit of an edit.
  private func answer(
    _ status: HTTPResponse.Status, _ id: Int, _ edit: Edit, _ request: Request, _ context: BoardContext
  ) async throws -> Response {
    let answer = try await boards.rooms.withStore(id) { room in
      var edit = edit
      if let name = name(of: request), boards.writtenSchema > 2 { edit = .signed(edit, by: name, at: room.now) }
      do {
        let after = try await room.send(edit) { $0 }
        boards.health.edits.add(1, ordering: .relaxed)
        let outcome = try after.outcome.get()
        return Answer(card: outcome.card, version: outcome.version, board: after.board)
      } catch StoreError.rejected(let reason) {
        // The error has only the text of the refusal.
        if edit.schema > boards.writtenSchema { throw Board.Refusal.notYet }
        if let refusal = await room.committed().refusal(of: edit) { throw refusal }
        throw StoreError.rejected(reason: reason)
      } catch StoreError.outcomeUnknown {
        boards.health.unknown.add(1, ordering: .relaxed)
        throw StoreError.outcomeUnknown
      }
    }
    return try response(status, answer, request, context)
  }

  private func response(
    _ status: HTTPResponse.Status, _ answer: Answer, _ request: Request, _ context: BoardContext
  ) throws -> Response {
    var response = try context.responseEncoder.encode(answer, from: request, context: context)
    response.status = status
    return response
  }

  // MARK: Input

  /// The name of the requester, if known.
  private func name(of request: Request) -> String? {
    let name = stored(name: String(request.uri.queryParameters["name"] ?? ""))
    return name.isEmpty ? nil : name
  }

  /// The form in which edits store a name. An erasure must find that form. Authors of cards are trimmed first, too, and
  /// refused if they are too long.
  private func stored(name: String) -> String {
    trimmed(trimmed(name).cut(toBytes: Board.Refusal.nameLimit))
  }

  private func board(of context: BoardContext) throws -> Int {
    let text = context.parameters.get("board") ?? ""
    guard let id = Int(text) else { throw Boards.Unknown(id: text) }
    return id
  }

  private func card(of context: BoardContext) throws -> Int {
    let text = context.parameters.get("card") ?? ""
    guard let id = Int(text) else { throw HTTPError(.notFound, message: "There is no card \(text) on this board.") }
    return id
  }

  private func body<Body: Decodable>(
    _ type: Body.Type, of request: Request, _ context: BoardContext
  ) async throws -> Body {
    do {
      return try await request.decode(as: Body.self, context: context)
    } catch let error as HTTPError where error.status == .badRequest {
      throw HTTPError(.badRequest, message: "The body is not the JSON that is expected here. \(error.body ?? "")")
    } catch  where !(error is any HTTPResponseError || error is CancellationError) {
      // The request is not valid HTTP, or ends early.
      throw HTTPError(.badRequest, message: "The body cannot be read.")
    }
  }

  private func trimmed(_ text: String) -> String {
    text.trimmingCharacters(in: .whitespacesAndNewlines.union(.controlCharacters))
  }
}

/// Restricts the browser: it runs only the server's own script and never shows the page in a frame of another site.
struct SafeHeaders<Context: RequestContext>: RouterMiddleware {
  func handle(
    _ request: Request, context: Context, next: (Request, Context) async throws -> Response
  ) async throws -> Response {
    var response = try await next(request, context)
    response.headers[.contentSecurityPolicy] =
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
      + "form-action 'none'; frame-ancestors 'none'"
    response.headers[.xContentTypeOptions] = "nosniff"
    response.headers[.referrerPolicy] = "no-referrer"
    return response
  }
}

extension String {
  /// The longest prefix of whole characters within the limit. One character can have any number of combining marks.
  fileprivate func cut(toBytes limit: Int) -> String {
    var count = 0
    return String(
      prefix {
        count += $0.utf8.count
        return count <= limit
      })
  }
}

extension HTTPField.Name {
  fileprivate static let idempotencyKey = HTTPField.Name("Idempotency-Key")!
  fileprivate static let lastEventID = HTTPField.Name("Last-Event-ID")!
  fileprivate static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
}
