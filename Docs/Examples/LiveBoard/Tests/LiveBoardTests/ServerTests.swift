import AsyncHTTPClient
import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import Logging
import NIOCore
import Puredux
import PureduxDirectory
import PureduxLog
import Synchronization
import Testing

@testable import LiveBoardServer

/// The responses of the server, over real HTTP on loopback.
@Suite(.timeLimit(.minutes(15))) struct ServerTests {
  struct Answer: Decodable {
    let card: Int?
    let version: Int?
    let board: Board
  }

  struct Failure: Decodable {
    struct Message: Decodable {
      let message: String
    }
    let error: Message
  }

  private func withServer(
    in folder: Folder, token: String? = nil, _ options: LiveBoardServer.Options = LiveBoardServer.Options(),
    _ test: @escaping @Sendable (any TestClientProtocol) async throws -> Void
  ) async throws {
    let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    var options = options
    (options.port, options.logs, options.token) = (0, .directory(folder.path), token)
    try await LiveBoardServer(options, logger: logger).withApplication { application, _ in
      try await application.test(.ahc(.http)) { client in try await test(client) }
    }
  }

  private func request(
    _ client: any TestClientProtocol, _ method: HTTPRequest.Method, _ path: String, _ body: String? = nil,
    headers: HTTPFields = [:]
  ) async throws -> TestResponse {
    var fields: HTTPFields = body == nil ? [:] : [.contentType: "application/json"]
    for header in headers { fields[header.name] = header.value }
    return try await client.execute(
      uri: path, method: method, headers: fields, body: body.map { ByteBuffer(string: $0) }
    ) { $0 }
  }

  private func answer(_ response: TestResponse) throws -> Answer {
    try JSONDecoder().decode(Answer.self, from: Data(response.body.readableBytesView))
  }

  private func listed(_ client: any TestClientProtocol) async throws -> [Boards.Listed] {
    let list = try await request(client, .get, "/boards")
    return try JSONDecoder().decode([Boards.Listed].self, from: Data(list.body.readableBytesView))
  }

  private func message(_ response: TestResponse) throws -> String {
    #expect(response.headers[.contentType] == "application/json; charset=utf-8")
    return try JSONDecoder().decode(Failure.self, from: Data(response.body.readableBytesView)).error.message
  }

  @Test func `cards are made, edited, moved and deleted, and each answer is the board right after`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
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
      let another = try await request(client, .get, "/boards/2")
      #expect(try JSONDecoder().decode(Board.self, from: Data(another.body.readableBytesView)) == answer(created).board)
      #expect(try answer(created).board.title == "Another")
      let list = try await listed(client)
      #expect(list.map(\.id) == [1, 2] && list.map(\.title) == ["First board", "Another"])
    }
    try await withServer(in: folder) { client in
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
    (.get, "/boards/0", nil, 404, "There is no board 0."),
    (.get, "/boards/\(Int.min)", nil, 404, "There is no board \(Int.min)."),
    (.get, "/boards/1?version=\(Int.min)", nil, 404, "There is no version"),
    (.post, "/boards/1/undo", #"{"version": \#(Int.min)}"#, 409, "This cannot be undone"),
    (
      .post, "/boards/1/cards", "{\"text\": \"a\(String(repeating: "\u{301}", count: 3000))\"}", 422,
      "The text is too long"
    ),
    (.get, "/boards/9/events", nil, 404, "There is no board 9."),
    (.get, "/boards/9/history", nil, 404, "There is no board 9."),
    (.post, "/boards/9/cards", #"{"text": "a"}"#, 404, "There is no board 9."),
    (.patch, "/boards/1/cards/7", #"{"text": "a"}"#, 404, "There is no card 7 on this board."),
    (.delete, "/boards/1/cards/x", nil, 404, "There is no card x on this board."),
    (.post, "/boards/1/cards", #"{"text": "a", "column": "No"}"#, 422, "There is no column \"No\" on this board."),
    (.post, "/boards/1/cards", #"{"text": "  "}"#, 422, "The text is empty."),
    (.post, "/boards/1/cards", "{\"text\": \"\(String(repeating: "a", count: 1001))\"}", 422, "The text is too long"),
    (.post, "/boards/1/cards", "{", 400, "The body is not the JSON that is expected here."),
    (.post, "/boards/1/cards", #"{"txt": "a"}"#, 400, "The body is not the JSON that is expected here."),
    (.post, "/boards", String(repeating: " ", count: 17 * 1024), 413, "The body is too large"),
    (.put, "/boards/1", "{}", 405, "PUT is not possible here, but DELETE, GET, HEAD is."),
    (.delete, "/boards/9", nil, 404, "There is no board 9."),
    (.delete, "/boards/\(Int.min)", nil, 404, "There is no board \(Int.min)."),
    (.post, "/boards", #"{"title": " "}"#, 422, "The text is empty."),
    (.get, "/boards/1/cards", nil, 405, "GET is not possible here, but POST is."),
    (.delete, "/", nil, 405, "DELETE is not possible here, but GET, HEAD is."),
    (.post, "/boards/1/cards", nil, 415, "The body has to be JSON"),
  ])
  func `bad requests get the right status and a clear message, and change nothing`(
    method: HTTPRequest.Method, path: String, body: String?, status: Int, text: String
  ) async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      let response = try await request(client, method, path, body)
      #expect(response.status.code == status)
      #expect(try message(response).hasPrefix(text))
      if status == 405 { #expect(response.headers[.allow] != nil) }
      let board = try await request(client, .get, "/boards/1")
      #expect(try JSONDecoder().decode(Board.self, from: Data(board.body.readableBytesView)).version == 1)
    }
    let log = try FileLog(directory: folder.path)
    #expect(try await log["boards/1"].head() == 0, "what is refused does not come into the log")
    #expect(try await log["list"].head() == 0)
  }

  @Test func `however often something is refused, nothing is stored`() async throws {
    let folder = try Folder()
    let many = String(repeating: "a", count: Board.Refusal.textLimit + 1)
    let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    var options = LiveBoardServer.Options()
    options.logs = .directory(folder.path)
    try await LiveBoardServer(options, logger: logger).withApplication { _, boards in
      try await boards.rooms.withStore(1) { room in
        try await room.send(.addCard(text: "a", column: nil))
        let position = await room.statistics.log?.position
        // The store itself refuses these edits, without HTTP.
        let edits: [Edit] = [
          .editCard(card: 2, text: "b"), .editCard(card: 1, text: many), .addCard(text: "", column: nil),
          .addCard(text: "b", column: "No"), .addCard(text: "b", column: nil, key: many),
          .moveCard(card: 1, column: "No", position: nil), .deleteCard(card: 2), .undo(version: 3),
        ]
        for number in 0..<1000 {
          await #expect(throws: StoreError.self) { try await room.send(edits[number % edits.count]) }
        }
        #expect(await room.statistics.log?.position == position)
      }
      for id in 2..<100 {
        await #expect(throws: Boards.Unknown.self) { try await boards.rooms.withStore(id) { _ in } }
        await #expect(throws: Boards.Unknown.self) { try await boards.delete(id) }
        await #expect(throws: StoreError.self) { try await boards.list.send(.add(title: many)) }
      }
    }
    let log = try FileLog(directory: folder.path)
    var keys: [String] = []
    for try await key in log.keys(prefix: "") { keys.append(key) }
    #expect(keys == ["boards/1"])
    await log.close()
  }

  @Test func `a board that is deleted is gone for everybody, its bytes too, and its id is not used again`() async throws
  {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      _ = try await request(client, .post, "/boards", #"{"title": "the title"}"#)
      _ = try await request(client, .post, "/boards/2/cards", #"{"text": "remembered"}"#)
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "stays"}"#)
      #expect(try folder.contains("remembered"))
      try await withEvents(client, "/boards/2/events") { events in
        _ = try await events.nextBoard()
        #expect(try await request(client, .delete, "/boards/2").status == .noContent)
        #expect(try !folder.contains("remembered"))
        #expect(try !folder.contains("the title"))
        // The last event has the reason.
        var last: String?
        while let event = try await events.next() { last = event.name }
        #expect(last == "deleted")
      }
      for path in ["/boards/2", "/boards/2/events", "/boards/2/history"] {
        #expect(try await request(client, .get, path).status == .notFound)
      }
      #expect(try await request(client, .post, "/boards/2/cards", #"{"text": "late"}"#).status == .notFound)
      #expect(try await request(client, .delete, "/boards/2").status == .notFound)
      #expect(try await String(buffer: request(client, .get, "/ready").body) == "{}")
    }
    try await withServer(in: folder) { client in
      let list = try await listed(client)
      #expect(list.map(\.title) == ["First board"])
      #expect(try await request(client, .get, "/boards/2").status == .notFound)
      #expect(try answer(await request(client, .post, "/boards", #"{"title": "b"}"#)).board.id == 3)
    }
    #expect(try !folder.contains("remembered"))
    #expect(try folder.contains("stays"))
  }

  @Test func `boards are listed with what is on them, and none is opened for that`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      for title in ["Another", "Empty", "Deleted"] {
        _ = try await request(client, .post, "/boards", #"{"title": "\#(title)"}"#)
      }
      for board in [1, 2, 2, 4] {
        _ = try await request(client, .post, "/boards/\(board)/cards", #"{"text": "a", "author": "ann"}"#)
      }
      _ = try await request(client, .delete, "/boards/1/cards/1")
      // The boards are open, and their figures are up to date.
      while try await listed(client).map(\.version) != [3, 3, nil, 2] { await Task.yield() }
      #expect(try await listed(client).map(\.cards) == [0, 2, nil, 1])
      _ = try await request(client, .delete, "/boards/4")
      _ = try await request(client, .post, "/boards/2/cards", #"{"text": "b"}"#)
    }
    try await withServer(in: folder) { client in
      #expect(
        try await String(buffer: request(client, .get, "/boards").body)
          == #"[{"cards":0,"id":1,"title":"First board","version":3},{"cards":3,"id":2,"title":"Another","version":4},"#
          + #"{"id":3,"title":"Empty"}]"#)
      let metrics = try await String(buffer: request(client, .get, "/metrics").body)
      #expect(metrics.contains("liveboard_open_boards 0\n"))
    }
  }

  @Test func `a person who is erased is on no board any more, in no undo and in no file`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      _ = try await request(client, .post, "/boards", #"{"title": "Another"}"#)
      _ = try await request(client, .post, "/boards", #"{"title": "A third"}"#)
      func add(_ text: String, _ author: String, board: Int) async throws {
        let made = try await request(
          client, .post, "/boards/\(board)/cards", "{\"text\": \"\(text)\", \"author\": \"\(author)\"}")
        #expect(try answer(made).board.columns[0].cards.last?.author == author)
      }
      try await add("first", "Zoë Name", board: 1)
      try await add("second", "bob", board: 1)
      // Nowhere but in the past of the second one.
      try await add("third", "Zoë Name", board: 2)
      let deleted = try answer(await request(client, .delete, "/boards/2/cards/1"))
      try await add("fourth", "bob", board: 3)
      #expect(try folder.contains("Zoë Name"))
      let others = try folder.files(containing: "fourth")

      #expect(try await request(client, .post, "/people/Zo%C3%AB%20Name/erase", "{}").status == .noContent)
      #expect(try !folder.contains("Zoë Name"))
      #expect(try folder.contains("bob"))
      #expect(try folder.files(containing: "fourth") == others, "a board without the name is left alone")
      let board = try answer(
        await request(client, .post, "/boards/2/undo", "{\"version\": \(deleted.version ?? 0)}")
      ).board
      #expect(board.columns[0].cards == [Board.Card(id: 1, text: "third")])
      let first = try await request(client, .get, "/boards/1")
      let cards = try JSONDecoder().decode(Board.self, from: Data(first.body.readableBytesView)).columns[0].cards
      #expect(cards.map(\.author) == [nil, "bob"] && cards.map(\.text) == ["first", "second"])
    }
    try await withServer(in: folder) { client in
      let past = try await request(client, .get, "/boards/1?version=3")
      #expect(past.status == .ok)
      let added = try await request(client, .post, "/boards/1/cards", #"{"text": "later"}"#)
      #expect(added.status == .created)
    }
    #expect(try !folder.contains("Zoë Name"))
    #expect(try folder.contains("third"))
  }

  @Test func `a name that is too long is erased in the form in which it is stored`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      let name = String(repeating: "name", count: Board.Refusal.nameLimit)
      let added = try await request(client, .post, "/boards/1/cards?name=\(name)", #"{"text": "a"}"#)
      #expect(added.status == .created)
      #expect(try folder.contains("namename"))
      #expect(try await request(client, .post, "/people/%20\(name)/erase", "{}").status == .noContent)
      #expect(try !folder.contains("namename"))
    }
  }

  @Test func `an erasure that was cut short is complete when it is asked for again`() async throws {
    let folder = try Folder()
    let logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    var options = LiveBoardServer.Options()
    options.logs = .directory(folder.path)
    try await LiveBoardServer(options, logger: logger).withApplication { _, boards in
      try await boards.rooms.withStore(1) { room in
        try await room.send(.addCard(text: "first", column: nil, author: "ann"))
        try await room.send(.addCard(text: "second", column: nil, author: "bob"))
        // The process dies here.
        #expect(try await room.send(.erase(author: "ann")) { $0.hasToErase })
        // An earlier erasure ends now.
        #expect(try await room.send(.erased(count: 0)) { $0.hasToErase })
      }
      #expect(try folder.contains("ann"))
      try await boards.erase("ann")
      #expect(try !folder.contains("ann"))
      #expect(try folder.contains("bob"))
      let hasToErase = try await boards.rooms.withStore(1) { await $0.committed().hasToErase }
      #expect(!hasToErase)
    }
  }

  @Test func `the history of a board has its edits in order, with the version that each made`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      _ = try await request(client, .post, "/boards", #"{"title": "Another"}"#)
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#)
      _ = try await request(client, .post, "/boards/2/cards", #"{"text": "b"}"#)
      _ = try await request(client, .delete, "/boards/1/cards/9")
      // A move to the same place makes no version.
      _ = try await request(client, .post, "/boards/1/cards/1/move", #"{"column": "To do"}"#)
      _ = try await request(client, .delete, "/boards/1/cards/1")
      let history = try await request(client, .get, "/boards/1/history")
      let changes = try JSONDecoder().decode([Board.Change].self, from: Data(history.body.readableBytesView))
      #expect(
        changes == [
          Board.Change(version: 2, card: 1, before: nil, after: Board.Place(column: 0, position: 0, text: "a")),
          Board.Change(version: 3, card: 1, before: Board.Place(column: 0, position: 0, text: "a"), after: nil),
        ])
    }
  }

  @Test(arguments: [2, 3] as [UInt32])
  func `the history says who asked for an edit, and when, as far as all servers can read that`(
    schema: UInt32
  ) async throws {
    let folder = try Folder()
    var options = LiveBoardServer.Options()
    options.writtenSchema = schema
    try await withServer(in: folder, options) { client in
      let began = WallTime.now
      func edit(_ method: HTTPRequest.Method, _ path: String, _ body: String? = nil) async throws {
        #expect(try await request(client, method, "/boards/1/" + path, body).status.kind == .successful)
      }
      try await edit(.post, "cards?name=Zo%C3%AB%20Name%20", #"{"text": "a"}"#)
      try await edit(.post, "cards/1/move?name=bob", #"{"column": "Done"}"#)
      try await edit(.patch, "cards/1?name=%20", #"{"text": "b"}"#)
      try await edit(.delete, "cards/1?name=bob")
      try await edit(.post, "undo?name=cat", #"{"version": 5}"#)
      func changes() async throws -> [Board.Change] {
        let history = try await request(client, .get, "/boards/1/history")
        return try JSONDecoder().decode([Board.Change].self, from: Data(history.body.readableBytesView))
      }
      let names = schema > 2 ? ["Zoë Name", "bob", nil, "bob", "cat"] : [nil, nil, nil, nil, nil]
      #expect(try await changes().map(\.by) == names)
      for change in try await changes() {
        #expect((change.at == nil) == (change.by == nil))
        if let time = change.at { #expect(time >= began && time <= .now) }
      }
      #expect(try folder.contains("Zoë Name") == (schema > 2))
      try await edit(.post, "cards", #"{"text": "c"}"#)
      #expect(try await request(client, .post, "/people/Zo%C3%AB%20Name/erase", "{}").status == .noContent)
      #expect(try await changes().map(\.by) == [nil] + names.dropFirst() + [nil])
      #expect(try !folder.contains("Zoë Name"))
    }
  }

  @Test func `an edit is undone and done again, unless its card has been changed since`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      func undo(_ version: Int) async throws -> TestResponse {
        try await request(client, .post, "/boards/1/undo", "{\"version\": \(version)}")
      }
      for text in ["a", "b"] { _ = try await request(client, .post, "/boards/1/cards", "{\"text\": \"\(text)\"}") }
      let deleted = try answer(await request(client, .delete, "/boards/1/cards/1"))
      #expect(deleted.version == 4)
      let undone = try answer(await undo(4))
      #expect(undone.card == 1 && undone.version == 5)
      #expect(undone.board.columns[0].cards.map(\.text) == ["a", "b"])
      #expect(try answer(await undo(5)).board.columns[0].cards.map(\.text) == ["b"], "it is done again")
      for version in [2, 4, 5, 7, -1] {
        let refused = try await undo(version)
        #expect(refused.status == .conflict)
        #expect(try message(refused).hasPrefix("This cannot be undone"))
      }
      let nothing = try answer(await request(client, .post, "/boards/1/cards/2/move", #"{"column": "To do"}"#))
      #expect(nothing.card == 2 && nothing.version == nil, "what has changed nothing cannot be undone")
    }
  }

  @Test func `who repeats a request with its key adds nothing`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      func add(_ key: String?) async throws -> Answer {
        var headers: HTTPFields = [:]
        if let key { headers[try #require(HTTPField.Name("Idempotency-Key"))] = key }
        return try answer(await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#, headers: headers))
      }
      for (key, card, count) in [("x", 1, 1), ("x", 1, 1), ("y", 2, 2), (nil, 3, 3), (nil, 4, 4), ("x", 1, 4)] {
        let answer = try await add(key)
        #expect(answer.card == card && answer.board.columns[0].cards.count == count)
      }
    }
  }

  @Test func `a key that is too long in bytes is refused, however few its characters are`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      func add(_ key: String) async throws -> TestResponse {
        let headers: HTTPFields = [try #require(HTTPField.Name("Idempotency-Key")): key]
        return try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#, headers: headers)
      }
      let longest = String(repeating: "k", count: 98) + "é"
      #expect(try answer(await add(longest)).card == 1)
      for key in [longest + "k", "a" + String(repeating: "\u{301}", count: 5000)] {
        let refused = try await add(key)
        #expect(refused.status == .badRequest)
        #expect(try message(refused).hasPrefix("The Idempotency-Key is too long"))
      }
      #expect(try answer(await add(longest)).board.version == 2)
    }
  }

  @Test func `a board is shown as it was`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      for text in ["a", "b"] { _ = try await request(client, .post, "/boards/1/cards", "{\"text\": \"\(text)\"}") }
      for (version, texts) in [(1, []), (2, ["a"]), (3, ["a", "b"])] {
        let response = try await request(client, .get, "/boards/1?version=\(version)")
        let board = try JSONDecoder().decode(Board.self, from: Data(response.body.readableBytesView))
        #expect(board.version == version && board.columns[0].cards.map(\.text) == texts)
      }
      for version in ["0", "4", "-1", "x", ""] {
        #expect(try await request(client, .get, "/boards/1?version=\(version)").status == .notFound)
      }
    }
  }

  @Test func `the figures of the server are there for Prometheus to scrape, and whether it is ready`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#)
      let metrics = try await request(client, .get, "/metrics")
      #expect(metrics.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
      let lines = String(buffer: metrics.body).split(separator: "\n")
      #expect(lines.contains("liveboard_edits_total 1"))
      #expect(lines.contains("# TYPE liveboard_troubled_logs gauge"))
      #expect(lines.contains("liveboard_event_streams 0"))
      #expect(lines.filter { !$0.hasPrefix("#") }.allSatisfy { Int($0.split(separator: " ")[1]) != nil })
      #expect(lines.count == 18)
      for path in ["/health", "/ready"] { #expect(try await request(client, .get, path).status == .ok) }
    }
  }

  @Test func `a board is made once, and reported, though its log cannot be read`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      let directory = folder.path + "/=boards%2f2"
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
      try Data("nonsense".utf8).write(to: URL(filePath: directory + "/tree"))
      // An error would invite a retry, which would make a second board.
      let created = try await request(client, .post, "/boards", #"{"title": " Another "}"#)
      #expect(created.status == .created)
      #expect(try answer(created).board.id == 2 && answer(created).board.title == "Another")
      #expect(try await listed(client).map(\.title) == ["First board", "Another"])
      #expect(try await request(client, .get, "/boards/2").status == .serviceUnavailable)
      let ready = try await request(client, .get, "/ready")
      #expect(ready.status == .serviceUnavailable)
      #expect(String(buffer: ready.body) == #"{"boards\/2":"damaged"}"#)
    }
  }

  // MARK: Access

  @Test(
    arguments: [
      ([.origin: "https://elsewhere.example"], 403, "Another website may not do this."),
      ([.contentType: "text/plain"], 415, "The body has to be JSON"),
      ([.contentType: "application/jsonx"], 415, "The body has to be JSON"),
      ([.contentType: "application/json-patch+json"], 415, "The body has to be JSON"),
      ([.contentType: "application/json, text/plain"], 415, "The body has to be JSON"),
    ] as [(HTTPFields, Int, String)])
  func `another website changes nothing`(headers: HTTPFields, status: Int, text: String) async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      let response = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#, headers: headers)
      #expect(response.status.code == status)
      #expect(try message(response).hasPrefix(text))
      let json: HTTPFields = [.contentType: "Application/JSON; charset=utf-8"]
      #expect(try answer(await request(client, .post, "/boards/1/cards", #"{"text": "b"}"#, headers: json)).card == 1)
    }
  }

  @Test(
    arguments: [
      "board.example", "127.0.0.1.example:8080", "localhost.example", "", "127.0.0.\u{661}", "127.0.0.256",
      "127.0.0.+1", "127.0..0.1",
    ])
  func `a name that somebody else has given this address is not answered to`(host: String) async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      var request = HTTPClientRequest(url: "http://127.0.0.1:\(try #require(client.port))/boards")
      request.headers.add(name: "host", value: host)
      let response = try await Self.streams.execute(request, timeout: .seconds(60))
      #expect(response.status.code == 421 || host.isEmpty && response.status.code == 400)
      _ = try await response.body.collect(upTo: 1 << 20)
    }
  }

  /// A hand-written request, and the status of the response.
  private func status(_ client: any TestClientProtocol, _ target: String, hosts: [String]) async throws -> String {
    let head = "GET \(target) HTTP/1.1\r\n" + hosts.map { "Host: \($0)\r\n" }.joined() + "\r\n"
    let answer = try await RawConnection(port: try #require(client.port)).ask(head)
    return String(answer.split(separator: " ")[1])
  }

  @Test func `a request that names two hosts is refused`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      for (target, hosts, expected) in [
        ("/boards", ["localhost"], "200"),
        ("/boards", ["localhost", "board.example"], "400"),
        ("/boards", ["localhost", "localhost"], "400"),
        ("http://localhost/boards?a=//b", ["localhost"], "200"),
        ("http://board.example/boards", ["localhost"], "400"),
        ("http://localhost@board.example/boards", ["localhost"], "400"),
        ("http://localhost:1/boards", ["localhost"], "400"),
      ] {
        let status = try await status(client, target, hosts: hosts)
        #expect(status == expected, "\(target) \(hosts)")
      }
    }
  }

  @Test func `with a token, who has none gets nothing but the health`() async throws {
    let folder = try Folder()
    try await withServer(in: folder, token: "secret") { client in
      for path in ["/", "/boards", "/boards/1/events", "/metrics", "/?token=wrong", "/board.js"] {
        #expect(try await request(client, .get, path).status == .unauthorized)
      }
      #expect(try await request(client, .get, "/health").status == .ok)
      let bearer: HTTPFields = [.authorization: "Bearer secret"]
      #expect(try await request(client, .get, "/boards", headers: bearer).status == .ok)
      let page = try await request(client, .get, "/?token=secret")
      #expect(page.headers[.setCookie] == "liveboard=secret; HttpOnly; SameSite=Strict; Path=/")
      #expect(try await request(client, .get, "/boards", headers: [.cookie: "a=b; liveboard=secret"]).status == .ok)
    }
  }

  @Test func `a server that others can reach needs a token`() async throws {
    let folder = try Folder()
    var options = LiveBoardServer.Options()
    (options.host, options.logs) = ("0.0.0.0", .directory(folder.path))
    let server = LiveBoardServer(options, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    await #expect(throws: LiveBoardServer.Failure.self) { try await server.run() }
  }

  @Test func `the page is there, and runs nothing but its own script`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      for (path, type) in [("/", "text/html"), ("/board.js", "text/javascript"), ("/board.css", "text/css")] {
        let page = try await request(client, .get, path)
        #expect(page.status == .ok)
        #expect(page.headers[.contentType] == type + "; charset=utf-8")
        #expect(page.headers[.contentSecurityPolicy]?.contains("frame-ancestors 'none'") == true)
        let head = try await request(client, .head, path)
        #expect(head.status == .ok && head.body.readableBytes == 0)
      }
      let script = try await request(client, .get, "/board.js")
      #expect(String(buffer: script.body).contains("new EventSource"))
    }
  }

  // MARK: Event streams

  /// A client with any number of streams.
  private static let streams = {
    var configuration = HTTPClient.Configuration()
    configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 100
    return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
  }()

  /// The events of a stream, as they arrive.
  private func withEvents(
    _ client: any TestClientProtocol, _ path: String, after seen: String? = nil,
    _ body: (EventIterator) async throws -> Void
  ) async throws {
    var request = HTTPClientRequest(url: "http://localhost:\(try #require(client.port))\(path)")
    if let seen { request.headers.add(name: "last-event-id", value: seen) }
    let response = try await Self.streams.execute(request, timeout: .seconds(60))
    #expect(response.status == .ok)
    #expect(response.headers.first(name: "content-type") == "text/event-stream")
    try await body(EventIterator(response.body))
  }

  final class EventIterator {
    struct Event {
      let id: String?
      let name: String
      let data: Data
    }
    private var chunks: HTTPClientResponse.Body.AsyncIterator
    private var text = ""
    private var shown = ShownBoard()

    init(_ body: HTTPClientResponse.Body) { chunks = body.makeAsyncIterator() }

    func next() async throws -> Event? {
      while true {
        if let end = text.range(of: "\n\n") {
          let lines = text[..<end.lowerBound].split(separator: "\n")
          text = String(text[end.upperBound...])
          func value(_ field: String) -> String? {
            lines.first { $0.hasPrefix("\(field): ") }.map { String($0.dropFirst(field.count + 2)) }
          }
          return Event(id: value("id"), name: value("event") ?? "", data: Data((value("data") ?? "").utf8))
        }
        guard let chunk = try await chunks.next() else { return nil }
        text += String(buffer: chunk)
      }
    }

    /// The board after its next event.
    func nextBoard() async throws -> ShownBoard? {
      while let event = try await next() {
        if event.name == "board" {
          shown = try JSONDecoder().decode(ShownBoard.self, from: event.data)
          return shown
        }
        if event.name == "change" {
          shown.follow(try JSONDecoder().decode(Board.Change.self, from: event.data))
          return shown
        }
      }
      return nil
    }

    /// The next attendance that meets a condition.
    func attendance(where isMeant: (Attendance.People) -> Bool) async throws -> Attendance.People? {
      while let event = try await next() {
        guard event.name == "attendance" else { continue }
        let attendance = try JSONDecoder().decode(Attendance.People.self, from: event.data)
        if isMeant(attendance) { return attendance }
      }
      return nil
    }
  }

  @Test func `every stream sees its board's versions in order, up to the last, and none of another's`() async throws {
    let folder = try Folder()
    try await withServer(in: folder) { client in
      _ = try await request(client, .post, "/boards", #"{"title": "Another"}"#)
      try await withThrowingTaskGroup { group in
        for _ in 0..<10 {
          group.addTask {
            try await withEvents(client, "/boards/1/events") { events in
              var shown = ShownBoard()
              while shown.version < 101 {
                let board = try #require(try await events.nextBoard())
                #expect(board.version > shown.version)
                #expect(board.id == 1)
                if shown.version == 0 { _ = try await request(client, .post, "/boards/2/cards", #"{"text": "here"}"#) }
                shown = board
              }
              let board = try await request(client, .get, "/boards/1")
              #expect(try JSONDecoder().decode(ShownBoard.self, from: Data(board.body.readableBytesView)) == shown)
            }
          }
        }
        // The edits begin when all clients have joined.
        try await withEvents(client, "/boards/1/events") { events in
          _ = try await events.attendance { $0.count == 11 }
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

  @Test func `who comes back gets what has changed, or the whole board where that may be another`() async throws {
    @Sendable func add(_ client: any TestClientProtocol) async throws {
      _ = try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#)
    }
    /// The next event of the board.
    @Sendable func next(_ client: any TestClientProtocol, after seen: String?) async throws -> EventIterator.Event {
      var found: EventIterator.Event?
      try await withEvents(client, "/boards/1/events", after: seen) { events in
        repeat { found = try await events.next() } while found != nil && found?.id == nil
      }
      return try #require(found)
    }
    let (folder, backup) = (try Folder(), try Folder())
    let seen = Mutex<String?>(nil)
    try await withServer(in: folder) { client in
      // One client stays.
      try await withEvents(client, "/boards/1/events") { events in
        _ = try await events.nextBoard()
        let whole = try await next(client, after: nil)
        #expect(whole.name == "board")
        try await add(client)
        _ = try await events.nextBoard()
        #expect(try await next(client, after: whole.id).name == "change")
        for other in ["1", "-1", "x-1", "\(whole.id ?? "")-1"] {
          #expect(try await next(client, after: other).name == "board")
        }
        seen.withLock { $0 = whole.id }
      }
    }
    // This server knows less than the page, and then takes another course.
    try await withServer(in: backup) { client in
      try await withEvents(client, "/boards/1/events") { events in
        _ = try await events.nextBoard()
        try await add(client)
        _ = try await events.nextBoard()
        #expect(try await next(client, after: seen.withLock { $0 }).name == "board")
      }
    }
  }

  @Test func `event streams are refused in words where they would leave no room for others`() async throws {
    let folder = try Folder()
    var options = LiveBoardServer.Options()
    options.connectionLimit = 8
    try await withServer(in: folder, options) { client in
      func stream() async throws -> (status: UInt, text: EventIterator) {
        let url = "http://localhost:\(try #require(client.port))/boards/1/events"
        let response = try await Self.streams.execute(HTTPClientRequest(url: url), timeout: .seconds(60))
        return (response.status.code, EventIterator(response.body))
      }
      var open: [EventIterator] = []
      for _ in 0..<6 {
        let (status, events) = try await stream()
        #expect(status == 200)
        #expect(try await events.nextBoard() != nil)
        open.append(events)
      }
      let refused = try await request(client, .get, "/boards/1/events")
      #expect(refused.status == .serviceUnavailable)
      #expect(try message(refused) == "Too many people are here. Try again later.")
      #expect(try await request(client, .post, "/boards/1/cards", #"{"text": "a"}"#).status == .created)
      // One client leaves, and another joins.
      open.removeLast()
      while try await !String(buffer: request(client, .get, "/metrics").body).contains("event_streams 5") {
        await Task.yield()
      }
      #expect(try await stream().status == 200)
    }
  }

  @Test func `a connection on which nothing is asked is closed`() async throws {
    let folder = try Folder()
    var options = LiveBoardServer.Options()
    options.idleLimit = .milliseconds(50)
    try await withServer(in: folder, options) { client in
      let connection = try await RawConnection(port: try #require(client.port))
      #expect(try await connection.ask("") == "")
    }
  }

  @Test func `who is here comes and goes with their streams, though nothing happens`() async throws {
    let folder = try Folder()
    var options = LiveBoardServer.Options()
    // No write that would reveal the disconnected client.
    options.beatInterval = .seconds(86_400)
    try await withServer(in: folder, options) { client in
      try await withEvents(client, "/boards/1/events?name=ann") { ann in
        try await withEvents(client, "/boards/1/events?name=bob") { bob in
          _ = try await bob.attendance { $0.here == ["ann", "bob"] }
          #expect(try await ann.attendance { $0 == Attendance.People(names: ["bob", "ann"], count: 2) } != nil)
        }
        #expect(try await ann.attendance { $0.here == ["ann"] } != nil, "bob's connection is closed, and bob gone")
      }
    }
  }
}
