import NIOCore
import Puredux

/// The state of a board's store: the board, and what led to it.
public struct Room: Codable, Sendable {
  public static let changeLimit = 100

  /// An edit, and the version that it made.
  public struct Change: Codable, Sendable, Equatable {
    public let edit: Edit
    public let version: Int
  }

  public private(set) var board: Board
  /// The last changes, the oldest first.
  public private(set) var changes: [Change] = []
  /// The card that the last edit was about, or why nothing was changed. Read it with `send(_:reading:)`, right after the
  /// edit's own commit; it is not kept.
  public private(set) var outcome = Result<Int, Board.Refusal>.success(0)

  private enum CodingKeys: CodingKey { case board, changes }

  init(id: Int, title: String) { board = Board(id: id, title: title) }

  mutating func reduce(_ edit: Edit) {
    let version = board.version
    outcome = Result { () throws(Board.Refusal) in try board.apply(edit) }
    guard board.version > version else { return }
    changes.append(Change(edit: edit, version: board.version))
    if changes.count > Self.changeLimit { changes.removeFirst() }
  }

  /// A version of the board as it goes to its event streams.
  struct Event: Sendable {
    let version: Int
    let message: ByteBuffer
  }

  /// Encoded once for each version, however many look at it.
  static let event = StateSelector<Room, Event>("event", whenDifferent: \.board.version) { room in
    Event(version: room.board.version, message: .event("board", id: room.board.version, room.board))
  }
}
