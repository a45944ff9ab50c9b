import Foundation
import NIOCore
import Puredux
import Synchronization

/// A board in one of its versions, as it goes to its event streams.
struct BoardEvent: Sendable {
  let version: Int
  let message: ByteBuffer
}

/// One scoped store for each board, for all of the board's event streams: a version is encoded once, however many look at it.
final class BoardFeeds: Sendable {
  private let boards: Store<Boards, Action>
  private let feeds = Mutex<[Int: Store<BoardEvent, Action>]>([:])

  init(_ boards: Store<Boards, Action>) {
    self.boards = boards
  }

  /// Only for a board that there is.
  subscript(id: Int) -> Store<BoardEvent, Action> {
    feeds.withLock { feeds in
      if let feed = feeds[id] { return feed }
      let encoded = EncodedBoard()
      let feed = boards.scope(toOptional: { boards in boards.boards[id].map { encoded.event(of: $0) } })
      feeds[id] = feed
      return feed
    }
  }
}

/// The last version that was encoded: a commit that leaves the board alone costs a comparison.
private final class EncodedBoard: Sendable {
  private let last = Mutex<BoardEvent?>(nil)

  func event(of board: Board) -> BoardEvent {
    last.withLock { last in
      if let last, last.version == board.version { return last }
      let event = BoardEvent(version: board.version, message: .event("board", id: board.version, board))
      last = event
      return event
    }
  }
}

extension ByteBuffer {
  /// A server-sent event whose data is a value as JSON.
  static func event(_ name: String, id: Int? = nil, _ value: some Encodable) -> ByteBuffer {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .sortedKeys
    // The encoder breaks no lines, and what it is given here has nothing that it could not encode.
    let data = (try? encoder.encode(value)) ?? Data("null".utf8)
    var buffer = ByteBuffer()
    if let id { buffer.writeString("id: \(id)\n") }
    buffer.writeString("event: \(name)\ndata: ")
    buffer.writeBytes(data)
    buffer.writeString("\n\n")
    return buffer
  }
}
