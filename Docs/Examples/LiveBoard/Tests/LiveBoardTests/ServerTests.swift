import AsyncHTTPClient
import Foundation
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import NIOHTTP1
import Puredux
import Testing

@testable import LiveBoardServer

/// What the server answers, over real HTTP on loopback.
@Suite(.timeLimit(.minutes(2))) struct ServerTests {
  struct Answer: Decodable {
    let card: Int?
    let board: Board
  }

  struct Failure: Decodable {
    struct Message: Decodable {
      let message: String
    }
    let error: Message
  }

  private func withServer(
    journal: String, _ test: @escaping @Sendable (any TestClientProtocol) async throws -> Void
  ) async throws {
    let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    let server = LiveBoardServer(host: "127.0.0.1", port: 0, journalPath: journal, logger: logger)
    try await server.withApplication { application in
      try await application.test(.ahc(.http)) { client in try await test(client) }
    }
  }

  private func request(
    _ client: any TestClientProtocol, _ method: HTTPRequest.Method, _ path: String, _ body: String? = nil
  ) async throws -> TestResponse {
    try await client.execute(uri: path, method: method, body: body.map { ByteBuffer(string: $0) }) { $0 }
  }

  private func answer(_ response: TestResponse) throws -> Answer {
    try JSONDecoder().decode(Answer.self, from: Data(response.body.readableBytesView))
  }

  private func message(_ response: TestResponse) throws -> String {
    #expect(response.headers[.contentType] == "application/json; charset=utf-8")
    return try JSONDecoder().decode(Failure.self, from: Data(response.body.readableBytesView)).error.message
  }

  @Test func `cards are made, edited, moved and deleted, and each answer is the board right after`() async throws {
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      let made = try await request(client, .post, "/boards/1/cards", #"{"text": " first ", "column": "Doing"}"#)
      #expect(made.status == .created)
      #expect(try answer(made).card == 1)
      #expect(try answer(made).board.version == 2)
      #expect(try answer(made).board.columns[1].cards.map(\.text) == ["first"])
      let edited = try await request(client, .patch, "/boards/1/cards/1", #"{"text": "changed"}"#)
      #expect(try answer(edited).board.columns[1].cards.map(\.text) == ["changed"])
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "second", "column": "Done"}"#)
      let moved = try await request(client, .post, "/boards/1/cards/1/move", #"{"column": "Done", "position": 0}"#)
      #expect(try answer(moved).board.columns[2].cards.map(\.id) == [1, 2])
      let far = try await request(client, .post, "/boards/1/cards/1/move", #"{"column": "Done", "position": 99}"#)
      #expect(try answer(far).board.columns[2].cards.map(\.id) == [2, 1])
      let deleted = try await request(client, .delete, "/boards/1/cards/1")
      #expect(try answer(deleted).board.columns[2].cards.map(\.id) == [2])
      #expect(try answer(deleted).board.version == 7)
      let created = try await request(client, .post, "/boards", #"{"title": "Another"}"#)
      #expect(try answer(created).board.title == "Another")
      let list = try await request(client, .get, "/boards")
      #expect(
        String(buffer: list.body)
          == #"[{"id":1,"title":"First board","version":7},{"id":2,"title":"Another","version":1}]"#)
    }
    try await withServer(journal: folder.journal) { client in
      let board = try await request(client, .get, "/boards/1")
      let back = try JSONDecoder().decode(Board.self, from: Data(board.body.readableBytesView))
      #expect(back.version == 7)
      #expect(back.columns.map { $0.cards.map(\.text) } == [[], [], ["second"]])
    }
  }

  @Test(arguments: [
    (HTTPRequest.Method.get, "/nowhere", nil, 404, "There is nothing here."),
    (.get, "/boards/9", nil, 404, "There is no board 9."),
    (.get, "/boards/x", nil, 404, "There is no board x."),
    (.get, "/boards/9/events", nil, 404, "There is no board 9."),
    (.get, "/boards/9/history", nil, 404, "There is no board 9."),
    (.post, "/boards/9/cards", #"{"text": "a"}"#, 404, "There is no board 9."),
    (.patch, "/boards/1/cards/7", #"{"text": "a"}"#, 404, "There is no card 7 on this board."),
    (.delete, "/boards/1/cards/x", nil, 404, "There is no card x on this board."),
    (.post, "/boards/1/connections/x/look", #"{"version": 1}"#, 404, "There is no such connection."),
    (.post, "/boards/1/cards", #"{"text": "a", "column": "No"}"#, 422, "There is no column \"No\" on this board."),
    (.post, "/boards/1/cards", #"{"text": "  "}"#, 422, "The text is empty."),
    (.post, "/boards/1/cards", "{\"text\": \"\(String(repeating: "a", count: 1001))\"}", 422, "The text is too long"),
    (.post, "/boards/1/cards", "{", 400, "The body is not the JSON that is expected here."),
    (.post, "/boards/1/cards", "", 400, "The body is not the JSON that is expected here."),
    (.post, "/boards/1/cards", #"{"txt": "a"}"#, 400, "The body is not the JSON that is expected here."),
    (.post, "/boards", String(repeating: " ", count: 17 * 1024), 413, "The body is too large"),
    (.put, "/boards/1", "{}", 405, "PUT is not possible here, but GET is."),
    (.get, "/boards/1/cards", nil, 405, "GET is not possible here, but POST is."),
    (.post, "/", nil, 405, "POST is not possible here, but GET is."),
  ])
  func `bad requests get the right status and a clear message, and change nothing`(
    method: HTTPRequest.Method, path: String, body: String?, status: Int, text: String
  ) async throws {
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      let response = try await request(client, method, path, body)
      #expect(response.status.code == status)
      #expect(try message(response).hasPrefix(text))
      if status == 405 { #expect(response.headers[.allow] != nil) }
      let board = try await request(client, .get, "/boards/1")
      #expect(try JSONDecoder().decode(Board.self, from: Data(board.body.readableBytesView)).version == 1)
    }
    #expect(try Journal.open(at: folder.journal).1.edits.count == 1, "only the first board is in the journal")
  }

  @Test func `the history of a board has its edits in order, with the version that each made`() async throws {
    struct Change: Decodable, Equatable {
      let edit: Edit
      let version: Int
      let position: Int
    }
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      _ = try await request(client, .post, "/boards", #"{"title": "Another"}"#)
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#)
      _ = try await request(client, .post, "/boards/2/cards", #"{"text": "b"}"#)
      _ = try await request(client, .delete, "/boards/1/cards/9")
      _ = try await request(client, .delete, "/boards/1/cards/1")
      let history = try await request(client, .get, "/boards/1/history")
      let changes = try JSONDecoder().decode([Change].self, from: Data(history.body.readableBytesView))
      #expect(
        changes == [
          Change(edit: .createBoard(title: "First board"), version: 1, position: 1),
          Change(edit: .addCard(board: 1, column: nil, text: "a"), version: 2, position: 3),
          Change(edit: .deleteCard(board: 1, card: 1), version: 3, position: 5),
        ])
    }
  }

  @Test func `what a look or a refused edit leaves as it is makes no event`() async throws {
    var boards = Boards()
    let root = RootStore<Boards, Action>(initialState: boards, emits: .whenDifferent { $0.revision }) {
      $0.reduce($1)
    }
    let states = root.states()
    for action: Action in [
      .edit(.createBoard(title: "one")), .look(version: 1), .edit(.deleteCard(board: 1, card: 9)),
      .join(board: 1, connection: "c", name: "ann"), .leave(board: 1, connection: "c"),
    ] {
      root.dispatch(action)
      boards.reduce(action)
    }
    await root.shutdown()
    var revisions: [Int] = []
    for await state in states { revisions.append(state.revision) }
    #expect(revisions == [0, 1, 2, 3])
    #expect(Boards.summaries.select(boards) == [Boards.Summary(id: 1, title: "one", version: 1)])
  }

  @Test func `the figures of the tree are there for Prometheus to scrape`() async throws {
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#)
      let metrics = try await request(client, .get, "/metrics")
      #expect(metrics.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
      let lines = String(buffer: metrics.body).split(separator: "\n")
      #expect(lines.contains("liveboard_commits_total 2"), "the first board, and the card")
      #expect(lines.contains("# TYPE liveboard_longest_backlog gauge"))
      #expect(lines.contains("liveboard_child_stores 0"))
      #expect(lines.filter { !$0.hasPrefix("#") }.allSatisfy { Int($0.split(separator: " ")[1]) != nil })
      #expect(lines.count == 18)
    }
  }

  @Test func `the page is there`() async throws {
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      let page = try await request(client, .get, "/")
      #expect(page.status == .ok)
      #expect(page.headers[.contentType] == "text/html; charset=utf-8")
      #expect(String(buffer: page.body).contains("new EventSource"))
    }
  }

  // MARK: Event streams

  /// A client that holds as many streams as it is asked to.
  private static let streams = {
    var configuration = HTTPClient.Configuration()
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 100
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }()

  /// The events of a stream, as they come.
  private func withEvents(
    _ client: any TestClientProtocol, _ path: String,
    _ body: (EventIterator) async throws -> Void
  ) async throws {
    let url = "http://localhost:\(try #require(client.port))\(path)"
    let response = try await Self.streams.execute(HTTPClientRequest(url: url), timeout: .seconds(60))
    #expect(response.status == .ok)
    #expect(response.headers.first(name: "content-type") == "text/event-stream")
    try await body(EventIterator(response.body))
  }

  final class EventIterator {
    struct Event {
      let name: String
      let data: Data
    }
    private var chunks: HTTPClientResponse.Body.AsyncIterator
    private var text = ""

    init(_ body: HTTPClientResponse.Body) { chunks = body.makeAsyncIterator() }

    func next() async throws -> Event? {
      while true {
        if let end = text.range(of: "\n\n") {
          let lines = text[..<end.lowerBound].split(separator: "\n")
          text = String(text[end.upperBound...])
          func value(_ field: String) -> String? {
            lines.first { $0.hasPrefix("\(field): ") }.map { String($0.dropFirst(field.count + 2)) }
          }
          return Event(name: value("event") ?? "", data: Data((value("data") ?? "").utf8))
        }
        guard let chunk = try await chunks.next() else { return nil }
        text += String(buffer: chunk)
      }
    }

    /// The next board that comes.
    func nextBoard() async throws -> Board? {
      while let event = try await next() {
        if event.name == "board" { return try JSONDecoder().decode(Board.self, from: event.data) }
      }
      return nil
    }

    /// The next attendance that a condition holds for.
    func attendance(where isMeant: (Attendance) -> Bool) async throws -> Attendance? {
      while let event = try await next() {
        guard event.name == "attendance" else { continue }
        let attendance = try JSONDecoder().decode(Attendance.self, from: event.data)
        if isMeant(attendance) { return attendance }
      }
      return nil
    }
  }

  @Test func `every stream sees every version of its board in order, and none of another's`() async throws {
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      _ = try await request(client, .post, "/boards", #"{"title": "Another"}"#)
      try await withThrowingTaskGroup { group in
        for _ in 0..<10 {
          group.addTask {
            try await withEvents(client, "/boards/1/events") { events in
              for version in 1...101 {
                let board = try await events.nextBoard()
                #expect(board?.version == version)
                #expect(board?.id == 1)
                if version == 1 { _ = try await request(client, .post, "/boards/2/cards", #"{"text": "here"}"#) }
              }
            }
          }
        }
        // The edits begin when all are here.
        try await withEvents(client, "/boards/1/events") { events in
          _ = try await events.attendance { $0.here.count == 11 }
          for writer in 0..<4 {
            group.addTask {
              for number in 0..<25 {
                _ = try await request(client, .post, "/boards/1/cards", "{\"text\": \"\(writer)-\(number)\"}")
              }
            }
          }
          try await group.waitForAll()
        }
      }
    }
  }

  @Test func `a connection knows who is here and what is unread`() async throws {
    let folder = try Folder()
    try await withServer(journal: folder.journal) { client in
      try await withEvents(client, "/boards/1/events?name=ann") { ann in
        try await withEvents(client, "/boards/1/events?name=bob") { bob in
          _ = try await bob.attendance { $0.here == ["ann", "bob"] }
          let both = try #require(try await ann.attendance { $0.here == ["ann", "bob"] })
          #expect(both.unread == 0)
          _ = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#)
          _ = try await request(client, .post, "/boards/1/cards", #"{"text": "b"}"#)
          #expect(try await ann.attendance { $0.unread == 2 } != nil)
          let look = try await request(
            client, .post, "/boards/1/connections/\(both.connection)/look", #"{"version": 3}"#)
          #expect(look.status == .ok)
          #expect(try await ann.attendance { $0.unread == 0 } != nil)
          #expect(try await bob.attendance { $0.unread == 2 } != nil, "bob has not looked")
        }
        #expect(try await ann.attendance { $0.here == ["ann"] } != nil, "bob's connection is closed, and bob gone")
      }
    }
  }
}
