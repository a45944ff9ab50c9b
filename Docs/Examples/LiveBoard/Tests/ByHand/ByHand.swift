import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// For comparison: the part of LiveBoard that `load` uses, written by hand without Puredux. It has an actor, a
/// continuation for each stream, and a file to which each edit is appended and synced. It has one board, and no
/// recovery, undo, history, limits, attendance, or shutdown that saves.
actor Board {
  struct Card: Codable {
    let id: Int
    var text: String
  }

  struct Column: Codable {
    let name: String
    var cards: [Card] = []
  }

  struct Shown: Codable {
    let id: Int
    let version: Int
    let columns: [Column]
  }

  struct Answer: Codable {
    let card: Int
    let board: Shown
  }

  struct Unknown: Error {}

  private var version = 1
  private var columns = ["To do", "Doing", "Done"].map { Column(name: $0) }
  private var cardCount = 0
  private var streams: [Int: AsyncStream<ByteBuffer>.Continuation] = [:]
  private var streamCount = 0
  private let file: FileHandle

  init(path: String) throws {
    _ = FileManager.default.createFile(atPath: path, contents: nil)
    file = try FileHandle(forWritingTo: URL(fileURLWithPath: path))
  }

  var shown: Shown { Shown(id: 1, version: version, columns: columns) }

  func add(_ text: String) throws -> Answer {
    cardCount += 1
    columns[0].cards.append(Card(id: cardCount, text: text))
    return try saved(cardCount)
  }

  func edit(_ card: Int, _ text: String) throws -> Answer {
    let (column, row) = try place(of: card)
    columns[column].cards[row].text = text
    return try saved(card)
  }

  func delete(_ card: Int) throws -> Answer {
    let (column, row) = try place(of: card)
    columns[column].cards.remove(at: row)
    return try saved(card)
  }

  func events() throws -> AsyncStream<ByteBuffer> {
    let (stream, continuation) = AsyncStream<ByteBuffer>.makeStream(bufferingPolicy: .bufferingNewest(1))
    streamCount += 1
    let number = streamCount
    streams[number] = continuation
    continuation.onTermination = { _ in Task { await self.end(number) } }
    continuation.yield(try event())
    return stream
  }

  private func end(_ number: Int) { streams[number] = nil }

  private func saved(_ card: Int) throws -> Answer {
    version += 1
    try file.write(contentsOf: try JSONEncoder().encode(columns.flatMap(\.cards).first { $0.id == card }))
    try file.synchronize()
    let event = try event()
    for stream in streams.values { stream.yield(event) }
    return Answer(card: card, board: shown)
  }

  private func event() throws -> ByteBuffer {
    var buffer = ByteBuffer(string: "id: \(version)\nevent: board\ndata: ")
    buffer.writeBytes(try JSONEncoder().encode(shown))
    buffer.writeString("\n\n")
    return buffer
  }

  private func place(of id: Int) throws -> (column: Int, row: Int) {
    for (column, cards) in columns.map(\.cards).enumerated() {
      if let row = cards.firstIndex(where: { $0.id == id }) { return (column, row) }
    }
    throw Unknown()
  }
}

extension Board.Shown: ResponseEncodable {}
extension Board.Answer: ResponseEncodable {}

@main struct ByHand {
  struct Text: Decodable {
    let text: String
  }

  /// - Parameter arguments: The port, and the path of a file.
  static func main() async throws {
    let board = try Board(path: CommandLine.arguments[2])
    let router = Router()
    router.get("/boards/1") { _, _ in await board.shown }
    router.post("/boards/1/cards") { request, context in
      EditedResponse(
        status: .created, response: try await board.add(request.decode(as: Text.self, context: context).text))
    }
    router.patch("/boards/1/cards/:card") { request, context in
      try await board.edit(
        context.parameters.require("card", as: Int.self), request.decode(as: Text.self, context: context).text)
    }
    router.delete("/boards/1/cards/:card") { _, context in
      try await board.delete(context.parameters.require("card", as: Int.self))
    }
    router.get("/boards/1/events") { _, _ in
      let events = try await board.events()
      return Response(
        status: .ok, headers: [.contentType: "text/event-stream"],
        body: ResponseBody { writer in
          for await event in events { try await writer.write(event) }
          try await writer.finish(nil)
        })
    }
    let address = BindAddress.hostname("127.0.0.1", port: Int(CommandLine.arguments[1]) ?? 8080)
    try await Application(router: router, configuration: ApplicationConfiguration(address: address)).runService()
  }
}
